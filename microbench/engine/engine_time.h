// What the library's own threads have used of the processor.
#pragma once

#include <cstdint>
#include <optional>

namespace lsched::bench {

struct engine_time {
  double ns = 0;            ///< on a core, user and system
  std::uint64_t turns = 0;  ///< times it was put on one: wake-ups, and comebacks of those who had to make way
};

/// Of all progress threads of this process since they were made; nothing where the system keeps no account.
std::optional<engine_time> read_engine_time();

}  // namespace lsched::bench
