// Access to a segment (shm_segment.h) that another process of the machine has created. The segment has no name, so
// other ranks open the creator's descriptor through /proc.
#pragma once

#include <cstdint>
#include <memory>

#include "libsched/transport/shm/shm_segment.h"

namespace lsched {

/// The descriptor of a segment in the process that created it. Device and inode identify the file. The struct consists
/// of plain bytes, so that it can be sent to other processes.
struct segment_source {
  std::int32_t process = 0;  ///< 0: no segment
  std::int32_t descriptor = -1;
  std::uint64_t device = 0, inode = 0;
};

segment_source source_of(const shm_segment& segment);

/// Maps the segment of another process of this user. That process must live until this call has returned. Both
/// processes must see the same process numbers, because ranks watch each other by number. Returns TRANSPORT on failure.
result<std::shared_ptr<shm_segment>> open_segment(const segment_source& source, rank ranks);

/// Returns whether all ranks have taken their places in this segment.
bool is_seen_by_all(const shm_segment& segment);

}  // namespace lsched
