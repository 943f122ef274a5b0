// The plan for the last part of a round, in which all ranks receive the items that the owners of regions keep
// (regions.h). Every rank computes the plan from the number of items that each owner keeps, and all ranks get the same
// plan.
//
// Either the list that an owner keeps is also the owner's share of the result. Or the kept lists, one after the other,
// are first cut into equal shares, so that no rank must send more than others:
//
//     kept by owner   a a a a a a a│b│c c        share of rank   a a a│a a a│a b c c  (of 10 items, P = 3)
//
// Then shares are gathered by dissemination, in ceil(log2 P) steps of distance d = 1, 2, 4, …. Rank r sends min(d, P-d)
// shares, its own and those of the next ranks, to rank r-d. Rank r receives the same number of shares, beginning with
// the share of rank r+d.
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

/// The cuts of equal shares. The share of rank q begins at item floor((q G + phase) / P), where G is the number of
/// items. The P+1 positions begin with 0 and end with G. m consecutive shares have floor(m G / P) or ceil(m G / P)
/// items. The phase is chosen so that the shares from rank `keeps_most` on have floor(m G / P) items for every m. This
/// rank keeps the maximum number of items, and has to send many items to make shares equal. When shares are gathered,
/// it sends the minimum number.
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
  /// Allocates memory for worlds of this size. Before make(), no owner keeps any item.
  explicit balance_plan(rank size);

  /// Makes the plan. `kept` has the number of items that each of the P owners keeps. Their sum is at most 2^32. Under
  /// balance_rule::cost, shares are made equal only if that reduces the traffic of the busiest rank. The traffic of a
  /// rank is the number of items that the rank sends, or the number that it receives, in the exchange of pieces and in
  /// the gathering together. The larger number counts. O(P log P), and does not allocate.
  void make(std::span<const std::uint64_t> kept, balance_rule rule);

  bool is_balanced() const { return is_balanced_; }
  /// Returns the number of items of the result.
  std::uint64_t total() const { return share_ends_.back(); }
  /// Returns P lengths: the parts of the result, in order.
  std::span<const std::uint64_t> shares() const { return shares_; }

  /// Writes P lengths, in rank order: how many of the items that `owner` keeps belong to the share of each rank. The
  /// items of the owner's own share stay on the owner.
  void pieces_of(rank owner, std::span<std::uint64_t> lengths) const;
  /// Writes P lengths, in rank order: how many items of the share of `receiver` come from each owner. The items that
  /// `receiver` itself keeps do not move.
  void sources_of(rank receiver, std::span<std::uint64_t> lengths) const;

  /// Returns the traffic of the exchange of pieces. O(1).
  item_traffic exchanged_by(rank self) const;
  /// Returns the traffic of the gathering. O(log P).
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
