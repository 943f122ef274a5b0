// What computes take in models of time, which know a price per byte of a copy or of a reduction of two vectors.
#pragma once

#include <cstdint>

#include "libsched/schedule.h"

namespace lsched {

/// Bytes of a copy or reduction that takes about as long. Of a row each vector is multiplied with each, where dot_norms
/// makes three products of two, or added to the others.
inline std::uint64_t bytes_of_work(const schedule& mine, const op& what) {
  const std::uint64_t bytes = typical_bytes(mine, what);
  if (what.kind != op_kind::compute || !takes_row(what.what)) return bytes;
  const std::uint64_t vectors = row_of(what).vectors;
  return what.what == kernel::gram ? bytes * vectors * (vectors + 1) / (2 * k_dot_sums) : bytes * (vectors - 1);
}

}  // namespace lsched
