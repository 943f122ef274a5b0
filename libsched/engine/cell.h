// A cell is the memory of one symbolic buffer.
#pragma once

#include <cstddef>

namespace lsched {

/// The memory of one symbolic buffer in the current round.
struct cell {
  std::byte* storage = nullptr;     ///< target of the next write; null if payloads stay in place
  const std::byte* data = nullptr;  ///< location of the value: storage, a peer's memory, or another buffer
  bool exchangeable = false;        ///< the engine owns the storage, and may exchange it with equally large storage
};

}  // namespace lsched
