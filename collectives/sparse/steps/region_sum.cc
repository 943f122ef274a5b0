#include "collectives/sparse/steps/region_sum.h"

#include <cstring>

#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

/// What the kernel has counted from `base` on, it shall count from 0.
void rebase(dtype type, std::byte* items, std::uint64_t count, std::uint32_t base) {
  if (base == 0) return;
  for (std::byte *at = items, *const end = items + count * item_size(type); at != end; at += item_size(type)) {
    std::uint32_t index;
    std::memcpy(&index, at, sizeof index);
    index += base;
    std::memcpy(at, &index, sizeof index);
  }
}

std::uint64_t drop_nan(dtype type, std::byte* items, std::uint64_t count) {
  const std::size_t bytes = item_size(type);
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (magnitude_at(type, items + i * bytes) > infinite_magnitude(type)) continue;
    if (kept != i) std::memcpy(items + kept * bytes, items + i * bytes, bytes);
    ++kept;
  }
  return kept;
}

}  // namespace

region_sum::region_sum(dtype type, std::uint64_t count, nan_policy nans)
    : type_(type),
      nans_(nans),
      sums_(count * size_of(residual_of(type))),
      touched_(bitmap_words(count) * sizeof(std::uint64_t)) {}

void region_sum::add(item_list list) {
  sparse_kernels_of(type_).scatter_add(list.items, list.count, sums_.data(),
                                       reinterpret_cast<std::uint64_t*>(touched_.data()));
}

std::uint64_t region_sum::take(std::uint64_t begin, std::uint64_t end, std::byte* items) {
  if (begin == end) return 0;
  const std::uint64_t word = begin / 64, first = word * 64;  // the bitmap's words are of 64 elements
  std::byte* const sums = sums_.data() + first * size_of(residual_of(type_));
  std::uint64_t* const touched = reinterpret_cast<std::uint64_t*>(touched_.data()) + word;
  const std::uint64_t count = sparse_kernels_of(type_).gather_touched(sums, touched, end - first, items);
  rebase(type_, items, count, static_cast<std::uint32_t>(first));
  return nans_ == nan_policy::ignore ? drop_nan(type_, items, count) : count;
}

}  // namespace lsched
