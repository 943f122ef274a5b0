// The kernels of ops/ that pass over vectors, beside the best that this machine can do with the same bytes: bytes read
// and written per second by one thread, from each level of the memory hierarchy.
//
// A kernel's limit is the lower of two rates that are measured in turns with it. `streams`: a loop that reads (and,
// where the kernel does, writes) as many streams of as many bytes, with next to no arithmetic. `in L1`: the kernel
// itself on data that stay in the first level, so that its conversions and multiply-adds are all that takes time. The
// best of many short samples counts, since others use this machine too.
//
// Kernels of sparse vectors have a density, and go by elements that are normally distributed. The bytes of `select` and
// `exact_kth`, the exact top k by the hint of the pass before, are those of the residual; of `merge_add` those of both
// lists and their sum; of `scatter_add` those of its list, whose region is what lies in a level.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
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
#include "ops/adasum/linear.h"
#include "ops/kernel.h"
#include "ops/sparse/sparse_sum.h"
#include "ops/sparse/top_k.h"

namespace lsched::bench {
namespace {

constexpr std::size_t k_most_inputs = 2;
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
constexpr std::array k_kernels{kernel_kind{"dot_norms", 2, false, dot_norms_of},
                               kernel_kind{"scaled_add", 2, true, scaled_add_of}, kernel_kind{"sum", 2, true, sum_of}};
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

// ---- sparse vectors

/// What a kernel of sparse vectors works in.
struct sparse_memory {
  explicit sparse_memory(std::size_t bytes) : inputs(bytes), outputs(bytes) {}
  sparse_memory(std::size_t input_bytes, std::size_t output_bytes) : inputs(input_bytes), outputs(output_bytes) {}

  arena inputs;
  arena outputs;
  std::vector<std::byte> items;
  std::vector<std::uint64_t> touched;
};

/// A kernel on one piece of memory after the other, and a loop that moves the bytes that count.
struct sparse_cell {
  std::size_t bytes;  ///< of a piece
  std::size_t pieces;
  std::function<void(std::size_t piece)> kernel;
  std::function<void(std::size_t piece)> loop;
};

/// Of which the given part is not below it in magnitude, if numbers are normally distributed.
double normal_threshold(double density) {
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) (std::erfc((low + high) / 2 / std::sqrt(2)) > density ? low : high) = (low + high) / 2;
  return low;
}

/// Numbers from a table, whose last bits differ.
template <class Number>
void fill_normal(std::byte* to, std::size_t bytes) {
  constexpr std::size_t k_size = std::size_t{1} << 16;
  static const std::vector<Number> table = [] {
    std::vector<Number> made(k_size);
    for (std::size_t i = 0; i < k_size; ++i)
      made[i] =
          static_cast<Number>(normal_threshold((static_cast<double>(i / 2) + 0.5) / (k_size / 2)) * (i % 2 ? 1 : -1));
    return made;
  }();
  std::uint64_t state = 1;
  for (std::size_t i = 0; i + sizeof(Number) <= bytes; i += sizeof(Number)) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto word = static_cast<std::uint32_t>(state >> 32);
    Number number = table[word >> 16];
    std::uint16_t low = 0;
    std::memcpy(&low, &number, sizeof low);
    low = static_cast<std::uint16_t>(low ^ (word & 0x3FF));
    std::memcpy(&number, &low, sizeof low);
    std::memcpy(to + i, &number, sizeof number);
  }
}

/// A list of so many items, whose indices lie at random distances, 1 / density on average. The seed tells lists apart.
void fill_list(std::byte* to, dtype type, std::size_t count, double density, std::uint64_t seed) {
  const std::uint64_t one = type == dtype::f64    ? 0x3FF0000000000000U
                            : type == dtype::f32  ? 0x3F800000U
                            : type == dtype::bf16 ? 0x3F80U
                                                  : 0x3C00U;
  const auto span = static_cast<std::uint64_t>(2 / density) - 1;
  std::uint64_t state = seed;
  std::uint32_t index = 0;
  for (std::size_t i = 0; i < count; ++i, to += item_size(type)) {
    std::memcpy(to, &index, sizeof index);
    std::memcpy(to + sizeof index, &one, size_of(type));
    state = state * 6364136223846793005U + 1442695040888963407U;
    index += static_cast<std::uint32_t>(1 + (state >> 32) % span);
  }
}

/// Passes over a residual.
sparse_cell over_residual(sparse_memory& in, dtype type, const level& at,
                          const std::function<void(const std::byte* residual, std::size_t count)>& run) {
  const std::size_t unit = size_of(residual_of(type)), count = at.window / unit, pieces = at.bytes / at.window;
  std::byte* const residual = in.inputs.stream(0, 0);
  unit == sizeof(float) ? fill_normal<float>(residual, at.bytes) : fill_normal<double>(residual, at.bytes);
  in.items.resize(std::max<std::size_t>(count / 4, 1) * item_size(type));
  return {at.window, pieces, [=](std::size_t piece) { run(residual + piece * at.window, count); },
          [=](std::size_t piece) {
            const void* from = residual + piece * at.window;
            read_streams(&from, 1, at.window);
          }};
}

sparse_cell select_cell(sparse_memory& in, dtype type, double density, const level& at) {
  const magnitude_range range{magnitude_in(residual_of(type), normal_threshold(density))};
  return over_residual(in, type, at,
                       [&in, range, run = find_select(type)](const std::byte* residual, std::size_t count) {
                         run(residual, count, 0, range, in.items.data(), count / 4);
                       });
}

sparse_cell exact_kth_cell(sparse_memory& in, dtype type, double density, const level& at) {
  const auto hint = std::make_shared<top_k_hint>();
  return over_residual(in, type, at, [=, &in, run = find_top_k(type)](const std::byte* residual, std::size_t count) {
    // Without a gradient a residual is only read.
    const accumulation from{const_cast<std::byte*>(residual), nullptr, 1, count, 0};
    const auto k = static_cast<std::size_t>(static_cast<double>(count) * density);
    run(from, std::max<std::size_t>(k, 1), nan_policy::propagate, in.items.data(), count / 4, *hint);
  });
}

/// The lists of a piece lie behind each other, so that a loop can copy both.
sparse_cell merge_add_cell(sparse_memory& in, dtype type, double density, const level& at) {
  const std::size_t bytes = at.window / 4 / k_line * k_line, count = bytes / item_size(type);
  const std::size_t pieces = std::max<std::size_t>(1, at.bytes / at.window * 2 / 3);
  std::byte* const lists = in.inputs.stream(0, 0);
  std::byte* const sums = in.outputs.stream(0, 0);
  for (std::size_t list = 0; list < 2 * pieces; ++list) fill_list(lists + list * bytes, type, count, density, list);
  return {4 * bytes, pieces,
          [=, run = find_merge_add(type)](std::size_t piece) {
            const std::byte* const lower = lists + 2 * piece * bytes;
            run(lower, count, lower + bytes, count, sums + 2 * piece * bytes);
          },
          [=](std::size_t piece) {
            const void* from = lists + 2 * piece * bytes;
            mix_streams(&from, 1, sums + 2 * piece * bytes, 2 * bytes);
          }};
}

sparse_cell scatter_add_cell(sparse_memory& in, dtype type, double density, const level& at) {
  const std::size_t region = at.window / size_of(residual_of(type));
  const std::size_t pieces = std::max<std::size_t>(1, at.bytes / at.window / 3);
  // A list ends before its region does.
  const auto count = static_cast<std::size_t>(static_cast<double>(region) * density * 0.9);
  const std::size_t bytes = (count * item_size(type) / k_line + 1) * k_line;
  std::byte* const lists = in.inputs.stream(0, 0);
  std::byte* const sums = in.outputs.stream(0, 0);
  std::memset(sums, 0, pieces * at.window);
  in.touched.assign(bitmap_words(region), 0);
  const auto kept = [&](std::byte* list) {
    std::size_t n = 0;
    for (std::uint32_t index = 0; n < count; ++n) {
      std::memcpy(&index, list + n * item_size(type), sizeof index);
      if (index >= region) break;
    }
    return n;
  };
  std::vector<std::size_t> counts;
  for (std::size_t list = 0; list < pieces; ++list) {
    fill_list(lists + list * bytes, type, count, density, list);
    counts.push_back(kept(lists + list * bytes));
  }
  return {*std::min_element(counts.begin(), counts.end()) * item_size(type), pieces,
          [=, &in, run = find_scatter_add(type)](std::size_t piece) {
            run(lists + piece * bytes, counts[piece], sums + piece * at.window, in.touched.data());
          },
          [=](std::size_t piece) {
            const void* from = lists + piece * bytes;
            read_streams(&from, 1, bytes);
          }};
}

struct sparse_kind {
  const char* name;
  sparse_cell (*of)(sparse_memory& in, dtype type, double density, const level& at);
};
constexpr std::array k_sparse_kernels{sparse_kind{"select", select_cell}, sparse_kind{"exact_kth", exact_kth_cell},
                                      sparse_kind{"scatter_add", scatter_add_cell},
                                      sparse_kind{"merge_add", merge_add_cell}};
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
        levels_(levels()),
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

  /// Overwrites the memory that dense kernels work in.
  rates measure(const sparse_kind& kind, dtype type, double density, const level& at) {
    const sparse_cell cell = kind.of(memory_, type, density, at);
    const sparse_cell small_cell = kind.of(small_memory_, type, density, levels_.front());
    sparse_samples here(cell), first(small_cell);
    constexpr double k_never = std::numeric_limits<double>::infinity();
    double of_kernel = k_never, of_loop = k_never, of_first = k_never;
    for (const double warm_up : {here.of_kernel(), here.of_loop(), first.of_kernel()}) keep(&warm_up);
    const auto begin = clock::now();
    do {
      of_kernel = std::min(of_kernel, here.of_kernel());
      of_loop = std::min(of_loop, here.of_loop());
      of_first = std::min(of_first, first.of_kernel());
    } while (ms_between(begin, clock::now()) < cell_seconds_ * 1e3);
    return {here.rate(of_kernel), here.rate(of_loop), first.rate(of_first)};
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

int run_kernels(const kernels_options& options) {
  reporter out("kernels", options.json);
  bench_of_kernels bench(options.cell_seconds);
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
  for (const sparse_kind& kind : k_sparse_kernels)
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
  if (!is_right) out.say("a result was wrong");
  return is_right ? 0 : 1;
}

}  // namespace lsched::bench
