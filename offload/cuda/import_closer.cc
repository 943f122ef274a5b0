#include "offload/cuda/import_closer.h"

#include <system_error>
#include <utility>

#include "libsched/transport/quiet_thread.h"

namespace lsched {

// In a forked child, neither the closing thread nor the driver exists.
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
    if (thread_.joinable()) thread_.join();  // the thread has emptied the list and is about to end
    thread_ = start_quietly("lsched-closer", [this] { serve(); });
    is_serving_ = true;
  } catch (const std::system_error&) {  // if no thread can be started, a later close() tries again
  }
}

void import_closer::keep_all() {
  const std::lock_guard lock(guard_);
  keeps_all_ = true;
  (void)first_.release();
}

void import_closer::serve() {
  for (;;) {
    std::unique_ptr<peer_import> gone;  // declared before `lock`, so that the import is closed after the unlock
    const std::lock_guard lock(guard_);
    is_serving_ = first_ != nullptr;
    if (!is_serving_) return;
    gone = std::move(first_);
    first_ = std::move(gone->next_);
  }
}

}  // namespace lsched
