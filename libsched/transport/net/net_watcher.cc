#include "libsched/transport/net/net_watcher.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cstdint>
#include <string>

#include "libsched/transport/quiet_thread.h"

namespace lsched {

result<bool> net_watcher::start(int sockets, doorbell& bell) {
  sockets_ = sockets;
  bell_ = &bell;
  set_ = make_descriptor([] { return epoll_create1(EPOLL_CLOEXEC); });
  stop_ = make_descriptor([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  epoll_event not_yet{.events = EPOLLONESHOT, .data = {.fd = sockets}};
  epoll_event at_stop{.events = EPOLLIN, .data = {.fd = stop_.get()}};
  if (!set_ || !stop_ || epoll_ctl(set_.get(), EPOLL_CTL_ADD, sockets, &not_yet) != 0 ||
      epoll_ctl(set_.get(), EPOLL_CTL_ADD, stop_.get(), &at_stop) != 0)
    return failure{status::no_memory,
                   std::string("the system cannot watch the connections between ranks (epoll): ") + strerror(errno)};
  thread_ = start_quietly("lsched-net", [this] { watch(); });
  return true;
}

void net_watcher::arm() {
  if (armed_.exchange(true)) return;
  epoll_event once{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = sockets_}};
  (void)epoll_ctl(set_.get(), EPOLL_CTL_MOD, sockets_, &once);
}

void net_watcher::watch() {
  for (;;) {
    epoll_event news{};
    if (epoll_wait(set_.get(), &news, 1, -1) != 1) continue;
    if (news.data.fd == stop_.get()) return;
    armed_.store(false);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_if_needed(*bell_);
  }
}

void net_watcher::stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

}  // namespace lsched
