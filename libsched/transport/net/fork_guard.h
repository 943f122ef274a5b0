// The application may fork child processes, for example the workers of a data loader. A fork_guard closes the sockets
// of a rank in these children. Otherwise a connection would stay open as long as a child lives, and no other rank would
// detect the death of the rank.
#pragma once

#include <vector>

namespace lsched {

/// Thread safety: only one thread at a time may add descriptors. Any thread may fork.
class fork_guard {
 public:
  fork_guard();
  ~fork_guard();
  fork_guard(const fork_guard&) = delete;
  fork_guard& operator=(const fork_guard&) = delete;

  /// In each child that is forked from now on, `descriptor` refers to /dev/null. The caller must remove the descriptor
  /// before it closes the descriptor.
  void add(int descriptor);
  void remove(int descriptor);

 private:
  friend struct guard_list;
  std::vector<int> descriptors_;
  fork_guard* next_ = nullptr;
};

}  // namespace lsched
