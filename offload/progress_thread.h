// The progress thread, which runs the engine of one driver while the application computes.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "offload/driver.h"

namespace lsched {

class progress_thread {
 public:
  /// Starts the thread, bound to `core` if given. All signals are blocked in the thread, so signal handlers run only on
  /// the application's threads.
  progress_thread(driver& whom, std::optional<unsigned> core);

  /// Stops and joins the thread. Waits for at most a few steps of the engine.
  ~progress_thread();
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;

 private:
  driver& driver_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lsched
