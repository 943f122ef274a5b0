// The kernels of ops/ that pass over vectors, beside the best that this machine can do with the same bytes: bytes read and
// written per second by one thread, from each level of the memory hierarchy.
//
// A kernel's limit is the lower of two rates that are measured in turns with it. `streams`: a loop that reads (and, where
// the kernel does, writes) as many streams of as many bytes, with next to no arithmetic. `in L1`: the kernel itself on
// data that stay in the first level, so that its conversions and multiply-adds are all that takes time. The best of many
// short samples counts, since others use this machine too.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "microbench/benchmarks.h"
#include "microbench/harness.h"
#include "ops/gram_pairs.h"
#include "ops/kernel.h"
#include "ops/linear.h"

namespace lsched::bench {
namespace {

constexpr std::size_t k_most_inputs = 8;
constexpr std::size_t k_line = 64;

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
pass gram_of(dtype type) {
  return [run = find_gram(type)](const void* const* x, void* c, std::size_t count) {
    run(x, k_most_inputs, count, static_cast<double*>(c));
  };
}
pass compensated_gram_of(dtype type) {
  return [run = find_compensated_gram(type)](const void* const* x, void* c, std::size_t count) {
    run(x, k_most_inputs, count, static_cast<double*>(c));
  };
}
pass weighted_sum_of(dtype type) {
  return [run = find_weighted_sum(type)](const void* const* x, void* c, std::size_t count) {
    constexpr std::array<double, k_most_inputs> weights{0.1, 0.2, -0.1, 0.3, 0.1, 0.2, -0.3, 0.5};
    run(weights.data(), x, k_most_inputs, c, count);
  };
}

constexpr std::array k_kernels{kernel_kind{"dot_norms", 2, false, dot_norms_of},
                               kernel_kind{"scaled_add", 2, true, scaled_add_of},
                               kernel_kind{"sum", 2, true, sum_of},
                               kernel_kind{"gram8", 8, false, gram_of},
                               kernel_kind{"gram8_compensated", 8, false, compensated_gram_of},
                               kernel_kind{"weighted_sum8", 8, true, weighted_sum_of}};
constexpr std::array k_types{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

// ---- the loops to compare with

/// A cache line, as wide as the registers of the target that a clone of a loop is made for.
using line [[gnu::vector_size(k_line), gnu::may_alias]] = std::uint64_t;
constexpr std::size_t k_lines = 64;  ///< of one stream before the next one has its turn

#if defined(__x86_64__)
[[gnu::target_clones("default", "avx2", "avx512f")]]
#endif
void read_streams(const void* const* x, std::size_t inputs, std::size_t bytes) {
  line a{}, b{}, c{}, d{};
  for (std::size_t done = 0; done + k_lines * k_line <= bytes; done += k_lines * k_line)
    for (std::size_t k = 0; k < inputs; ++k) {
      const line* from = static_cast<const line*>(x[k]) + done / k_line;
      for (std::size_t i = 0; i < k_lines; i += 4) a ^= from[i], b ^= from[i + 1], c ^= from[i + 2], d ^= from[i + 3];
    }
  a ^= b ^ c ^ d;
  keep(&a);
}

#if defined(__x86_64__)
[[gnu::target_clones("default", "avx2", "avx512f")]]
#endif
void mix_streams(const void* const* x, std::size_t inputs, void* to, std::size_t bytes) {
  line* out = static_cast<line*>(to);
  for (std::size_t i = 0; i + 2 <= bytes / k_line; i += 2) {
    const line* first = static_cast<const line*>(x[0]) + i;
    line a = first[0], b = first[1];
    for (std::size_t k = 1; k < inputs; ++k) {
      const line* from = static_cast<const line*>(x[k]) + i;
      a ^= from[0], b ^= from[1];
    }
    out[i] = a, out[i + 1] = b;
  }
  keep(to);
}

// ---- where

struct level {
  const char* name;
  std::size_t bytes;   ///< of all streams together
  std::size_t window;  ///< of them, those of a sample; the next sample has the next ones
};

std::size_t cache_bytes(int name, std::size_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : otherwise;
}

/// Half a cache of its own, a few megabytes of one that cores share, and more than all caches hold.
std::array<level, 4> levels() {
  constexpr std::size_t k_mib = std::size_t{1} << 20;
  const std::size_t first = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32768) / 2;
  const std::size_t second = cache_bytes(_SC_LEVEL2_CACHE_SIZE, k_mib);
  const std::size_t third = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 32 * k_mib);
  const std::size_t memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t shared = std::clamp(8 * second, second, std::max(second, third / 2));
  const std::size_t beyond = std::max(shared, std::min(2 * third, memory / 4));
  return {{{"L1", first, first}, {"L2", second / 2, second / 2}, {"L3", shared, shared}, {"DRAM", beyond, 16 * k_mib}}};
}

/// Memory for all streams. As elements of any type its words are numbers between 2^-64 and 2.
class arena {
 public:
  explicit arena(std::size_t bytes) : bytes_(bytes + k_most_inputs * 2 * k_page) {
    void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw failed("no memory for vectors that no cache holds");
    start_ = static_cast<std::byte*>(mapped);
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < bytes_; i += sizeof state) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const std::uint64_t word = (state >> 3 & 0x03FF03FF03FF03FFU) | 0x3C003C003C003C00U;
      std::memcpy(start_ + i, &word, sizeof word);
    }
  }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena() { munmap(start_, bytes_); }

  /// Beginnings of streams of so many bytes, each at another place of its page.
  std::byte* stream(std::size_t k, std::size_t bytes) const {
    return start_ + k * ((bytes + k_page - 1) / k_page * k_page + 5 * k_line);
  }

 private:
  static constexpr std::size_t k_page = 4096;
  std::size_t bytes_;
  std::byte* start_;
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
  alignas(k_line) std::byte sums_[gram_pairs_size(k_most_inputs) * sizeof(double)];
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
        levels_(levels()),
        inputs_(levels_.back().bytes),
        outputs_(levels_.back().bytes / 3) {}

  std::span<const level> measured_levels() const { return std::span(levels_).subspan(1); }

  rates measure(const kernel_kind& kind, dtype type, const level& at) const {
    const pass run = kind.of(type);
    const auto kernel = [&](const void* const* x, void* c, std::size_t bytes) { run(x, c, bytes / size_of(type)); };
    const auto loop = [&](const void* const* x, void* c, std::size_t bytes) {
      kind.writes ? mix_streams(x, kind.inputs, c, bytes) : read_streams(x, kind.inputs, bytes);
    };
    streams here(kind, at, inputs_, outputs_);
    streams first(kind, levels_.front(), inputs_, outputs_);
    constexpr double k_never = std::numeric_limits<double>::infinity();
    double of_kernel = k_never, of_loop = k_never, of_first = k_never;
    for (const double warm_up : {here.sample(kernel), here.sample(loop), first.sample(kernel)}) keep(&warm_up);
    const auto begin = clock::now();
    do {
      of_kernel = std::min(of_kernel, here.sample(kernel));
      of_loop = std::min(of_loop, here.sample(loop));
      of_first = std::min(of_first, first.sample(kernel));
    } while (ms_between(begin, clock::now()) < cell_seconds_ * 1e3);
    return {here.rate(of_kernel), here.rate(of_loop), first.rate(of_first)};
  }

  /// Whether the kernel gives the bits that the worst target has.
  bool is_right(const kernel_kind& kind, dtype type) const {
    std::array<std::vector<std::byte>, 2> results;
    for (std::vector<std::byte>& result : results) {
      result.resize(std::max<std::size_t>(k_checked * size_of(type), gram_pairs_size(k_most_inputs) * sizeof(double)));
      std::array<const void*, k_most_inputs> x{};
      for (std::size_t k = 0; k < k_most_inputs; ++k) x[k] = inputs_.stream(k, k_checked * size_of(type));
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

  double cell_seconds_;
  std::array<level, 4> levels_;
  arena inputs_;
  arena outputs_;
};

}  // namespace

int run_kernels(const kernels_options& options) {
  reporter out("kernels", options.json);
  const bench_of_kernels bench(options.cell_seconds);
  table lines({"kernel", "type", "level", "GB/s", "limit", "ratio", "streams", "in L1"});
  bool is_right = true;
  for (const kernel_kind& kind : k_kernels)
    for (const dtype type : k_types) {
      is_right = bench.is_right(kind, type) && is_right;
      for (const level& at : bench.measured_levels()) {
        const std::string type_name(name_of(type));
        out.progress("%s %s %s", kind.name, type_name.c_str(), at.name);
        const rates measured = bench.measure(kind, type, at);
        lines.add({kind.name, type_name, at.name, text("%.1f", measured.kernel), text("%.1f", measured.limit()),
                   text("%.2f", measured.kernel / measured.limit()), text("%.1f", measured.streams),
                   text("%.1f", measured.in_first)});
        out.json({{"bench", "kernel"},
                  {"name", kind.name},
                  {"dtype", type_name},
                  {"level", at.name},
                  {"gbps", measured.kernel},
                  {"limit_gbps", measured.limit()}});
      }
    }
  out.print(lines);
  std::string sizes;
  for (const level& at : bench.measured_levels()) sizes += text(" %s %s", at.name, size_text(at.bytes).c_str());
  out.say("One thread, %s; GB/s read and written, best of many samples. Bytes in use:%s.",
          std::string(simd_target()).c_str(), sizes.c_str());
  if (!is_right) out.say("a result was wrong");
  return is_right ? 0 : 1;
}

}  // namespace lsched::bench
