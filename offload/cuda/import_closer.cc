#include "offload/cuda/import_closer.h"

#include <system_error>
#include <utility>

#include "libsched/transport/quiet_thread.h"

namespace lsched {

// A forked child has neither this thread nor the driver.
import_closer::~import_closer() {
  const bool is_ours = getpid() == process_;
  if (thread_.joinable()) is_ours ? thread_.join() : thread_.detach();
  if (!is_ours) (void)first_.release();
  while (first_ != nullptr) first_ = std::move(first_->next_);
}

void import_closer::close(std::unique_ptr<peer_import> gone) noexcept {
  if (gone->is_of_this_process()) return;
  const std::lock_guard lock(guard_);
  if (keeps_all_) return static_cast<void>(gone.release());
  gone->next_ = std::move(first_);
  first_ = std::move(gone);
  if (is_serving_) return;
  try {
    if (thread_.joinable()) thread_.join();  // the thread is about to end
    thread_ = start_quietly("lsched-closer", [this] { serve(); });
    is_serving_ = true;
  } catch (const std::system_error&) {  // no thread is available: a later close() tries again
  }
}

void import_closer::keep_all() {
  const std::lock_guard lock(guard_);
  keeps_all_ = true;
  (void)first_.release();
}

void import_closer::serve() {
  for (;;) {
    std::unique_ptr<peer_import> gone;  // destroyed after `lock`, so the import is closed without the lock
    const std::lock_guard lock(guard_);
    is_serving_ = first_ != nullptr;
    if (!is_serving_) return;
    gone = std::move(first_);
    first_ = std::move(gone->next_);
  }
}

}  // namespace lsched
