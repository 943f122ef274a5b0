#include "microbench/engine/sparse_cells.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "ops/sparse/sparse.h"

namespace lsched::bench {
namespace {

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
  return over_residual(in, type, at, [&in, range, type](const std::byte* residual, std::size_t count) {
    // Without a gradient a residual is only read.
    const accumulation from{const_cast<std::byte*>(residual), nullptr, 1, count, 0};
    sparse_kernels_of(type).accumulate_select(from, range, in.items.data(), count / 4);
  });
}

sparse_cell exact_kth_cell(sparse_memory& in, dtype type, double density, const level& at) {
  const auto hint = std::make_shared<top_k_hint>();
  return over_residual(
      in, type, at, [=, &in, run = sparse_kernels_of(type).top_k](const std::byte* residual, std::size_t count) {
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
          [=, run = sparse_kernels_of(type).merge_add](std::size_t piece) {
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
          [=, &in, run = sparse_kernels_of(type).scatter_add](std::size_t piece) {
            run(lists + piece * bytes, counts[piece], sums + piece * at.window, in.touched.data());
          },
          [=](std::size_t piece) {
            const void* from = lists + piece * bytes;
            read_streams(&from, 1, bytes);
          }};
}

constexpr std::array k_sparse_kernels{sparse_kind{"select", select_cell}, sparse_kind{"exact_kth", exact_kth_cell},
                                      sparse_kind{"scatter_add", scatter_add_cell},
                                      sparse_kind{"merge_add", merge_add_cell}};

}  // namespace

std::span<const sparse_kind> sparse_kernels() { return k_sparse_kernels; }

}  // namespace lsched::bench
