#include "libsched/transport/shm/ancestors.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "libsched/transport/shm/peer_processes.h"

namespace lsched {
namespace {

/// The id of the process that has loaded the library. The current process can be a forked child of that process.
const std::int32_t k_loaded_in = static_cast<std::int32_t>(getpid());

/// A line of /proc/PID/maps.
struct mapping {
  std::uintptr_t begin = 0, end = 0;
  bool is_code = false;
  std::uint64_t inode = 0;
  std::string device{}, path{};

  bool is_same_file(const mapping& other) const { return inode == other.inode && device == other.device; }
  /// Returns true if the file is the library of the C interface or the module of the Python package.
  bool is_library() const {
    const std::filesystem::path file(path);
    return file.filename().native().starts_with("libsched.so") ||
           (file.parent_path().filename() == "libsched" && file.extension() == ".so");
  }
};

mapping read_mapping(const std::string& line) {
  mapping found;
  char permissions[5] = {}, device[32] = {};
  int path_at = 0;
  const int fields = std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*x %31s %" SCNu64 " %n", &found.begin,
                                 &found.end, permissions, device, &found.inode, &path_at);
  if (fields != 5) return {};
  found.is_code = std::strchr(permissions, 'x') != nullptr;
  found.device = device;
  found.path = line.substr(static_cast<std::size_t>(path_at));
  return found;
}

/// Returns the first mapping of code for which the condition holds. If no such mapping exists, the inode of the result
/// is 0.
template <class Condition>
mapping find_code(std::int32_t process, Condition&& holds) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (mapping one = read_mapping(line); one.is_code && one.inode != 0 && holds(one)) return one;
  return {};
}

/// Returns the mapping that contains the code of this library.
mapping own_file() {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_user_above);
  return find_code(static_cast<std::int32_t>(getpid()),
                   [here](const mapping& one) { return here >= one.begin && here < one.end; });
}

}  // namespace

std::int32_t find_user_above(std::int32_t launcher) {
  if (!is_proc_readable()) return 0;
  std::int32_t process = parent_of(k_loaded_in);
  if (process <= 1 || process == launcher) return 0;  // the usual case
  const mapping own = own_file();
  for (; process > 1 && process != launcher; process = parent_of(process)) {
    const auto is_ours = [&](const mapping& one) { return one.is_same_file(own) || one.is_library(); };
    if (find_code(process, is_ours).inode != 0) return process;
  }
  return 0;
}

bool is_above(std::int32_t process) {
  if (!is_proc_readable() || process <= 1) return false;
  std::int32_t above = static_cast<std::int32_t>(getppid());
  while (above > 1 && above != process) above = parent_of(above);
  return above == process;
}

}  // namespace lsched
