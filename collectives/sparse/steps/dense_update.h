// A result as a dense vector: what an optimiser takes.
#pragma once

#include <vector>

#include "collectives/sparse/protocol/problem.h"
#include "ops/sparse/sparse.h"

namespace lsched {

/// Remembers where the vector is not zero. Allocates when made.
class dense_update {
 public:
  /// Results have up to `room` items; count elements in the vector.
  dense_update(dtype type, std::uint64_t count, std::uint64_t room);

  /// vector[index] = value / divisor, and all else is zero. Only what the last result wrote is zeroed, as long as the
  /// vector is the same one and nobody else wrote to it; another one is zeroed as a whole. nullptr: nothing is done.
  void write(item_list result, std::uint64_t divisor, std::byte* vector);

  /// The next vector is zeroed as a whole, whichever it is.
  void forget() { last_vector_ = nullptr; }

 private:
  dtype type_;
  std::uint64_t count_;
  decltype(sparse_kernels::scatter) scatter_;
  const std::byte* last_vector_ = nullptr;
  std::vector<std::uint32_t> last_;  ///< indices
};

}  // namespace lsched
