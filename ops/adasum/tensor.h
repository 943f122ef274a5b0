// A tensor: a range of elements of a vector. An adaptive sum computes separate coefficients for each tensor.
#pragma once

#include <cstdint>

namespace lsched {

struct tensor {
  std::uint64_t begin = 0;  ///< position of the first element in the vector
  std::uint64_t count = 0;
  constexpr std::uint64_t end() const { return begin + count; }
  friend bool operator==(const tensor&, const tensor&) = default;
};

}  // namespace lsched
