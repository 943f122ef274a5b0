// file_size_limit() returns the file size limit of the process (`ulimit -f`).
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <limits>

namespace lsched {

/// Returns RLIMIT_FSIZE in bytes, or the maximum of the type if the process has no such limit. A write, ftruncate or
/// posix_fallocate beyond the limit raises SIGXFSZ, which ends the process. So the library first compares each size
/// with the limit. The limit also applies to memory files (memfd).
inline std::uint64_t file_size_limit() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace lsched
