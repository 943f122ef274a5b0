#include "offload/progress_thread.h"

#include "libsched/transport/quiet_thread.h"
#include "offload/cores.h"

namespace lsched {

progress_thread::progress_thread(driver& whom, std::optional<unsigned> core) : driver_(whom) {
  thread_ = start_quietly("lsched-progress", [this, core] {
    if (core) bind_this_thread(*core);
    driver_.serve(stop_);
  });
}

progress_thread::~progress_thread() {
  stop_.store(true);
  driver_.wake_auxiliary();
  thread_.join();
}

}  // namespace lsched
