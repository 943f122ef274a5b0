// The kernels of ops/ that pass over vectors, beside the best that this machine can do with the same bytes: bytes read
// and written per second by one thread, from each level of the memory hierarchy.
//
// A kernel's limit is the lower of two rates that are measured in turns with it. `streams`: a loop that reads (and,
// where the kernel does, writes) as many streams of as many bytes, with next to no arithmetic. `in L1`: the kernel
// itself on data that stay in the first level, so that its conversions and multiply-adds are all that takes time. The
// best of many short samples counts, since others use this machine too.

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "microbench/engine/engine_parts.h"
#include "microbench/engine/memory_levels.h"
#include "microbench/engine/sparse_cells.h"
#include "ops/adasum/adasum.h"
#include "ops/kernel.h"

namespace lsched::bench {
namespace {

// ---- what is measured

using pass = std::function<void(const void* const* x, void* c, std::size_t count)>;

struct kernel_kind {
  const char* name;
  std::size_t inputs;
  bool writes;
  pass (*of)(dtype type);
};

pass dot_norms_of(dtype type) {
  return [run = find_dot_norms(type)](const void* const* x, void* c, std::size_t count) {
    run(x[0], x[1], count, static_cast<double*>(c));
  };
}
pass scaled_add_of(dtype type) {
  return [run = find_scaled_add(type)](const void* const* x, void* c, std::size_t count) {
    run(0.75, x[0], 0.625, x[1], c, count);
  };
}
pass sum_of(dtype type) {
  return [run = find_reduce(kernel::sum, type)](const void* const* x, void* c, std::size_t count) {
    run(x[0], x[1], c, count);
  };
}
constexpr std::array k_kernels{kernel_kind{"dot_norms", 2, false, dot_norms_of},
                               kernel_kind{"scaled_add", 2, true, scaled_add_of}, kernel_kind{"sum", 2, true, sum_of}};
constexpr std::array k_types{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

constexpr std::array k_densities{0.01, 0.001};

/// The pieces of a cell in turn, each as often as makes a sample.
class sparse_samples {
 public:
  explicit sparse_samples(const sparse_cell& cell)
      : cell_(cell), repeats_(std::max<std::size_t>(1, k_least_bytes / std::max<std::size_t>(cell.bytes, 1))) {}

  double sample(const std::function<void(std::size_t)>& run) {
    const auto begin = clock::now();
    for (std::size_t i = 0; i < repeats_; ++i) run(piece_);
    const double seconds = ns_between(begin, clock::now()) / 1e9;
    piece_ = (piece_ + 1) % cell_.pieces;
    return seconds;
  }
  double of_kernel() { return sample(cell_.kernel); }
  double of_loop() { return sample(cell_.loop); }
  double rate(double seconds) const { return static_cast<double>(cell_.bytes * repeats_) / seconds / 1e9; }

 private:
  static constexpr std::size_t k_least_bytes = std::size_t{1} << 19;

  const sparse_cell& cell_;
  std::size_t repeats_;
  std::size_t piece_ = 0;
};

/// The streams of one kernel at one level. Results go to memory of their own: no kernel reads what another wrote.
class streams {
 public:
  streams(const kernel_kind& kind, const level& at, const arena& inputs, const arena& outputs)
      : kind_(kind), inputs_(inputs), outputs_(outputs), count_(kind.inputs + (kind.writes ? 1 : 0)) {
    const auto whole = [&](std::size_t bytes) { return std::max(bytes / count_ / k_block * k_block, k_block); };
    window_ = whole(at.window);
    stream_ = std::max(whole(at.bytes), window_);
    repeats_ = std::max<std::size_t>(1, k_least_bytes / bytes());
  }

  /// Seconds of one sample. Each takes up where the one before it ended.
  template <class Run>
  double sample(const Run& run) {
    if ((place_ + 1) * window_ > stream_) place_ = 0;
    std::array<const void*, k_most_inputs> x{};
    for (std::size_t k = 0; k < kind_.inputs; ++k) x[k] = inputs_.stream(k, stream_) + place_ * window_;
    std::byte* c = kind_.writes ? outputs_.stream(0, stream_) + place_ * window_ : sums_;
    ++place_;
    const auto begin = clock::now();
    for (std::size_t i = 0; i < repeats_; ++i) run(x.data(), c, window_);
    return ns_between(begin, clock::now()) / 1e9;
  }

  /// Read and written by a run, and by a sample.
  std::size_t bytes() const { return count_ * window_; }
  double rate(double seconds) const { return static_cast<double>(bytes() * repeats_) / seconds / 1e9; }

 private:
  static constexpr std::size_t k_block = k_lines * k_line;
  static constexpr std::size_t k_least_bytes = std::size_t{1} << 21;

  const kernel_kind& kind_;
  const arena& inputs_;
  const arena& outputs_;
  std::size_t count_;
  std::size_t window_ = 0;
  std::size_t stream_ = 0;
  std::size_t repeats_ = 1;
  std::size_t place_ = 0;
  alignas(k_line) std::byte sums_[k_dot_sums * sizeof(double)];
};

// ---- measuring

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
        small_memory_(std::size_t{1} << 20) {}

  std::span<const level> measured_levels() const { return std::span(levels_).subspan(1); }

  rates measure(const kernel_kind& kind, dtype type, const level& at) const {
    const pass run = kind.of(type);
    const auto kernel = [&](const void* const* x, void* c, std::size_t bytes) { run(x, c, bytes / size_of(type)); };
    const auto loop = [&](const void* const* x, void* c, std::size_t bytes) {
      kind.writes ? mix_streams(x, kind.inputs, c, bytes) : read_streams(x, kind.inputs, bytes);
    };
    streams here(kind, at, memory_.inputs, memory_.outputs);
    streams first(kind, levels_.front(), memory_.inputs, memory_.outputs);
    return best_of([&] { return here.sample(kernel); }, [&] { return here.sample(loop); },
                   [&] { return first.sample(kernel); }, here, first);
  }

  /// Overwrites the memory that dense kernels work in.
  rates measure(const sparse_kind& kind, dtype type, double density, const level& at) {
    const sparse_cell cell = kind.of(memory_, type, density, at);
    const sparse_cell small_cell = kind.of(small_memory_, type, density, levels_.front());
    sparse_samples here(cell), first(small_cell);
    return best_of([&] { return here.of_kernel(); }, [&] { return here.of_loop(); }, [&] { return first.of_kernel(); },
                   here, first);
  }

  /// Whether the kernel gives the bits that the worst target has.
  bool is_right(const kernel_kind& kind, dtype type) const {
    std::array<std::vector<std::byte>, 2> results;
    for (std::vector<std::byte>& result : results) {
      result.resize(std::max<std::size_t>(k_checked * size_of(type), k_dot_sums * sizeof(double)));
      std::array<const void*, k_most_inputs> x{};
      for (std::size_t k = 0; k < k_most_inputs; ++k) x[k] = memory_.inputs.stream(k, k_checked * size_of(type));
      kind.of(type)(x.data(), result.data(), k_checked);
      std::size_t last = 0;
      while (!simd_target_at(last + 1).empty()) ++last;
      force_simd_target(simd_target_at(last));
    }
    force_simd_target("");
    return results[0] == results[1];
  }

 private:
  static constexpr std::size_t k_checked = 1500;  ///< elements

  /// The three ways to take a sample take turns; the best of each counts.
  template <class Kernel, class Loop, class InFirst, class Samples>
  rates best_of(const Kernel& kernel, const Loop& loop, const InFirst& in_first, const Samples& here,
                const Samples& first) const {
    for (const double warm_up : {kernel(), loop(), in_first()}) keep(&warm_up);
    constexpr double k_never = std::numeric_limits<double>::infinity();
    double of_kernel = k_never, of_loop = k_never, of_first = k_never;
    const auto begin = clock::now();
    do {
      of_kernel = std::min(of_kernel, kernel());
      of_loop = std::min(of_loop, loop());
      of_first = std::min(of_first, in_first());
    } while (ms_between(begin, clock::now()) < cell_seconds_ * 1e3);
    return {here.rate(of_kernel), here.rate(of_loop), first.rate(of_first)};
  }

  double cell_seconds_;
  std::array<level, 4> levels_;
  sparse_memory memory_;
  sparse_memory small_memory_;
};

/// For people, and for scripts.
class kernel_report {
 public:
  explicit kernel_report(reporter& out)
      : out_(out), lines_({"kernel", "type", "density", "level", "GB/s", "limit", "ratio", "streams", "in L1"}) {}

  /// A density of 0: there is none.
  void add(const char* name, dtype type, double density, const char* level, const rates& measured) {
    const std::string type_name(name_of(type));
    lines_.add({name, type_name, density > 0 ? text("%g", density) : "", level, text("%.1f", measured.kernel),
                text("%.1f", measured.limit()), text("%.2f", measured.kernel / measured.limit()),
                text("%.1f", measured.streams), text("%.1f", measured.in_first)});
    nlohmann::json said{{"bench", "kernel"},       {"name", name},
                        {"dtype", type_name},      {"level", level},
                        {"gbps", measured.kernel}, {"limit_gbps", measured.limit()}};
    if (density > 0) said["density"] = density;
    out_.json(said);
  }
  void print() { out_.print(lines_); }

 private:
  reporter& out_;
  table lines_;
};

}  // namespace

bool measure_kernels(double cell_seconds, reporter& out) {
  bench_of_kernels bench(cell_seconds);
  kernel_report report(out);
  bool is_right = true;
  for (const kernel_kind& kind : k_kernels)
    for (const dtype type : k_types) {
      is_right = bench.is_right(kind, type) && is_right;
      for (const level& at : bench.measured_levels()) {
        out.progress("%s %s %s", kind.name, std::string(name_of(type)).c_str(), at.name);
        report.add(kind.name, type, 0, at.name, bench.measure(kind, type, at));
      }
    }
  for (const sparse_kind& kind : sparse_kernels())
    for (const dtype type : k_types)
      for (const double density : k_densities)
        for (const level& at : bench.measured_levels()) {
          out.progress("%s %s %g %s", kind.name, std::string(name_of(type)).c_str(), density, at.name);
          report.add(kind.name, type, density, at.name, bench.measure(kind, type, density, at));
        }
  report.print();
  std::string sizes;
  for (const level& at : bench.measured_levels()) sizes += text(" %s %s", at.name, size_text(at.bytes).c_str());
  out.say("One thread, %s; GB/s read and written, best of many samples. Bytes in use:%s.",
          std::string(simd_target()).c_str(), sizes.c_str());
  return is_right;
}

}  // namespace lsched::bench
