// The thread that rings the bell of a sleeping rank when bytes arrive from the network. The first thread that sleeps
// needs no watcher, because it waits for the sockets itself (direct_sleep.h). (docs/inside/net.md)
//
//     owner of the engine going to sleep           watcher
//     ----------------------------------           -------
//     W1 announce a sleeper (doorbell.h, R2)       W4 the kernel reports bytes; armed = false
//     W2 read the sockets until they are empty     W5 a fence
//     W3 if no claim and not armed:                W6 ring_if_needed()
//        armed = true, and add the
//        sockets to the watcher's set
//
// Bytes may arrive between W2 and W3. The kernel reports these bytes after W3, because the set is level-triggered. If
// W3 finds the watcher armed, W4 comes later, so W6 finds the announcement of W1. While no thread sleeps, the watcher
// is not armed, and packets do not wake the watcher.
#pragma once

#include <atomic>
#include <ctime>
#include <thread>

#include "libsched/transport/direct_sleep.h"
#include "libsched/transport/doorbell.h"
#include "libsched/transport/net/descriptor.h"
#include "ops/status.h"

namespace lsched {

class net_watcher final : public direct_sleep {
 public:
  /// Starts the thread. `sockets` is an epoll set. The set and the bell must outlive the watcher.
  result<bool> start(int sockets, doorbell& bell);
  net_watcher() = default;
  ~net_watcher() override { stop(); }
  net_watcher(const net_watcher&) = delete;
  net_watcher& operator=(const net_watcher&) = delete;

  /// Arranges that the bell is rung when a socket of the set becomes ready. Does nothing while a thread has a claim.
  /// Only the owner of the engine calls this function. Never blocks.
  void arm();

  bool claim() override;
  void sleep(std::uint32_t epoch, std::chrono::nanoseconds timeout) override;
  void end() override;

  void stop();

  /// Forgets the thread. Called in a forked child, which does not have this thread.
  void abandon() {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  void watch();

  // The system calls (net_watcher_kernel.cc)
  void enable();
  /// Waits until the kernel reports bytes after enable(). Returns false when the thread must end.
  bool await_sockets();
  /// Waits for the sockets, event_ or the end of the time that is left. Returns true if only event_ was readable.
  /// Clears event_.
  bool await_bytes(timespec& left);

  int sockets_ = -1;
  doorbell* bell_ = nullptr;
  descriptor set_;   ///< an epoll set with sockets_ and stop_
  descriptor stop_;  ///< an eventfd
  /// An eventfd, which rings make readable during a direct sleep. Remains open after stop(), because a worker of the
  /// lane may still ring. Not in set_, because only the claimant may read this eventfd.
  descriptor event_;
  std::atomic<bool> armed_ = false;
  std::thread thread_;
};

}  // namespace lsched
