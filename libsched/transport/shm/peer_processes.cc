#include "libsched/transport/shm/peer_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace lsched {
namespace {

/// Whether a signal has ended the process although it is still there: it dumps core or gives its memory back, which
/// takes minutes where there is much of it. Reads the flags in proc(5), the seventh field behind the name.
bool is_being_ended(std::int32_t process) {
  constexpr unsigned long k_was_signalled = 0x400;  // PF_SIGNALED
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), "/proc/%d/stat", process);
  const int file = ::open(text.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  text[static_cast<std::size_t>(std::max<ssize_t>(length, 0))] = '\0';
  const char* const behind_name = std::strrchr(text.data(), ')');
  unsigned long flags = 0;
  return behind_name != nullptr && std::sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
         (flags & k_was_signalled) != 0;
}

std::uint64_t word_of(std::int32_t process) { return 0x6c73636865643a29 ^ static_cast<std::uint64_t>(process); }

}  // namespace

peer_processes::~peer_processes() {
  for (const int process : watched_)
    if (process >= 0) ::close(process);
}

void peer_processes::watch(rank peer, std::int32_t process) {
  int& watched = watched_[static_cast<std::size_t>(peer)];
  if (watched < 0 && process != 0 && process != getpid())
    watched = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
}

bool peer_processes::has_ended(rank peer, std::int32_t process, bool is_awaited) {
  if (process == 0 || process == getpid()) return false;
  watch(peer, process);
  pollfd ended{watched_[static_cast<std::size_t>(peer)], POLLIN, 0};
  if (ended.fd >= 0 ? ::poll(&ended, 1, 0) > 0 : kill(process, 0) != 0 && errno == ESRCH) return true;
  return is_awaited && is_being_ended(process);
}

memory_probe::memory_probe() : word_(word_of(getpid())) {}

std::uint64_t memory_probe::address() const { return reinterpret_cast<std::uintptr_t>(&word_); }

bool memory_probe::answers(std::int32_t process, std::uint64_t address) {
  std::uint64_t word = 0;
  return process != 0 && address != 0 &&
         read_peer_memory(process, address, reinterpret_cast<std::byte*>(&word), sizeof word) &&
         word == word_of(process);
}

bool read_peer_memory(std::int32_t process, std::uint64_t address, std::byte* into, std::uint64_t bytes) {
  while (bytes > 0) {
    const iovec here{into, bytes};
    const iovec there{reinterpret_cast<void*>(address), bytes};
    const ssize_t read = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (read <= 0) return false;
    const auto done = static_cast<std::uint64_t>(read);
    into += done;
    address += done;
    bytes -= done;
  }
  return true;
}

}  // namespace lsched
