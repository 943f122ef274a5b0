// What computes take in models of time, which know a price per byte of a copy or of a reduction of two vectors.
#pragma once

#include <cstdint>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Bytes of a copy or reduction that takes about as long.
inline std::uint64_t bytes_of_work(const schedule& mine, const op& what) { return typical_bytes(mine, what); }

}  // namespace lsched
