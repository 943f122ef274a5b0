// A cell is the memory of one symbolic buffer.
#pragma once

#include <cstddef>

namespace lsched {

/// The memory of one symbolic buffer in the current round.
struct cell {
  std::byte* storage = nullptr;     ///< target of the next write; null if received payloads always stay in place
  const std::byte* data = nullptr;  ///< location of the value: storage, a peer's memory, or another buffer
  bool exchangeable = false;        ///< the engine owns the storage, and can exchange it for storage of the same size
};

}  // namespace lsched
