// start_quietly() starts a thread that handles none of the application's signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace lsched {

/// Blocks all signals in the calling thread while the object exists. Threads that the calling thread creates meanwhile
/// inherit the signal mask.
class blocked_signals {
 public:
  blocked_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~blocked_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  blocked_signals(const blocked_signals&) = delete;
  blocked_signals& operator=(const blocked_signals&) = delete;

 private:
  sigset_t before_;
};

/// Starts a thread in which all signals are blocked, so that the application's signal handlers run only on the
/// application's threads. `name` may have at most 15 characters.
template <class Body>
std::thread start_quietly(const char* name, Body body) {
  const blocked_signals while_it_starts;
  return std::thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace lsched
