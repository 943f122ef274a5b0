// Measures the kernels of ops/ that process whole vectors, and the limit of this machine for the same bytes. The
// results are bytes read and written per second by one thread, in each level of the memory hierarchy.
//
// The limit of a kernel is the lower of two rates, which are measured alternately with the kernel. `streams` is the
// rate of a loop that reads (and writes, if the kernel does) the same number of streams of the same size, with almost
// no arithmetic. `in L1` is the rate of the kernel on data that stay in the L1 cache, so that only its arithmetic takes
// time. Each rate is the best of many short samples, because other programs use the machine too.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "microbench/engine/engine_parts.h"
#include "microbench/engine/kernel_cells.h"
#include "ops/simd_targets.h"

namespace lsched::bench {
namespace {

constexpr std::array k_types{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

/// Takes samples of a cell. The samples use the pieces of the cell in turn. A sample repeats its piece until it is long
/// enough.
class samples {
 public:
  explicit samples(kernel_cell cell)
      : cell_(std::move(cell)),
        repeats_(std::max<std::size_t>(1, k_least_bytes / std::max<std::size_t>(cell_.bytes, 1))) {}

  /// Returns the duration in seconds of a sample of the kernel.
  double of_kernel() { return sample(cell_.kernel); }
  double of_loop() { return sample(cell_.loop); }
  /// Returns the rate in GB/s of a sample of this duration.
  double rate(double seconds) const { return static_cast<double>(cell_.bytes * repeats_) / seconds / 1e9; }

 private:
  static constexpr std::size_t k_least_bytes = std::size_t{1} << 20;

  double sample(const std::function<void(std::size_t)>& run) {
    const double us = us_of([&] {
      for (std::size_t i = 0; i < repeats_; ++i) run(piece_);
    });
    piece_ = (piece_ + 1) % cell_.pieces;
    return us / 1e6;
  }

  const kernel_cell cell_;
  std::size_t repeats_;
  std::size_t piece_ = 0;
};

struct rates {
  double kernel = 0;
  double streams = 0;
  double in_first = 0;
  double limit() const { return std::min(streams, in_first); }
};

class bench_of_kernels {
 public:
  explicit bench_of_kernels(double cell_seconds)
      : cell_seconds_(cell_seconds),
        levels_(memory_levels()),
        memory_(levels_.back().bytes, levels_.back().bytes / 3),
        small_memory_(std::size_t{1} << 20, std::size_t{1} << 20) {}

  std::span<const level> measured_levels() const { return std::span(levels_).subspan(1); }

  /// Measures kernel, loop and kernel in L1 in turn. Returns the best sample of each.
  rates measure(const kernel_kind& kind, dtype type, double density, const level& place) {
    samples here(kind.cell_of(memory_, type, density, place));
    samples first(kind.cell_of(small_memory_, type, density, levels_.front()));
    for (const double warm_up : {here.of_kernel(), here.of_loop(), first.of_kernel()}) keep(&warm_up);
    constexpr double k_never = std::numeric_limits<double>::infinity();
    double of_kernel = k_never, of_loop = k_never, of_first = k_never;
    const auto begin = clock::now();
    do {
      of_kernel = std::min(of_kernel, here.of_kernel());
      of_loop = std::min(of_loop, here.of_loop());
      of_first = std::min(of_first, first.of_kernel());
    } while (ms_between(begin, clock::now()) < cell_seconds_ * 1e3);
    return {here.rate(of_kernel), here.rate(of_loop), first.rate(of_first)};
  }

  /// Throws `failed` unless a dense kernel gives the same bits with the best and with the lowest instruction set.
  void check(const kernel_kind& kind, dtype type) {
    std::array<std::vector<std::byte>, 2> results;
    for (std::vector<std::byte>& bits : results) {
      kind.cell_of(small_memory_, type, 0, levels_.front()).kernel(0);
      const std::byte* const output = small_memory_.outputs.stream(0, 0);
      bits.assign(output, output + levels_.front().window / 3);
      const auto* const sums = reinterpret_cast<const std::byte*>(small_memory_.sums);
      bits.insert(bits.end(), sums, sums + sizeof small_memory_.sums);
      std::size_t last = 0;
      while (!simd_target_at(last + 1).empty()) ++last;
      force_simd_target(simd_target_at(last));
    }
    force_simd_target("");
    if (results[0] != results[1]) throw failed(std::string(kind.name) + " gives other bits with another SIMD target");
  }

 private:
  double cell_seconds_;
  std::array<level, 4> levels_;
  kernel_memory memory_;
  kernel_memory small_memory_;
};

}  // namespace

void measure_kernels(double cell_seconds, reporter& out) {
  bench_of_kernels bench(cell_seconds);
  for (const kernel_kind& kind : kernels_of_vectors())
    for (const dtype type : k_types)
      for (const double density : kind.densities) {
        if (density == 0) bench.check(kind, type);
        for (const level& place : bench.measured_levels()) {
          out.progress("%s %s %s", kind.name, std::string(name_of(type)).c_str(), place.name);
          const rates measured = bench.measure(kind, type, density, place);
          result line{{"bench", "kernel"},   {"name", kind.name},       {"dtype", name_of(type)},
                      {"level", place.name}, {"gbps", measured.kernel}, {"limit_gbps", measured.limit()}};
          if (density > 0) line["density"] = density;
          out.add(std::move(line), {{"ratio", measured.kernel / measured.limit()},
                                    {"streams", measured.streams},
                                    {"in_first", measured.in_first}});
        }
      }
  out.print({column("kernel", "name"), column("type", "dtype"), column("density", "density"), column("level", "level"),
             column("GB/s", "gbps", 1), column("limit", "limit_gbps", 1), column("ratio", "ratio", 2),
             column("streams", "streams", 1), column("in L1", "in_first", 1)});
  std::string sizes;
  for (const level& each : bench.measured_levels()) sizes += text(" %s %s", each.name, size_text(each.bytes).c_str());
  out.say("One thread, %s; GB/s read and written, best of many samples. Bytes in use:%s.",
          std::string(simd_target()).c_str(), sizes.c_str());
}

}  // namespace lsched::bench
