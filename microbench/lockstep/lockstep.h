// Runs all ranks of an Ok-Topk in one process, phase by phase. Lists are passed by reference, and the data that
// messages would carry are counted.
//
// `lockstep` runs the steps of every rank (oktopk_steps.h) on gradients. `list_lockstep` is for worlds of thousands of
// ranks: its inputs are the selected lists, it has no residuals, and it computes the steps whose result is equal on all
// ranks only once. Both classes count the same numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/sparse/steps/oktopk_steps.h"
#include "microbench/lockstep/volume.h"

namespace lsched {

/// The base class of `lockstep` and `list_lockstep`, with the counts of the last round.
class counted_rounds {
 public:
  const round_volume& volume() const { return meter_.volume(); }
  item_traffic payload_of(rank r) const { return meter_.payload_of(r); }

 protected:
  explicit counted_rounds(const sparse_problem& problem) : problem_(problem), meter_(problem) {}

  sparse_problem problem_;
  round_no round_ = 0;
  volume_meter meter_;
};

class lockstep : public counted_rounds {
 public:
  /// The problem must be valid. problem.place.self is not used. The constructor and the rounds throw std::bad_alloc.
  explicit lockstep(const sparse_problem& problem);
  ~lockstep();

  /// Runs a round. `gradients` has P pointers, each to `count` elements or nullptr. `updates` has P pointers as in
  /// settle, or is empty. Returns an INTERNAL failure if sent and received messages would not match: ranks disagree on
  /// shares or on the length of a piece, or an owner does not keep the planned items.
  std::optional<failure> run(std::span<const void* const> gradients, std::span<void* const> updates = {});

  /// Runs the first part of a round, up to the result. The round is treated as failed unless settle() follows. Returns
  /// failures like run.
  std::optional<failure> exchange(std::span<const void* const> gradients);
  /// Runs the second part of a round, which updates the residuals.
  void settle(std::span<void* const> updates = {});

  /// Returns the result of the last exchange. The lists are valid until the next exchange.
  item_list result() const { return result_; }
  item_list selected(rank r) const;
  /// Returns the items that a rank has sent to the owners of regions, as one list.
  item_list sent(rank r) const;
  /// Returns the P+1 boundaries of the P regions into which the vector is divided.
  std::span<const std::uint64_t> boundaries() const;

  sparse_state& state(rank r);

 private:
  struct member;

  void place_regions();
  void follow();
  void split();
  void fold();
  void find_threshold();
  std::optional<failure> keep();
  void gather();

  std::vector<std::unique_ptr<member>> members_;  ///< P members
  std::vector<std::byte> gathered_items_;
  item_list gathered_{}, result_{};
};

class list_lockstep : public counted_rounds {
 public:
  /// Returns the selection of a rank in a round, a list of at most k items. The list need not stay valid when the next
  /// list is requested. A list may be requested up to three times in a round: for the split, for drift, and for new
  /// boundaries.
  using selections = std::function<item_list(rank, round_no)>;

  /// The problem must be valid, with an exact selection. Allocates memory for one vector, and for the sum of all lists
  /// of a round.
  explicit list_lockstep(const sparse_problem& problem);

  void run(const selections& selected);

  item_list result() const { return {result_.data(), plan_.total()}; }
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }

 private:
  void split(const selections& selected);
  void keep();

  std::vector<std::uint64_t> boundaries_;  ///< P+1
  region_parts parts_;
  std::vector<std::byte> split_;        ///< split list of one rank at a time
  std::vector<std::uint64_t> lengths_;  ///< P
  region_sum sum_;
  std::vector<std::byte> result_;
  balance_plan plan_;
};

}  // namespace lsched
