#include "libsched/transport/shm/life_word.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstddef>

namespace lsched {

// FUTEX_WAITERS is always set, because the kernel wakes a sleeper only if this bit is set.
life_word::holder::holder(life_word& word) : word_(word) {
  std::size_t bytes = 0;
  syscall(SYS_get_robust_list, 0, &before_, &bytes);
  entry_.next = &list_.list;
  list_.list.next = &entry_;
  list_.futex_offset = reinterpret_cast<std::byte*>(&word.word_) - reinterpret_cast<std::byte*>(&entry_);
  if (syscall(SYS_set_robust_list, &list_, sizeof list_) != 0) return;
  word_.word_.store(static_cast<std::uint32_t>(syscall(SYS_gettid)) | FUTEX_WAITERS);
  word_.wake();
}

life_word::holder::~holder() {
  syscall(SYS_set_robust_list, before_, sizeof list_);
  word_.word_.store(0);
  word_.wake();
}

void life_word::await_change(std::uint32_t seen) const {
  syscall(SYS_futex, &word_, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

void life_word::wake() const { syscall(SYS_futex, &word_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace lsched
