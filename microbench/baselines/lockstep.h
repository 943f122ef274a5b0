// All ranks of an Ok-Topk in one process, one phase after the other: lists go from rank to rank by reference, and what
// messages would carry is counted.
//
// `lockstep` runs every rank's steps (oktopk_steps.h) on gradients. `list_lockstep` is given what
// ranks have selected, has no residuals, and computes once what all ranks would come to alike: for worlds of thousands
// of ranks. What they count is the same.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/sparse/steps/oktopk_steps.h"
#include "microbench/baselines/volume.h"

namespace lsched {

/// What both count, of the last round.
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
  /// The problem is valid; whose rank it is for does not matter. Throws std::bad_alloc, as do rounds.
  explicit lockstep(const sparse_problem& problem);
  ~lockstep();

  /// A round. gradients: P pointers to `count` elements, or nullptr. updates: P pointers, as settle takes them, or no
  /// pointers. An INTERNAL failure says that messages would not fit together: ranks do not agree about shares, or about
  /// a piece's length, or an owner does not keep what was planned.
  std::optional<failure> run(std::span<const void* const> gradients, std::span<void* const> updates = {});

  /// A round in two parts: all up to the result; and what makes it count. Without the second part the round is one that
  /// was given up. Failures: as above.
  std::optional<failure> exchange(std::span<const void* const> gradients);
  void settle(std::span<void* const> updates = {});

  /// Of the last exchange; until the next one.
  item_list result() const { return result_; }
  item_list selected(rank r) const;
  /// What a rank has split, one list behind the other.
  item_list sent(rank r) const;
  /// P+1.
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

  std::vector<std::unique_ptr<member>> members_;  ///< P
  std::vector<std::byte> gathered_items_;
  item_list gathered_{}, result_{};
};

class list_lockstep : public counted_rounds {
 public:
  /// What a rank has selected in a round: a list of at most k items. It is read before the next one is asked for, and
  /// asked for once, and again to follow and to look.
  using selections = std::function<item_list(rank, round_no)>;

  /// As above, of an exact selection. Memory: one vector, and one round's sum of all lists.
  explicit list_lockstep(const sparse_problem& problem);

  void run(const selections& selected);

  item_list result() const { return {result_.data(), plan_.total()}; }
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }

 private:
  void split(const selections& selected);
  void keep();

  std::vector<std::uint64_t> boundaries_;  ///< P+1
  region_parts parts_;
  std::vector<std::byte> split_;        ///< of one rank after the other
  std::vector<std::uint64_t> lengths_;  ///< P
  region_sum sum_;
  std::vector<std::byte> result_;
  balance_plan plan_;
};

}  // namespace lsched
