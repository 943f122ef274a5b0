#include "libsched/transport/shm/segment_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "libsched/transport/shm/peer_processes.h"

namespace lsched {

segment_source source_of(const shm_segment& segment) {
  struct stat file {};
  if (fstat(segment.descriptor(), &file) != 0) return {};
  return {static_cast<std::int32_t>(getpid()), segment.descriptor(), file.st_dev, file.st_ino};
}

result<std::shared_ptr<shm_segment>> open_segment(const segment_source& source, rank ranks) {
  constexpr char k_other_space[] =
      "the ranks are in different PID namespaces: run all ranks in the same container or PID namespace";
  if (!is_proc_readable()) return failure{status::transport, k_other_space};
  const std::string path = "/proc/" + std::to_string(source.process) + "/fd/" + std::to_string(source.descriptor);
  struct stat file {};
  const bool is_visible = stat(path.c_str(), &file) == 0;
  if (is_visible && (file.st_dev != source.device || file.st_ino != source.inode))
    return failure{status::transport, k_other_space};
  const int descriptor = is_visible ? open(path.c_str(), O_RDWR | O_CLOEXEC) : -1;
  if (descriptor < 0) return failure{status::transport, "cannot open " + path + ": " + std::strerror(errno)};
  auto segment = shm_segment::adopt(descriptor);
  if (segment && (*segment)->ranks() != ranks)
    return failure{status::transport,
                   "shared memory: the segment was made for another number of ranks: pass the same size on all ranks"};
  return segment;
}

bool is_seen_by_all(const shm_segment& segment) {
  for (rank r = 0; r < segment.ranks(); ++r)
    if (segment.page(r).state_of_rank.load() == shm_page::absent) return false;
  return true;
}

}  // namespace lsched
