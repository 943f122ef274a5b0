// How often values of each size came.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lsched {

/// Bin b holds the values of b binary digits: bin 0 zeros, bin b those from 2^(b-1) to 2^b - 1, the last one also all
/// that are larger.
struct histogram {
  static constexpr std::size_t k_bins = 40;

  std::uint64_t sum = 0;
  std::uint64_t max = 0;
  std::array<std::uint64_t, k_bins> bins{};

  void add(std::uint64_t value) {
    sum += value;
    max = std::max(max, value);
    ++bins[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(value)), k_bins - 1)];
  }
};

}  // namespace lsched
