// Who sends which of the items that owners keep, so that all ranks come to have all of them: every rank works it out
// from how many each owner keeps, and comes to the same.
//
// An owner's list is its share of the result; or owners cut what they keep, one list behind the other, into equal
// shares first, so that nobody has more than others to send in what follows:
//
//     kept by owner   a a a a a a a│b│c c        share of rank   a a a│a a a│a b c c  (of 10 items, P = 3)
//
// Then shares are gathered by dissemination, in ceil(log2 P) steps of distance d = 1, 2, 4, …: rank r sends min(d, P-d)
// shares, its own and those of the ranks behind it, to rank r-d, and receives as many, from that of rank r+d on.
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

/// Where equal shares are cut. Of G items rank q has those from floor((q G + phase) / P) on: P+1 such positions, the
/// ends 0 and G. m shares after each other are floor or ceil of m G / P items. The phase is such that it is the floor,
/// for all m, from the rank on that keeps most: who has the most to balance away has the least to send afterwards.
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
  /// Has memory for worlds of this size. Before make() nobody keeps anything.
  explicit balance_plan(rank size);

  /// kept: P numbers of items, 2^32 together at most. Under the rule `cost`, shares are made equal if that lessens the
  /// most items that any rank sends, or any receives, in the exchange of pieces and the gathering together.
  /// O(P log P), and does not allocate.
  void make(std::span<const std::uint64_t> kept, balance_rule rule);

  bool is_balanced() const { return is_balanced_; }
  /// Items of the result.
  std::uint64_t total() const { return share_ends_.back(); }
  /// P lengths: the parts of the result, in its order.
  std::span<const std::uint64_t> shares() const { return shares_; }

  /// P lengths: of what `owner` keeps, from its first item on, so many go to each rank; some stay.
  void pieces_of(rank owner, std::span<std::uint64_t> lengths) const;
  /// P lengths: the share of `receiver`, from its first item on, is so many items from each owner; some were there.
  void sources_of(rank receiver, std::span<std::uint64_t> lengths) const;

  /// Of the exchange of pieces. O(1).
  item_traffic exchanged_by(rank self) const;
  /// Of the gathering. O(log P).
  item_traffic gathered_by(rank self) const;

 private:
  void share_as_kept();
  void share_equally(rank keeps_most);
  std::uint64_t cost() const;
  std::uint64_t common(rank owner, rank receiver) const;
  std::uint64_t shares_from(rank first, rank count) const;

  rank size_;
  bool is_balanced_ = false;
  std::vector<std::uint64_t> kept_ends_;   ///< P+1: where an owner's items begin among all
  std::vector<std::uint64_t> share_ends_;  ///< P+1: where a rank's share begins
  std::vector<std::uint64_t> shares_;
};

}  // namespace lsched
