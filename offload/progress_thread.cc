#include "offload/progress_thread.h"

#include <pthread.h>
#include <signal.h>

#include "offload/cores.h"

namespace lsched {

progress_thread::progress_thread(driver& whom, std::optional<unsigned> core) : driver_(whom) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  thread_ = std::thread([this, core] {
    pthread_setname_np(pthread_self(), "lsched-progress");
    if (core) bind_this_thread(*core);
    driver_.serve(stop_);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

progress_thread::~progress_thread() {
  stop_.store(true);
  driver_.wake_auxiliary();
  thread_.join();
}

}  // namespace lsched
