// Replaces the shared-memory segment of the transport shm. The replacement has the pages of three ranks, and memory for
// the boards. The explorer's copy of shm_board.cc includes this header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libsched/transport/doorbell.h"
#include "libsched/transport/shm/shm_board.h"

namespace lsched {

struct shm_page {
  enum state : std::uint32_t { absent, open, closed };

  struct constant {
    std::uint32_t load() const { return open; }
  };

  doorbell bell;
  constant state_of_rank;  ///< state of every rank; never changes, because no rank of a model closes its endpoint
  std::atomic<std::uint32_t> is_lost;
  shm_board_words home_board;
  shm_offer offers[1];
};

class shm_segment {
 public:
  static constexpr rank k_ranks = 3;

  explicit shm_segment(std::byte* base) : base_(base) {}
  rank ranks() const { return k_ranks; }
  shm_page& page(rank of) { return pages_[of]; }
  bool is_lost(rank who) const { return pages_[who].is_lost.load() != 0; }
  void record_lost(rank who) { pages_[who].is_lost.store(1); }
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  std::uint64_t offset_of(const std::byte* place) const { return static_cast<std::uint64_t>(place - base_); }
  bool holds(rank, std::uint64_t offset, std::uint64_t) const { return offset != 0; }

 private:
  std::byte* const base_;
  shm_page pages_[k_ranks]{};
};

}  // namespace lsched
