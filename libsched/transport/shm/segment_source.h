// A rank can map a segment (shm_segment.h) that another process of the machine has created. The segment has no name in
// the file system, so the rank opens the creator's descriptor through /proc.
#pragma once

#include <cstdint>
#include <memory>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched {

/// The file descriptor of a segment in the process that created it. Device and inode identify the file. The struct must
/// be trivially copyable, because it is sent to other processes.
struct segment_source {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t device = 0, inode = 0;
};

segment_source source_of(const shm_segment& segment);

/// Maps the segment that another process of this user has created. That process must stay alive until this call has
/// returned. Both processes must be in the same pid namespace, because ranks detect dead processes by pid. Returns
/// TRANSPORT on failure.
result<std::shared_ptr<shm_segment>> open_segment(const segment_source& source, rank ranks);

/// Returns true if every rank has opened its endpoint in this segment, or never will.
bool is_seen_by_all(const shm_segment& segment);

}  // namespace lsched
