// The processes of the ranks of this node, and whether they have ended.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// One thread.
class peer_processes {
 public:
  explicit peer_processes(rank ranks) : watched_(static_cast<std::size_t>(ranks), -1) {}
  ~peer_processes();
  peer_processes(const peer_processes&) = delete;
  peer_processes& operator=(const peer_processes&) = delete;

  /// Keeps hold of the peer's process (0: it has none yet), so that no other one that gets its number is taken for it.
  void watch(rank peer, std::int32_t process);

  /// Whether the process has ended, or, if something `is_awaited` of the peer, is about to: to find that out costs a
  /// file. A process that ended before it was first watched is not found by its number any more.
  bool has_ended(rank peer, std::int32_t process, bool is_awaited);

 private:
  std::vector<int> watched_;  ///< pidfds by rank; -1: this process, or not watched
};

}  // namespace lsched
