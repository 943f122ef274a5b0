#include "microbench/engine/kernel_cells.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "collectives/baselines/merge_add.h"
#include "microbench/harness.h"
#include "ops/adasum/adasum.h"
#include "ops/sparse/sparse.h"

namespace lsched::bench {
namespace {

std::size_t cache_bytes(int name, std::size_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : otherwise;
}

/// A cache line. In each clone of a function, the compiler uses the vector registers of the clone's target.
using line [[gnu::vector_size(k_line), gnu::may_alias]] = std::uint64_t;

/// Reads all streams.
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

/// Reads all streams, and writes one stream.
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

/// Returns the magnitude that a fraction `density` of normally distributed numbers reaches or exceeds.
double normal_threshold(double density) {
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) (std::erfc((low + high) / 2 / std::sqrt(2)) > density ? low : high) = (low + high) / 2;
  return low;
}

/// Writes normally distributed numbers from a table, with random low bits.
template <class Number>
void fill_normal(std::byte* to, std::size_t bytes) {
  static constexpr std::size_t k_size = std::size_t{1} << 16;
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

/// Writes a list of `count` items. Distances between indices are random, 1 / density on average. Seeds give different
/// lists.
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

/// Returns a cell for a kernel that reads the whole residual once.
kernel_cell over_residual(kernel_memory& in, dtype type, const level& place,
                          const std::function<void(const std::byte* residual, std::size_t count)>& run) {
  const std::size_t unit = size_of(residual_of(type)), count = place.window / unit, pieces = place.bytes / place.window;
  std::byte* const residual = in.inputs.stream(0, 0);
  unit == sizeof(float) ? fill_normal<float>(residual, place.bytes) : fill_normal<double>(residual, place.bytes);
  in.items.resize(std::max<std::size_t>(count / 4, 1) * item_size(type));
  return {place.window, pieces, [=](std::size_t piece) { run(residual + piece * place.window, count); },
          [=](std::size_t piece) {
            const void* from = residual + piece * place.window;
            read_streams(&from, 1, place.window);
          }};
}

kernel_cell select_cell(kernel_memory& in, dtype type, double density, const level& place) {
  const magnitude_range range{magnitude_in(residual_of(type), normal_threshold(density))};
  return over_residual(
      in, type, place,
      [=, &in, run = sparse_kernels_of(type).accumulate_select](const std::byte* residual, std::size_t count) {
        // Without a gradient the kernel only reads the residual.
        run({const_cast<std::byte*>(residual), nullptr, 1, count, 0}, range, in.items.data(), count / 4);
      });
}

kernel_cell exact_kth_cell(kernel_memory& in, dtype type, double density, const level& place) {
  const auto hint = std::make_shared<top_k_hint>();
  return over_residual(
      in, type, place, [=, &in, run = sparse_kernels_of(type).top_k](const std::byte* residual, std::size_t count) {
        // Without a gradient the kernel only reads the residual.
        const accumulation from{const_cast<std::byte*>(residual), nullptr, 1, count, 0};
        const auto k = static_cast<std::size_t>(static_cast<double>(count) * density);
        run(from, std::max<std::size_t>(k, 1), nan_policy::propagate, in.items.data(), count / 4, *hint);
      });
}

/// The two lists of a piece are adjacent, so that the loop can copy both lists at once.
kernel_cell merge_add_cell(kernel_memory& in, dtype type, double density, const level& place) {
  const std::size_t bytes = place.window / 4 / k_line * k_line, count = bytes / item_size(type);
  const std::size_t pieces = std::max<std::size_t>(1, place.bytes / place.window * 2 / 3);
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

kernel_cell scatter_add_cell(kernel_memory& in, dtype type, double density, const level& place) {
  const std::size_t region = place.window / size_of(residual_of(type));
  const std::size_t pieces = std::max<std::size_t>(1, place.bytes / place.window / 3);
  // The factor 0.9 makes sure that all indices of a list are in its region.
  const auto count = static_cast<std::size_t>(static_cast<double>(region) * density * 0.9);
  const std::size_t bytes = (count * item_size(type) / k_line + 1) * k_line;
  std::byte* const lists = in.inputs.stream(0, 0);
  std::byte* const sums = in.outputs.stream(0, 0);
  std::memset(sums, 0, pieces * place.window);
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
          [=, &in, run = sparse_kernels_of(type).scatter_add](std::size_t piece) {
            run(lists + piece * bytes, counts[piece], sums + piece * place.window, in.touched.data());
          },
          [=](std::size_t piece) {
            const void* from = lists + piece * bytes;
            read_streams(&from, 1, bytes);
          }};
}

using dense_pass = std::function<void(const void* const* x, void* c, std::size_t count)>;

/// Returns a cell with two inputs and, except for dot_norms, an output. Each piece begins where the previous piece
/// ended.
kernel_cell dense_cell(kernel_memory& in, dtype type, const level& place, bool writes, const dense_pass& run) {
  constexpr std::size_t k_block = k_lines * k_line;
  const std::size_t streams = k_most_inputs + (writes ? 1 : 0);
  const auto whole = [&](std::size_t bytes) { return std::max(bytes / streams / k_block * k_block, k_block); };
  const std::size_t window = whole(place.window), stream = std::max(whole(place.bytes), window);
  const auto inputs = [=, &in](std::size_t piece) {
    return std::array<const void*, k_most_inputs>{in.inputs.stream(0, stream) + piece * window,
                                                  in.inputs.stream(1, stream) + piece * window};
  };
  const auto output = [=, &in](std::size_t piece) -> void* {
    return writes ? static_cast<void*>(in.outputs.stream(0, stream) + piece * window) : in.sums;
  };
  return {streams * window, stream / window,
          [=, count = window / size_of(type)](std::size_t piece) { run(inputs(piece).data(), output(piece), count); },
          [=](std::size_t piece) {
            if (writes)
              mix_streams(inputs(piece).data(), k_most_inputs, output(piece), window);
            else
              read_streams(inputs(piece).data(), k_most_inputs, window);
          }};
}

kernel_cell dot_norms_cell(kernel_memory& in, dtype type, double, const level& place) {
  return dense_cell(in, type, place, false,
                    [run = find_dot_norms(type)](const void* const* x, void* c, std::size_t count) {
                      run(x[0], x[1], count, static_cast<double*>(c));
                    });
}

kernel_cell scaled_add_cell(kernel_memory& in, dtype type, double, const level& place) {
  return dense_cell(in, type, place, true,
                    [run = find_scaled_add(type)](const void* const* x, void* c, std::size_t count) {
                      run(0.75, x[0], 0.625, x[1], c, count);
                    });
}

kernel_cell sum_cell(kernel_memory& in, dtype type, double, const level& place) {
  return dense_cell(in, type, place, true,
                    [run = find_reduce(kernel::sum, type)](const void* const* x, void* c, std::size_t count) {
                      run(x[0], x[1], c, count);
                    });
}

constexpr std::array k_none{0.0};
constexpr std::array k_densities{0.01, 0.001};
constexpr std::array k_kernels{kernel_kind{"dot_norms", k_none, dot_norms_cell},
                               kernel_kind{"scaled_add", k_none, scaled_add_cell},
                               kernel_kind{"sum", k_none, sum_cell},
                               kernel_kind{"select", k_densities, select_cell},
                               kernel_kind{"exact_kth", k_densities, exact_kth_cell},
                               kernel_kind{"scatter_add", k_densities, scatter_add_cell},
                               kernel_kind{"merge_add", k_densities, merge_add_cell}};

}  // namespace

std::array<level, 4> memory_levels() {
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

arena::arena(std::size_t bytes) : bytes_(bytes + k_most_inputs * 2 * k_page) {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw failed("no memory for vectors that are larger than the caches");
  start_ = static_cast<std::byte*>(mapped);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes_; i += sizeof state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t word = (state >> 3 & 0x03FF03FF03FF03FFU) | 0x3C003C003C003C00U;
    std::memcpy(start_ + i, &word, sizeof word);
  }
}

arena::~arena() { munmap(start_, bytes_); }

std::span<const kernel_kind> kernels_of_vectors() { return k_kernels; }

}  // namespace lsched::bench
