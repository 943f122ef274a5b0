#include "collectives/sparse/steps/threshold.h"

#include <algorithm>
#include <array>

namespace lsched {
namespace {

unsigned magnitude_bits(dtype type) { return static_cast<unsigned>(8 * size_of(type) - 1); }
constexpr unsigned k_bits = 8;  ///< number of bits per pass

/// Returns the number of low bits of a magnitude that are still unknown after pass number `pass`.
unsigned shift_of(dtype type, unsigned pass) {
  const unsigned known = (pass + 1) * k_bits;
  return known < magnitude_bits(type) ? magnitude_bits(type) - known : 0;
}

}  // namespace

unsigned threshold_passes(dtype type) { return (magnitude_bits(type) + k_bits - 1) / k_bits; }

unsigned threshold_passes(const sparse_problem& problem) {
  return problem.selection == selection_rule::exact ? threshold_passes(problem.type) : 0;
}

std::uint64_t threshold_bins(dtype type, unsigned pass) {
  return std::uint64_t{1} << (magnitude_bits(type) - pass * k_bits - shift_of(type, pass));
}

std::uint64_t items_from(dtype type, item_list list, std::uint64_t magnitude) {
  std::uint64_t found = 0;
  sparse_kernels_of(type).count_magnitudes(list.items, list.count, {.low = magnitude, .shift = 0, .count = 1}, &found);
  return found;
}

void global_threshold::count(unsigned pass, item_list list, std::span<const std::uint64_t> before,
                             std::span<std::uint64_t> bins) {
  if (pass == 0)
    low_ = 0;
  else
    narrow(pass - 1, before);
  std::fill(bins.begin(), bins.end(), 0);
  const magnitude_bins where{.low = low_, .shift = shift_of(type_, pass), .count = bins.size()};
  sparse_kernels_of(type_).count_magnitudes(list.items, list.count, where, bins.data());
}

// The last bin also counts all items with larger magnitudes. So in every pass, the number of items with at least the
// magnitude of a bin is the sum of this bin and all bins after it. If this sum never reaches k, there is no k-th item,
// and the magnitude stays 0.
void global_threshold::narrow(unsigned pass, std::span<const std::uint64_t> sums) {
  std::uint64_t from_on = 0, bin = sums.size();
  while (bin > 0 && from_on < k_) from_on += sums[--bin];
  if (from_on >= k_) low_ += bin << shift_of(type_, pass);
}

magnitude_tally global_threshold::finish(item_list list, std::span<const std::uint64_t> last) {
  narrow(threshold_passes(type_) - 1, last);
  std::array<std::uint64_t, 2> bins{};  // numbers of items equal to the k-th magnitude, and above it
  sparse_kernels_of(type_).count_magnitudes(list.items, list.count, {.low = low_, .shift = 0, .count = 2}, bins.data());
  return {bins[1], bins[0]};
}

}  // namespace lsched
