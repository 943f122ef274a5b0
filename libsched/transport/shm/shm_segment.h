// A segment is the memory that the ranks of one node share. It has one region for each rank.
//
// The segment is an anonymous memory file (memfd). It has no name in the file system. The kernel frees the memory when
// the last process that maps it has ended, even if processes are killed. The size of the file is sealed, and only the
// user who has created the file may open it. A process that has mapped the segment keeps no descriptor that stays open
// after exec. Locations in the segment are given as offsets from its start, which are valid in every process.
//
//     | header | page 0 | … | recording | region 0 | …          region r starts at data_offset + r * stride
//
// If the recording is in a file, every process maps that file in place of the recording's part (shm_recording.h).
// Regions are sparse: each region has `stride` bytes of address space, but pages are allocated when they are accessed.
// Core dumps omit segments.
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

/// The words that a rank publishes to its peers. A page of zeros means that the rank is absent.
struct shm_page {
  enum state : std::uint32_t { absent, open, closed };

  doorbell bell;
  alignas(64) life_word life;  ///< held by the thread that watches other ranks
  std::atomic<std::uint32_t> state_of_rank;
  std::atomic<process_id> process;   ///< process of the rank
  std::atomic<std::uint64_t> probe;  ///< address of the rank's memory_probe in its process
  std::atomic<std::int32_t> lost;    ///< in page n: the rank of loss n (counted from 0) plus one; 0: no such loss
  /// Parts of the rank's region that are never freed. The length is written last. A length of 0 means unused.
  static constexpr std::size_t k_kept_parts = 16;
  struct {
    std::atomic<std::uint64_t> offset, bytes;
  } kept[k_kept_parts];
  shm_area areas[exposed_area::k_most];
  shm_board_words home_board;
  shm_offer offers[shm_offer::k_places];
};

class shm_segment {
 public:
  /// Creates a segment for `ranks` ranks. The ranks are in one process, or in processes that inherit or receive
  /// `descriptor()`. `stride_bytes` is the size of a region. If it is 0, the size is default_stride(). `cores` is the
  /// number of cores that the ranks share, or 0 if unknown. `recorder` is the path of the file for the recording, or
  /// empty. The text of the error NO_MEMORY suggests a smaller size.
  static result<std::shared_ptr<shm_segment>> create(rank ranks, std::size_t stride_bytes = 0, unsigned cores = 0,
                                                     const std::string& recorder = {});

  /// Returns the default size of a region in address space. The size is `memory` (the size of the machine's memory), or
  /// less if the segment would exceed `most` or k_most_reserved bytes. Pages are allocated at first access.
  static std::uint64_t default_stride(rank ranks, std::uint64_t memory, std::uint64_t most);
  static constexpr std::uint64_t k_most_reserved = std::uint64_t{1} << 46;

  /// Returns true if the descriptor refers to a segment, of any version.
  static bool is_segment(int descriptor);

  /// Maps a segment that another process created. Closes the descriptor, also on failure.
  static result<std::shared_ptr<shm_segment>> adopt(int descriptor);

  ~shm_segment();
  shm_segment(const shm_segment&) = delete;
  shm_segment& operator=(const shm_segment&) = delete;

  rank ranks() const;
  unsigned cores() const;      ///< number of cores, as given by the creator; 0: unknown
  process_id creator() const;  ///< process of the launcher or of a rank
  /// Returns the descriptor to pass to other processes, or -1 if the segment was adopted. exec closes the descriptor.
  int descriptor() const { return descriptor_; }
  std::size_t stride() const;
  /// Returns a warning if a region is smaller than the machine's memory, else an empty string.
  std::string words_for_small_regions() const;

  /// Returns the rank that was lost after exactly `others` other ranks, or k_no_rank if there is no such loss yet.
  rank lost_after(rank others) const;
  bool is_lost(rank who) const;

  /// Records the loss of `who` and wakes all ranks. Returns false if this loss is already recorded. A rank must record
  /// a loss before it reacts to the loss. If this rank then ends because of the loss, the original loss is already on
  /// record.
  bool record_lost(rank who);

  /// Increments bad_news() and wakes the sleeping threads of all ranks.
  void wake_ranks() const;

  /// Sets the state of a rank to `as`. This is `open` if the rank has opened its endpoint, and `closed` if the rank
  /// never will. Does nothing unless the rank's state is `absent`.
  void enter(rank who, shm_page::state as);

  /// Sleeps until enter() was called for every rank, because the first commit reads the pages of all ranks. Returns
  /// TIMEOUT with a rank that has not entered within the limit, or PEER with the rank that was lost first.
  std::optional<failure> wait_for_ranks(std::chrono::nanoseconds limit);

  shm_page& page(rank of) const;
  shm_record& record(rank of) const;
  /// Reads the recording of a segment, for parse_recording. The caller keeps ownership of the descriptor. Returns
  /// VERSION if the segment has another version, and TRANSPORT if the recording is in a file that was replaced by
  /// another file.
  static result<std::string> read_recording(int descriptor);
  /// Returns the counter of cancelled instances and lost ranks. A rank searches for such events only if the counter has
  /// changed.
  std::atomic<std::uint64_t>& bad_news() const;
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  std::uint64_t offset_of(const std::byte* place) const { return static_cast<std::uint64_t>(place - base_); }
  std::uint64_t region_start(rank of) const;
  /// Returns the rank whose region contains `offset`, or k_no_rank.
  rank region_of(std::uint64_t offset) const;

  /// Returns true if [offset, offset + bytes) is in the region of rank `of`. Callers must check all offsets that peers
  /// provide.
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

/// Allocates memory in this rank's region, by first fit. Adjacent free pieces are merged. Any thread may use the heap,
/// but only on a cold path.
class shm_heap {
 public:
  /// Maximum amount of free memory that keeps its pages. Further pages are returned to the system.
  static constexpr std::uint64_t k_most_kept = std::uint64_t{32} << 20;

  /// `touches`: allocate() accesses all pages, so that the system allocates them immediately.
  shm_heap(std::shared_ptr<shm_segment> segment, rank self, bool touches = false);

  /// Returns memory that is aligned to 64 bytes. Memory of at least 4096 bytes is aligned to 4096 bytes. Returns
  /// nullptr if the region is full.
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
  std::map<std::uint64_t, std::uint64_t> free_;  ///< size in bytes of each free piece, by offset
  std::map<std::uint64_t, std::uint64_t> used_;
  std::uint64_t kept_ = 0;  ///< number of free bytes whose pages are possibly still allocated
  const bool touches_;
};

}  // namespace lsched
