// Closes memory of other processes in a thread of its own: the driver may wait for all streams of the device, of which
// one may wait for a round of ours.
#pragma once

#include <unistd.h>

#include <memory>
#include <mutex>
#include <thread>

#include "offload/cuda/peer_import.h"

namespace lsched {

class import_closer {
 public:
  import_closer() = default;

  /// Waits until all are closed.
  ~import_closer();
  import_closer(const import_closer&) = delete;
  import_closer& operator=(const import_closer&) = delete;

  /// Soon. Nothing on the device uses it any more. Never waits for the driver.
  void close(std::unique_ptr<peer_import> gone) noexcept;

  /// The device hangs, and may use any of them: none is closed any more.
  void keep_all();

 private:
  void serve();

  const int process_ = getpid();
  std::mutex guard_;
  std::unique_ptr<peer_import> first_;  ///< of those to be closed
  bool is_serving_ = false, keeps_all_ = false;
  std::thread thread_;  ///< while there are any
};

}  // namespace lsched
