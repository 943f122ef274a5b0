// A thread that the application does not notice.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace lsched {

/// All signals are blocked in it, so the application's handlers run on the application's threads. `name` has at most 15
/// letters.
template <class Body>
std::thread start_quietly(const char* name, Body body) {
  struct blocked_signals {  // which the new thread inherits
    sigset_t before;
    blocked_signals() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~blocked_signals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } const while_it_starts;
  return std::thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace lsched
