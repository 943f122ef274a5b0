// Runs all ranks of an Ok-Topk in one process, phase by phase. Lists are passed by reference, and the data that
// messages would carry are counted.
//
// `lockstep` runs the steps of every rank (oktopk_steps.h) on gradients. `list_lockstep` takes the selected lists, has
// no residuals, and computes once the steps whose result is equal on all ranks. It is for worlds of thousands of ranks.
// Both count the same numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/sparse/steps/oktopk_steps.h"
#include "microbench/lockstep/volume.h"

namespace lsched {

/// The counts of the last round, which both classes have.
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
  /// The problem must be valid. Its own rank does not matter. The constructor and the rounds throw std::bad_alloc.
  explicit lockstep(const sparse_problem& problem);
  ~lockstep();

  /// Runs a round. `gradients` has P pointers to `count` elements, or nullptr. `updates` has P pointers as for settle,
  /// or is empty. Returns an INTERNAL failure if messages would not match. This is so if ranks disagree on shares or on
  /// the length of a piece, or if an owner does not keep the planned items.
  std::optional<failure> run(std::span<const void* const> gradients, std::span<void* const> updates = {});

  /// Runs the first part of a round, up to the result. Without the second part, the round counts as failed. Returns
  /// failures like run.
  std::optional<failure> exchange(std::span<const void* const> gradients);
  /// Runs the second part of a round, which updates the residuals.
  void settle(std::span<void* const> updates = {});

  /// Returns the result of the last exchange. The lists are valid until the next exchange.
  item_list result() const { return result_; }
  item_list selected(rank r) const;
  /// Returns the lists that a rank has sent to the owners, one after the other.
  item_list sent(rank r) const;
  /// Returns the P+1 boundaries of the regions.
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
  /// Returns the selection of a rank in a round, a list of at most k items. A list is read before the next is
  /// requested. Each list is requested once, again for drift, and again in rounds that update the boundaries.
  using selections = std::function<item_list(rank, round_no)>;

  /// The problem must be valid, with an exact selection. Takes memory for one vector, and for the sum of all lists of a
  /// round.
  explicit list_lockstep(const sparse_problem& problem);

  void run(const selections& selected);

  item_list result() const { return {result_.data(), plan_.total()}; }
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }

 private:
  void split(const selections& selected);
  void keep();

  std::vector<std::uint64_t> boundaries_;  ///< P+1
  region_parts parts_;
  std::vector<std::byte> split_;        ///< of one rank at a time
  std::vector<std::uint64_t> lengths_;  ///< P
  region_sum sum_;
  std::vector<std::byte> result_;
  balance_plan plan_;
};

}  // namespace lsched
