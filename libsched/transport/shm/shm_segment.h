// The memory that the ranks of one node share: one mapping, one region per rank, no names.
//
// It is an anonymous memory file (memfd): nothing ever appears under /dev/shm, and the kernel frees it with the
// last process that maps it, whoever is killed when. Its size is sealed, only its user may open it, and a process that
// has mapped it keeps no descriptor that programs it executes would inherit. A place in it is written as an offset from
// its start, which means the same in every process.
//
//     | header | page 0 | … | recording | region 0 | …          region r starts at data_offset + r * stride
//
// The recording may lie in a file instead, which every process maps in its place (shm_recording.h). Regions are sparse:
// `stride` is address space, not memory; pages are taken when touched. Core dumps leave the segment out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "libsched/transport/doorbell.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/life_word.h"
#include "libsched/transport/shm/peer_processes.h"
#include "libsched/transport/shm/shm_area.h"
#include "libsched/transport/shm/shm_board.h"
#include "libsched/transport/shm/shm_recording.h"

namespace lsched {

/// What each rank shows its peers. All zeroes: not there yet.
struct shm_page {
  enum state : std::uint32_t { absent, open, closed };

  doorbell bell;
  alignas(64) life_word life;  ///< held by the thread that watches other ranks
  std::atomic<std::uint32_t> state_of_rank;
  std::atomic<process_id> process;   ///< that has taken the rank's place
  std::atomic<std::uint64_t> probe;  ///< address of the rank's memory_probe in its process
  std::atomic<std::int32_t> lost;    ///< of the r-th page: the rank that was lost after r others, plus one
  /// Parts of the rank's region that are never given back: offsets, and lengths, which are written last. 0: none yet.
  static constexpr std::size_t k_kept_parts = 16;
  struct {
    std::atomic<std::uint64_t> offset, bytes;
  } kept[k_kept_parts];
  shm_area areas[endpoint::k_most_areas];
  shm_board_words home_board;
  shm_offer offers[shm_offer::k_places];
};

class shm_segment {
 public:
  /// A new segment for `ranks` ranks of one process, or of processes that will inherit or receive `descriptor()`.
  /// `stride_bytes` 0: default_stride() of this machine. NO_MEMORY says what to ask for. `cores`: what the ranks share,
  /// if the creator knows. `recorder`: the file that is to hold the recording; empty: none does.
  static result<std::shared_ptr<shm_segment>> create(rank ranks, std::size_t stride_bytes = 0, unsigned cores = 0,
                                                     const std::string& recorder = {});

  /// A rank's share of address space where nothing else is said: as much as the machine has memory, but all together
  /// not more than `most` or k_most_reserved. Pages are taken when touched.
  static std::uint64_t default_stride(rank ranks, std::uint64_t memory, std::uint64_t most);
  static constexpr std::uint64_t k_most_reserved = std::uint64_t{1} << 46;

  /// Returns whether the descriptor is that of a segment, of any version.
  static bool is_segment(int descriptor);

  /// Maps a segment that another process created, and closes the descriptor, also on failure.
  static result<std::shared_ptr<shm_segment>> adopt(int descriptor);

  ~shm_segment();
  shm_segment(const shm_segment&) = delete;
  shm_segment& operator=(const shm_segment&) = delete;

  rank ranks() const;
  unsigned cores() const;      ///< as its creator said; 0: unknown
  process_id creator() const;  ///< the launcher, or a rank
  /// For processes that inherit or receive it; closed by exec. -1: the segment was adopted.
  int descriptor() const { return descriptor_; }
  std::size_t stride() const;
  /// For people: that a rank's region is smaller than the machine's memory, of which the ranks could use as much; or
  /// nothing.
  std::string words_for_small_regions() const;

  /// The rank whose loss was noticed after so many others, by any rank; k_no_rank: none yet.
  rank lost_after(rank others) const;
  bool is_lost(rank who) const;

  /// Records that `who` is lost, behind the losses that are on record, and wakes all ranks. Returns false if the loss
  /// is on record already. A rank that notices a loss records it before anything that follows from it. So a rank that
  /// has ended because of a loss comes after that loss.
  bool record_lost(rank who);

  /// Wakes the threads of all ranks, whatever they sleep for: bad_news() has something new.
  void wake_ranks() const;

  /// A rank that was absent has opened its endpoint, or will not.
  void enter(rank who, shm_page::state as);

  /// Waits, asleep, until every rank has entered: the first commit looks at all of them. TIMEOUT names a rank that has
  /// not come within the limit. PEER names the rank that was lost first.
  std::optional<failure> wait_for_ranks(std::chrono::nanoseconds limit);

  shm_page& page(rank of) const;
  shm_record& record(rank of) const;
  /// The recording of the segment that this descriptor is of, for parse_recording; the descriptor stays the caller's.
  /// VERSION; TRANSPORT where the recording is a file and another one has its place.
  static result<std::string> read_recording(int descriptor);
  /// What every rank has to hear of: that an instance was given up, or that a rank is lost. Grows with each: who has
  /// seen the same number has nothing to look for.
  std::atomic<std::uint64_t>& bad_news() const;
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  std::uint64_t offset_of(const std::byte* place) const { return static_cast<std::uint64_t>(place - base_); }
  std::uint64_t region_start(rank of) const;
  /// The rank whose region holds the offset; k_no_rank: none does.
  rank region_of(std::uint64_t offset) const;

  /// Whether [offset, offset + bytes) lies in the region of `of`: peers' offsets are checked before use.
  bool holds(rank of, std::uint64_t offset, std::uint64_t bytes) const;

 private:
  struct header;
  shm_segment(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  static result<std::shared_ptr<shm_segment>> map(int descriptor);
  header& head() const;
  bool have_all_opened() const;
  rank find_absent() const;
  void record_ended_on_the_way();

  int descriptor_ = -1;
  std::byte* base_;
  std::size_t bytes_;
};

/// Hands out pieces of this rank's own region. First fit with coalescing; a cold path. Any thread.
class shm_heap {
 public:
  /// So much memory that is free may have been touched; pages of more are given back to the system.
  static constexpr std::uint64_t k_most_kept = std::uint64_t{32} << 20;

  /// `touches`: the system provides the pages of what is allocated at once, and not at their first use.
  shm_heap(std::shared_ptr<shm_segment> segment, rank self, bool touches = false);

  /// 64-byte aligned (4096 from one page upwards); null when the region is full.
  std::byte* allocate(std::size_t bytes);
  void deallocate(std::byte* place);
  bool owns(const std::byte* place, std::uint64_t bytes) const;

 private:
  std::byte* take(std::size_t bytes);
  void keep_or_give_back(std::uint64_t start, std::uint64_t bytes);

  std::shared_ptr<shm_segment> segment_;
  const std::byte* begin_;
  const std::byte* end_;
  std::mutex guard_;
  std::map<std::uint64_t, std::uint64_t> free_;  ///< offset -> bytes
  std::map<std::uint64_t, std::uint64_t> used_;
  std::uint64_t kept_ = 0;  ///< free and, as far as is known, touched
  const bool touches_;
};

}  // namespace lsched
