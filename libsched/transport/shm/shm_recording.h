// The recording contains the current state of every rank of a node. It is in memory that outlives the ranks.
//
//     | header | record 0 | record 1 | …          a part of the segment (shm_segment.h)
//
// When its application calls the library for a round, a rank writes a word. When a wait has become long, the rank
// writes a note. Peers read these words and notes to find the rank that the error text of a timeout must name.
// `lsched run` keeps the segment, so `lsched postmortem` can read the recording after the ranks have ended. If
// LSCHED_RECORDER names a file, this part of the segment is that file, which outlives every process.
// docs/reference/recorder.md explains the output.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// The record of one rank. A record of zeros means that the rank is absent. A record may change while a reader reads.
struct shm_record {
  static constexpr std::size_t k_places = 4096;  ///< maximum number of instances; further instances are not on record
  static constexpr std::size_t k_label_bytes = 64;

  std::atomic<std::int32_t> process;
  std::atomic<std::int32_t> rank_in_world;   ///< with several nodes, differs from the index in the recording
  std::atomic<std::uint64_t> process_start;  ///< distinguishes the process from a later process with the same pid
  std::atomic<std::uint64_t> closed_ns;      ///< time at which the rank closed its world; 0: the world is open
  std::atomic<std::uint64_t> wait_round;     ///< 0: the rank does not wait
  std::atomic<std::uint64_t> wait_since_ns;
  std::atomic<std::uint64_t> wait_instance;  ///< id of the instance for which the rank waits
  std::atomic<std::uint32_t> wait_op;
  std::atomic<std::int32_t> wait_peer;
  std::atomic<std::uint32_t> wait_kind;
  std::atomic<std::uint32_t> wait_tag;
  // Per instance, indexed by place:
  alignas(64) std::atomic<std::uint64_t> entered[k_places];  ///< last round for which the application has called
  std::atomic<std::uint64_t> number[k_places];               ///< id of the instance plus one; 0: the place is free
  char label[k_places][k_label_bytes];                       ///< name; empty: the instance was destroyed

  void note(const wait_note& what);
  /// Returns the note of the current wait. Returns an empty note if the rank does not wait, or if the note changes
  /// during this call.
  wait_note wait() const;
  void set_label(std::uint32_t place, std::string_view text);  ///< an empty `text` removes the label
};

/// Returns the time of the machine's monotonic clock, which is the same for all processes.
std::uint64_t monotonic_ns();
/// Returns the offset from the monotonic clock to the time of day.
std::int64_t wall_offset_ns();

/// Returns the size in bytes of a recording of `ranks` ranks. The size is a whole number of pages.
std::uint64_t recording_bytes(std::int64_t ranks);

/// Returns the header of a recording that begins now on this machine.
std::vector<std::byte> recording_header(std::int64_t ranks);

/// Returns the record of a rank in memory that holds a recording.
shm_record& record_in(std::byte* recording, rank who);

/// Creates the file for the recording of `ranks` ranks, with its header. Allocates all disk blocks, so that a full disk
/// is detected now. An existing recording is replaced. Processes that still write to the existing recording keep the
/// old file. Returns ARGUMENT if another kind of file exists at `path`. The caller owns the returned descriptor.
result<int> create_recording(const std::string& path, std::int64_t ranks);

// --- reading ----------------------------------------------------------------------------------------------------

/// A schedule in the record of a rank. The rank may have destroyed the schedule earlier than other ranks. `entered` is
/// the last round for which the rank's application has called, or 0.
struct recorded_schedule {
  std::uint64_t number = 0;  ///< id of the instance, equal on all members of the schedule's world
  std::string label{};       ///< name; empty if the rank has destroyed the schedule
  round_no entered = 0;
};

struct recorded_rank {
  rank number = 0;           ///< rank in the world, which may span several nodes
  std::int32_t process = 0;  ///< 0: the rank never joined
  std::uint64_t process_start = 0;
  std::uint64_t closed_ns = 0;  ///< 0: the world is still open
  wait_note wait{};
  std::vector<recorded_schedule> schedules{};  ///< sorted by number

  const recorded_schedule* find(std::uint64_t schedule) const;
};

/// Returns true if all ranks are members of the world of schedule `number`. The recording does not contain the members
/// of other worlds.
constexpr bool is_of_all_ranks(std::uint64_t number) { return number >> 32 == 0; }

recorded_rank read_record(const shm_record& record);

/// A parsed recording. Times are times of the machine's monotonic clock.
struct recording {
  bool is_of_this_boot = false;     ///< true if the recording was written on this machine since its last start
  std::int64_t wall_offset_ns = 0;  ///< offset from recorded times to the time of day
  std::vector<recorded_rank> ranks{};
};

/// Parses a recording. Returns VERSION if the bytes are not a recording of this version.
result<recording> parse_recording(std::span<const std::byte> bytes);

}  // namespace lsched
