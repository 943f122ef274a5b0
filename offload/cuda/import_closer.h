// Closes imports of other processes' memory (peer_import.h) in a separate thread. The call that closes an import may
// wait for all streams of the device, and a stream may wait for a round of this library. So the engine must not make
// this call.
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

  /// Waits until all queued imports are closed.
  ~import_closer();
  import_closer(const import_closer&) = delete;
  import_closer& operator=(const import_closer&) = delete;

  /// Queues an import for closing. The device must no longer use the import. Never waits for the driver.
  void close(std::unique_ptr<peer_import> gone) noexcept;

  /// Stops closing imports. Must be called if the device hangs, because a hung device may still use the imports.
  void keep_all();

 private:
  void serve();

  const int process_ = getpid();
  std::mutex guard_;
  std::unique_ptr<peer_import> first_;  ///< head of the list of imports to close
  bool is_serving_ = false, keeps_all_ = false;
  std::thread thread_;  ///< runs while the list is not empty
};

}  // namespace lsched
