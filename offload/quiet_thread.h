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
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::thread started([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    body();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace lsched
