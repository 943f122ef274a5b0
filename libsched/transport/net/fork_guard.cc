#include "libsched/transport/net/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>

namespace lsched {

/// The guards of the process. The lock is held while the process forks, so the child finds a consistent list.
struct guard_list {
  std::mutex lock;
  fork_guard* first = nullptr;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

  static guard_list& of_process() {
    static guard_list* const all = [] {
      auto* const made = new guard_list;  // never freed, because a child may be forked while the process ends
      (void)pthread_atfork([] { of_process().lock.lock(); }, [] { of_process().lock.unlock(); },
                           [] { of_process().replace_descriptors(); });
      return made;
    }();
    return *all;
  }

  // The descriptor numbers stay in use. Otherwise the child could open another file under such a number, and close that
  // file by mistake. The list is emptied, because the child may have other files under these numbers when the child
  // itself forks.
  void replace_descriptors() {
    for (fork_guard* one = first; one != nullptr; one = one->next_) {
      for (const int number : one->descriptors_) (void)dup3(nothing, number, O_CLOEXEC);
      one->descriptors_.clear();
    }
    lock.unlock();
  }
};

fork_guard::fork_guard() {
  guard_list& all = guard_list::of_process();
  const std::lock_guard held(all.lock);
  next_ = all.first;
  all.first = this;
}

fork_guard::~fork_guard() {
  guard_list& all = guard_list::of_process();
  const std::lock_guard held(all.lock);
  fork_guard** place = &all.first;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

void fork_guard::add(int descriptor) {
  const std::lock_guard held(guard_list::of_process().lock);
  descriptors_.push_back(descriptor);
}

void fork_guard::remove(int descriptor) {
  const std::lock_guard held(guard_list::of_process().lock);
  std::erase(descriptors_, descriptor);
}

}  // namespace lsched
