// The memory that the ranks of one node share: one mapping with one region per rank, and no name in the file system.
//
// The segment is an anonymous memory file (memfd). Nothing appears under /dev/shm. The kernel frees the memory with the
// last process that maps it, even if processes are killed. The size of the file is sealed, and only the user who has
// created the file may open it. A process that has mapped the segment keeps no descriptor that executed programs would
// inherit. Places in the segment are written as offsets from the segment's start, which are valid in every process.
//
//     | header | page 0 | … | recording | region 0 | …          region r starts at data_offset + r * stride
//
// If the recording is in a file, every process maps the file over that part (shm_recording.h). Regions are sparse:
// `stride` is address space, and pages are allocated when touched. Core dumps exclude the segment.
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

/// The words that each rank publishes to its peers. All zeros: the rank is absent.
struct shm_page {
  enum state : std::uint32_t { absent, open, closed };

  doorbell bell;
  alignas(64) life_word life;  ///< held by the thread that watches other ranks
  std::atomic<std::uint32_t> state_of_rank;
  std::atomic<process_id> process;   ///< process that has taken the rank's place
  std::atomic<std::uint64_t> probe;  ///< address of the rank's memory_probe in its process
  std::atomic<std::int32_t> lost;    ///< in page r: rank that was lost after r other ranks, plus one; 0: no such rank
  /// Parts of the rank's region that are never freed. The length is written last; 0: unused.
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
  /// Creates a segment for `ranks` ranks of one process, or of processes that inherit or receive `descriptor()`. If
  /// `stride_bytes` is 0, a region has default_stride() of this machine. `cores`: cores that the ranks share; 0:
  /// unknown. `recorder`: file for the recording, or empty. NO_MEMORY: the text advises a smaller size.
  static result<std::shared_ptr<shm_segment>> create(rank ranks, std::size_t stride_bytes = 0, unsigned cores = 0,
                                                     const std::string& recorder = {});

  /// Returns the default size of a region in address space: the memory of the machine, but for all regions together at
  /// most `most` and k_most_reserved. Pages are allocated when touched.
  static std::uint64_t default_stride(rank ranks, std::uint64_t memory, std::uint64_t most);
  static constexpr std::uint64_t k_most_reserved = std::uint64_t{1} << 46;

  /// Returns whether the descriptor refers to a segment of any version.
  static bool is_segment(int descriptor);

  /// Maps a segment that another process created. Closes the descriptor, also on failure.
  static result<std::shared_ptr<shm_segment>> adopt(int descriptor);

  ~shm_segment();
  shm_segment(const shm_segment&) = delete;
  shm_segment& operator=(const shm_segment&) = delete;

  rank ranks() const;
  unsigned cores() const;      ///< number of cores, as given by the creator; 0: unknown
  process_id creator() const;  ///< the launcher, or a rank
  /// Returns the descriptor for processes that inherit or receive it. exec closes the descriptor. -1: the segment was
  /// adopted.
  int descriptor() const { return descriptor_; }
  std::size_t stride() const;
  /// Returns a warning if the regions are smaller than the machine's memory, and else an empty string.
  std::string words_for_small_regions() const;

  /// Returns the rank whose loss was recorded after `others` other losses, by any rank; k_no_rank: no such loss yet.
  rank lost_after(rank others) const;
  bool is_lost(rank who) const;

  /// Appends the loss of `who` to the losses on record, and wakes all ranks. Returns false if this loss is on record
  /// already. A rank records a loss before it acts on it. So a rank that ends because of a loss comes after that loss
  /// on record.
  bool record_lost(rank who);

  /// Increments bad_news() and wakes the sleeping threads of all ranks.
  void wake_ranks() const;

  /// Records that a rank that was absent has opened its endpoint, or never will.
  void enter(rank who, shm_page::state as);

  /// Sleeps until every rank has entered, because the first commit reads the pages of all ranks. TIMEOUT names a rank
  /// that has not entered within the limit. PEER names the rank that was lost first.
  std::optional<failure> wait_for_ranks(std::chrono::nanoseconds limit);

  shm_page& page(rank of) const;
  shm_record& record(rank of) const;
  /// Reads the recording of a segment, for parse_recording. The caller keeps the descriptor of the segment. Returns
  /// VERSION if the segment has another version, and TRANSPORT if another file has replaced the file of the recording.
  static result<std::string> read_recording(int descriptor);
  /// Returns the counter of events that every rank must notice: cancelled instances and lost ranks. A rank has nothing
  /// to search for while the counter is unchanged.
  std::atomic<std::uint64_t>& bad_news() const;
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  std::uint64_t offset_of(const std::byte* place) const { return static_cast<std::uint64_t>(place - base_); }
  std::uint64_t region_start(rank of) const;
  /// Returns the rank whose region holds the offset, or k_no_rank.
  rank region_of(std::uint64_t offset) const;

  /// Returns whether [offset, offset + bytes) lies in the region of `of`. Offsets from peers are checked before use.
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

/// Allocates pieces of this rank's own region: the first free piece that is large enough. Adjacent free pieces are
/// merged. Used on cold paths only. Any thread.
class shm_heap {
 public:
  /// The maximum amount of free memory whose pages may have been touched. Further pages are returned to the system.
  static constexpr std::uint64_t k_most_kept = std::uint64_t{32} << 20;

  /// `touches`: allocate() populates the pages at once instead of at their first use.
  shm_heap(std::shared_ptr<shm_segment> segment, rank self, bool touches = false);

  /// Returns memory with an alignment of 64 bytes, or 4096 bytes from one page upwards; nullptr if the region is full.
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
  std::map<std::uint64_t, std::uint64_t> free_;  ///< sizes of free pieces in bytes, by offset
  std::map<std::uint64_t, std::uint64_t> used_;
  std::uint64_t kept_ = 0;  ///< free bytes that may have been touched
  const bool touches_;
};

}  // namespace lsched
