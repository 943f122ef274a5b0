// The plan by which all ranks receive the items that owners keep. Every rank computes the plan from the number of items
// that each owner keeps, and all ranks get the same plan.
//
// An owner's list may be its share of the result. Or the owners first cut the kept lists, one after the other, into
// equal shares, so that no rank has more to send than others:
//
//     kept by owner   a a a a a a a│b│c c        share of rank   a a a│a a a│a b c c  (of 10 items, P = 3)
//
// Then shares are gathered by dissemination, in ceil(log2 P) steps of distance d = 1, 2, 4, …. Rank r sends min(d, P-d)
// shares, its own and those of the next ranks, to rank r-d. It receives as many shares, from that of rank r+d on.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"

namespace lsched {

/// Items that a rank sends to others, and receives from them.
struct item_traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// The cuts of equal shares. The share of rank q begins at item floor((q G + phase) / P), where G is the number of
/// items. The P+1 positions begin with 0 and end with G. m consecutive shares have floor or ceil of m G / P items. With
/// this phase, it is the floor for all m, from the rank on that keeps most. So the rank that has most to balance has
/// least to send afterwards.
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

  /// Makes the plan. `kept` has P numbers of items, 2^32 together at most. Under balance_rule::cost, shares are made
  /// equal only if that reduces the traffic of the busiest rank. Its traffic is the items that it sends, or that it
  /// receives, in the exchange of pieces and the gathering together. O(P log P), and does not allocate.
  void make(std::span<const std::uint64_t> kept, balance_rule rule);

  bool is_balanced() const { return is_balanced_; }
  /// Returns the number of items of the result.
  std::uint64_t total() const { return share_ends_.back(); }
  /// Returns P lengths: the parts of the result, in order.
  std::span<const std::uint64_t> shares() const { return shares_; }

  /// Writes P lengths: how many of the items that `owner` keeps go to each rank, in order. Some stay on the owner.
  void pieces_of(rank owner, std::span<std::uint64_t> lengths) const;
  /// Writes P lengths: how many items of the share of `receiver` come from each owner, in order. Some are already
  /// there.
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
  std::vector<std::uint64_t> kept_ends_;   ///< P+1: offset of each owner's items among all items
  std::vector<std::uint64_t> share_ends_;  ///< P+1: offset of each rank's share
  std::vector<std::uint64_t> shares_;
};

}  // namespace lsched
