// The auxiliary thread: serves one driver while the application computes.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "offload/driver.h"

namespace lsched {

class progress_thread {
 public:
  /// Starts at once; `core` (operating-system number) binds it, where given. All signals are blocked in it, so
  /// the application's handlers run on the application's threads.
  progress_thread(driver& whom, std::optional<unsigned> core);

  /// Wakes it and waits for it to end; bounded by one step of the engine.
  ~progress_thread();
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;

 private:
  driver& driver_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lsched
