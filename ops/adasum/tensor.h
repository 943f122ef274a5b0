// A tensor: a range of a vector that has coefficients of its own in an adaptive sum.
#pragma once

#include <cstdint>

namespace lsched {

struct tensor {
  std::uint64_t begin = 0;  ///< first element in the vector
  std::uint64_t count = 0;
  constexpr std::uint64_t end() const { return begin + count; }
  friend bool operator==(const tensor&, const tensor&) = default;
};

}  // namespace lsched
