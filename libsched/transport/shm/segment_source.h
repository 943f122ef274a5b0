// How the ranks of a machine come to share a segment that one of them has made and that has no name: by the descriptor
// in its creator's process, which the others open through /proc.
#pragma once

#include <cstdint>
#include <memory>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched {

/// The descriptor of a segment in the process that created it. The inode tells that file from any other. Plain bytes.
struct segment_source {
  std::int32_t process = 0;  ///< 0: there is no segment
  std::int32_t descriptor = -1;
  std::uint64_t device = 0, inode = 0;
};

segment_source source_of(const shm_segment& segment);

/// Maps the segment of another process of this user, which is there until this has returned. Both must see the same
/// process numbers, because ranks watch each other by these. TRANSPORT.
result<std::shared_ptr<shm_segment>> open_segment(const segment_source& source, rank ranks);

/// Whether all ranks have taken their places in this very segment.
bool is_seen_by_all(const shm_segment& segment);

}  // namespace lsched
