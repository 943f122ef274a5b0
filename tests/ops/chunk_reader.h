// Reads SparseLoCo's messages bit by bit, as ops/sparse/chunk_message.h describes them.
#pragma once

#include "tests/ops/lists.h"

namespace lsched {

/// Returns `bits` bits, beginning with bit `first`. The lowest bit of a byte comes first.
inline std::uint64_t bits_at(const std::uint8_t* message, std::size_t first, std::size_t bits) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bits; ++i)
    number |= static_cast<std::uint64_t>(message[(first + i) / 8] >> (first + i) % 8 & 1) << i;
  return number;
}

/// Returns the elements of a message with `slots` slots. `residual` is f32 or f64.
inline list read_chunk(dtype residual, const std::uint8_t* message, std::size_t slots) {
  const std::size_t half = 4 * size_of(residual), codes = 2 * half, indices = codes + (2 * slots + 7) / 8 * 8;
  list all;
  std::int64_t last = -1;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::uint64_t level = bits_at(message, bits_at(message, codes + 2 * slot, 1) * half, half) << half;
    const std::uint64_t sign = bits_at(message, codes + 2 * slot + 1, 1) << (2 * half - 1);
    const auto index = static_cast<std::uint32_t>(bits_at(message, indices + 12 * slot, 12));
    if (index > last && level != 0) all.push_back({index, level | sign});
    last = std::max<std::int64_t>(last, index);
  }
  return all;
}

}  // namespace lsched
