// The system calls of the watcher.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "libsched/transport/net/net_watcher.h"
#include "libsched/transport/quiet_thread.h"

namespace lsched {

result<bool> net_watcher::start(int sockets, doorbell& bell) {
  sockets_ = sockets;
  bell_ = &bell;
  set_ = make_descriptor([] { return epoll_create1(EPOLL_CLOEXEC); });
  for (descriptor* const event : {&stop_, &event_})
    *event = make_descriptor([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  epoll_event not_yet{.events = EPOLLONESHOT, .data = {.fd = sockets}};
  epoll_event at_stop{.events = EPOLLIN, .data = {.fd = stop_.get()}};
  if (!set_ || !stop_ || !event_ || epoll_ctl(set_.get(), EPOLL_CTL_ADD, sockets, &not_yet) != 0 ||
      epoll_ctl(set_.get(), EPOLL_CTL_ADD, stop_.get(), &at_stop) != 0)
    return failure{status::no_memory,
                   std::string("the system cannot watch the connections between ranks (epoll): ") + strerror(errno)};
  thread_ = start_quietly("lsched-net", [this] { watch(); });
  return true;
}

void net_watcher::stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void net_watcher::enable() {
  epoll_event once{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = sockets_}};
  (void)epoll_ctl(set_.get(), EPOLL_CTL_MOD, sockets_, &once);
}

bool net_watcher::await_sockets() {
  epoll_event news{};
  while (epoll_wait(set_.get(), &news, 1, -1) != 1) {
  }
  return news.data.fd == sockets_;
}

// The C functions for these system calls would be cancellation points.
bool net_watcher::await_bytes(timespec& left) {
  pollfd both[] = {{sockets_, POLLIN, 0}, {event_.get(), POLLIN, 0}};
  if (syscall(SYS_ppoll, both, 2, &left, nullptr, 0) <= 0 || both[1].revents == 0) return false;  // updates `left`
  std::uint64_t rings = 0;
  (void)!syscall(SYS_read, event_.get(), &rings, sizeof rings);
  return both[0].revents == 0;
}

}  // namespace lsched
