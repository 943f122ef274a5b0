// The recording: where every rank of a node is, in memory that outlives the ranks.
//
//     | header | record 0 | record 1 | …          a part of the segment (shm_segment.h)
//
// A rank writes one word when its application calls for a round, and what it waits for once a wait has become long. Its
// peers read that to find out whom a timeout is to name, and `lsched postmortem` reads it when the ranks are gone:
// `lsched run` keeps the segment until then. Where LSCHED_RECORDER names a file, this part of the segment is that file,
// and outlives every process. docs/reference/recorder.md says how to read it.
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

/// What one rank writes. All zeroes: it is not there yet. A reader may see half of a change.
struct shm_record {
  static constexpr std::size_t k_places = 4096;  ///< for instances; those that find none are not on record
  static constexpr std::size_t k_label_bytes = 64;

  std::atomic<std::int32_t> process;
  std::atomic<std::int32_t> rank_in_world;   ///< differs from its place in the recording where there are several nodes
  std::atomic<std::uint64_t> process_start;  ///< what tells the process from a later one of its number
  std::atomic<std::uint64_t> closed_ns;      ///< when it closed its world; 0: it has not
  std::atomic<std::uint64_t> wait_round;     ///< 0: it does not wait
  std::atomic<std::uint64_t> wait_since_ns;
  std::atomic<std::uint64_t> wait_instance;  ///< its number
  std::atomic<std::uint32_t> wait_op;
  std::atomic<std::int32_t> wait_peer;
  std::atomic<std::uint32_t> wait_kind;
  std::atomic<std::uint32_t> wait_tag;
  // By place:
  alignas(64) std::atomic<std::uint64_t> entered[k_places];  ///< the last round that was called for
  std::atomic<std::uint64_t> number[k_places];               ///< of the instance, plus one; 0: the place is free
  char label[k_places][k_label_bytes];                       ///< cut; of a destroyed instance none

  void note(const wait_note& what);
  /// None also while it changes.
  wait_note wait() const;
  void set_label(std::uint32_t place, std::string_view text);  ///< empty: none
};

/// The machine's monotonic clock: the same for all processes.
std::uint64_t monotonic_ns();
/// What has to be added to it for the time of day.
std::int64_t wall_offset_ns();

/// Bytes of a recording of so many ranks, in whole pages.
std::uint64_t recording_bytes(std::int64_t ranks);

/// What a recording begins with, for this machine and this moment.
std::vector<std::byte> recording_header(std::int64_t ranks);

/// The record of a rank in memory that holds a recording.
shm_record& record_in(std::byte* recording, rank who);

/// A file for the recording of so many ranks, with its header, and its memory taken: a full disk is found out now. A
/// recording that lies there makes room and stays with the processes that write it; ARGUMENT for any other file.
/// Answers the descriptor, which is the caller's.
result<int> create_recording(const std::string& path, std::int64_t ranks);

// --- reading ----------------------------------------------------------------------------------------------------

/// A schedule that a rank has, or has destroyed before others had, and the last round that its application has called
/// for; 0: none.
struct recorded_schedule {
  std::uint64_t number = 0;  ///< equal on all members of its world
  std::string label{};       ///< empty: it is destroyed
  round_no entered = 0;
};

struct recorded_rank {
  rank number = 0;           ///< in the world, which may have other nodes
  std::int32_t process = 0;  ///< 0: it never joined
  std::uint64_t process_start = 0;
  std::uint64_t closed_ns = 0;  ///< 0: it has not closed its world
  wait_note wait{};
  std::vector<recorded_schedule> schedules{};  ///< by number

  const recorded_schedule* find(std::uint64_t schedule) const;
};

/// Whether all ranks are members of the schedule's world. Of others it is not on record who is.
constexpr bool is_of_all_ranks(std::uint64_t number) { return number >> 32 == 0; }

recorded_rank read_record(const shm_record& record);

/// Times are those of the machine's monotonic clock.
struct recording {
  bool is_of_this_boot = false;     ///< its processes and times are those of this machine, since it was last started
  std::int64_t wall_offset_ns = 0;  ///< what has to be added to a time for the time of day
  std::vector<recorded_rank> ranks{};
};

/// VERSION: these bytes are no recording, or one of another version.
result<recording> parse_recording(std::span<const std::byte> bytes);

}  // namespace lsched
