// A tensor: elements of a vector that an adaptive sum combines as one.
#pragma once

#include <cstdint>

namespace lsched {

struct tensor {
  std::uint64_t begin = 0;  ///< its first element in the vector
  std::uint64_t count = 0;
  constexpr std::uint64_t end() const { return begin + count; }
  friend bool operator==(const tensor&, const tensor&) = default;
};

}  // namespace lsched
