// The plan for the last part of a round. In this part, all ranks receive the items that the owners of regions
// (regions.h) have kept for the result. All ranks compute the same plan, from the number of items that each owner
// keeps.
//
// The share of a rank is either the list that the rank keeps as an owner, or an equal part of the concatenation of all
// kept lists. With equal shares, no rank has to send more items than others:
//
//     kept by owner   a a a a a a a│b│c c        share of rank   a a a│a a a│a b c c  (of 10 items, P = 3)
//
// Then the shares are gathered by dissemination, in ceil(log2 P) steps with distances d = 1, 2, 4, …. In a step, rank r
// sends min(d, P-d) shares to rank r-d, beginning with its own share. It receives the same number of shares, beginning
// with the share of rank r+d.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// Numbers of items that a rank sends to other ranks, and receives from other ranks.
struct item_traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// The positions at which G items are cut into P equal shares. The share of rank q begins at item floor((q G + phase) /
/// P). Any m consecutive shares have floor(m G / P) or ceil(m G / P) items. The phase is chosen for the rank
/// `keeps_most`: for every m, the m shares that begin with its share have only floor(m G / P) items. This rank keeps
/// the most items, so it sends the most when shares are made equal. In return, it sends the minimum when shares are
/// gathered.
class equal_shares {
 public:
  equal_shares(std::uint64_t items, rank size, rank keeps_most)
      : each_(items / wide(size)), more_(items % wide(size)), size_(wide(size)) {
    phase_ = (size_ - wide(keeps_most) * more_ % size_) % size_;
  }

  std::uint64_t begin(std::uint64_t q) const { return q * each_ + (q * more_ + phase_) / size_; }

 private:
  static std::uint64_t wide(rank r) { return static_cast<std::uint64_t>(r); }

  std::uint64_t each_, more_, size_, phase_;
};

class balance_plan {
 public:
  /// Allocates memory for worlds of `size` ranks. Before make(), the plan is for a round without items.
  explicit balance_plan(rank size);

  /// Makes the plan. `kept` has the number of items that each of the P owners keeps, at most 2^32 together. Under
  /// balance_rule::cost, shares are made equal only if that reduces the traffic of the busiest rank. The traffic of a
  /// rank is max(items sent, items received). Both numbers include the exchange of pieces and the gathering of shares.
  /// O(P log P). Does not allocate.
  void make(std::span<const std::uint64_t> kept, balance_rule rule);

  bool is_balanced() const { return is_balanced_; }
  /// Returns the number of items of the result.
  std::uint64_t total() const { return share_ends_.back(); }
  /// Returns the length of each rank's share.
  std::span<const std::uint64_t> shares() const { return shares_; }

  /// Writes P lengths, in rank order: the number of items that `owner` sends to each rank to make shares equal. The
  /// length for `owner` itself is the number of items that are not sent.
  void pieces_of(rank owner, std::span<std::uint64_t> lengths) const;
  /// Writes P lengths, in rank order: the number of items of the share of `receiver` that come from each owner. The
  /// items from `receiver` itself are not sent.
  void sources_of(rank receiver, std::span<std::uint64_t> lengths) const;

  /// Returns the traffic of rank `self` in the exchange that makes shares equal. O(1).
  item_traffic exchanged_by(rank self) const;
  /// Returns the traffic of rank `self` in the gathering of shares. O(log P).
  item_traffic gathered_by(rank self) const;

 private:
  void share_as_kept();
  void share_equally(rank keeps_most);
  std::uint64_t cost() const;
  std::uint64_t common(rank owner, rank receiver) const;
  std::uint64_t shares_from(rank first, rank count) const;

  rank size_;
  bool is_balanced_ = false;
  std::vector<std::uint64_t> kept_ends_;   ///< P+1 numbers: offset of each owner's items among all items
  std::vector<std::uint64_t> share_ends_;  ///< P+1 numbers: offset of each rank's share
  std::vector<std::uint64_t> shares_;
};

}  // namespace lsched
