#include "libsched/transport/shm/peer_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace lsched {
namespace {

std::uint64_t word_of(std::int32_t process) { return 0x6c73636865643a29 ^ static_cast<std::uint64_t>(process); }

}  // namespace

process_id own_process() {
  struct stat space {};
  const bool is_known = ::stat("/proc/self/ns/pid", &space) == 0;
  return {static_cast<std::int32_t>(getpid()), is_known ? static_cast<std::uint32_t>(space.st_ino) : 0};
}

bool is_proc_readable() {
  std::array<char, 32> self{};
  return readlink("/proc/self", self.data(), self.size() - 1) > 0 && self.data() == std::to_string(getpid());
}

bool is_gone(std::int32_t process) {
  if (kill(process, 0) == 0) return false;
  if (errno == ESRCH) return true;
  const std::string entry = "/proc/" + std::to_string(process);
  return is_proc_readable() && access(entry.c_str(), F_OK) != 0 && errno == ENOENT;
}

bool can_find_processes() { return kill(getpid(), 0) == 0 || is_proc_readable(); }

namespace {

struct process_stat {
  char state = '\0';  ///< '\0': unknown
  int parent = 0;
  unsigned long flags = 0;
  long threads = 0;
  unsigned long long start = 0;
};

// Reads /proc/PID/stat. The members of process_stat are fields 1, 2, 7, 18 and 20 after the name (proc(5)).
process_stat stat_of(std::int32_t process) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "/proc/%d/stat", process);
  const int file = ::open(text.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t length = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  text[static_cast<std::size_t>(std::max<ssize_t>(length, 0))] = '\0';
  const char* const behind_name = std::strrchr(text.data(), ')');
  process_stat found;
  constexpr const char* k_fields = ") %c %d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu";
  const bool is_read = behind_name != nullptr && std::sscanf(behind_name, k_fields, &found.state, &found.parent,
                                                             &found.flags, &found.threads, &found.start) == 5;
  return is_read ? found : process_stat{};
}

bool is_killed(const process_stat& found) {
  constexpr unsigned long k_was_signalled = 0x400;  // PF_SIGNALED
  return (found.flags & k_was_signalled) != 0;
}

}  // namespace

bool is_killed(std::int32_t process) { return is_gone(process) || is_killed(stat_of(process)); }

std::int32_t parent_of(std::int32_t process) { return stat_of(process).parent; }

std::uint64_t start_of_process(std::int32_t process) { return stat_of(process).start; }

rank_state state_of_process(std::int32_t process) {
  const process_stat found = stat_of(process);
  if (is_gone(process) || is_killed(found)) return rank_state::ending;
  switch (found.state) {
    case '\0': return rank_state::unknown;
    case 'Z':
    case 'X': return found.threads > 1 ? rank_state::running : rank_state::ending;
    case 'T':
    case 't': return rank_state::stopped;
    default: return rank_state::running;
  }
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
