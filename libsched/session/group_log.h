// The log from which all ranks derive the rounds of replica groups.
//
// G groups of S shards train one model. The world of all ranks has G * S ranks, and rank g * S + s holds shard s of
// group g. The ranks with equal s form a shard world, in which their contributions are added up by data rounds. All
// shards of a group must be in a data round, or none.
//
// The log is a partial allreduce over all ranks, the control schedule, which adds up counters. Each of its rounds is
// one entry of the log:
//
//     offers[r]    offers that rank r has made since its last contribution to the log
//     ends[r]      data rounds that have ended on rank r since then
//     flushes[r]   flushes that rank r has begun since then
//
// Each increment is in exactly one entry, and an entry has the same bits on all ranks. So the log is the same sequence
// on all ranks. The object below is a pure function of this sequence. A rank that has applied an entry takes the same
// decision as any other rank that has applied the same entry, although the ranks apply the entry at different times.
//
//     1. A data round is final when the round has ended on all ranks. Until then no rank exposes the result.
//     2. A group offers as many contributions as all of its shards have offered.
//     3. If the last data round is final and enough groups have new offers, the next data round begins. The groups with
//        new offers are its members, and the round takes all of these offers. A group that flushes offers nothing until
//        the flush ends, so the flush counts as a new offer.
//     4. If all ranks flush, the next data round begins after the last data round is final.
//
// Thread safety: none. Nothing is allocated after the construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/activation.h"
#include "libsched/schedule/draw.h"

namespace lsched {

struct group_shape {
  rank groups = 1;
  rank shards = 1;

  rank ranks() const { return groups * shards; }
};

class group_log {
 public:
  /// Maximum number of groups, because members() has one bit for each group.
  static constexpr rank k_most_groups = 64;

  /// `starts` counts groups in place of ranks. The policy must not be `none` or `deadline`.
  group_log(group_shape shape, const activation& starts);

  group_shape shape() const { return shape_; }

  /// Number of counters of an entry, and the indices of the counters.
  static std::size_t width_of(group_shape shape) { return 3 * static_cast<std::size_t>(shape.ranks()); }
  std::size_t width() const { return width_of(shape_); }
  std::size_t offers_at(rank r) const { return static_cast<std::size_t>(r); }
  std::size_t ends_at(rank r) const { return ranks() + static_cast<std::size_t>(r); }
  std::size_t flushes_at(rank r) const { return 2 * ranks() + static_cast<std::size_t>(r); }

  /// Applies the next entry. Returns true if the next data round begins.
  bool apply(std::span<const std::uint64_t> entry);

  /// The last data round that has begun; 0: none.
  round_no begun() const { return state_[begun_at()]; }
  /// Returns true if the last data round has ended on all ranks, or no data round has begun.
  bool is_final() const;
  /// The groups in the last data round: bit g stands for group g.
  std::uint64_t members() const { return state_[begun_at() + 1]; }
  /// Number of data rounds that were begun by a flush.
  std::uint64_t flushes_begun() const { return state_[begun_at() + 2]; }
  bool is_flush() const { return state_[begun_at() + 3] != 0; }
  /// Number of offers of the group that the data rounds up to begun() have taken.
  std::uint64_t taken_of(rank group) const { return state_[taken_at(group)]; }
  /// Number of offers that all shards of the group have made.
  std::uint64_t offered_by(rank group) const;
  /// Returns a group whose shards have made different numbers of offers, or k_no_rank.
  rank find_uneven() const;

  /// All data on which later decisions depend.
  std::span<const std::uint64_t> state() const { return state_; }
  void set_state(std::span<const std::uint64_t> state) { state_.assign(state.begin(), state.end()); }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(shape_.ranks()); }
  std::size_t taken_at(rank group) const { return width() + static_cast<std::size_t>(group); }
  std::size_t begun_at() const { return taken_at(shape_.groups); }
  bool has_new_offers(rank group) const { return offered_by(group) > taken_of(group); }
  /// Returns true if all shards of the group have begun the next flush.
  bool is_flushing(rank group) const;
  bool has_enough(round_no next);

  group_shape shape_;
  activation starts_;
  quota quota_;
  drawn_ranks drawn_;
  std::vector<rank> all_groups_;
  std::vector<std::uint64_t> state_;  ///< sums of all entries, then taken_of(), begun(), members() and flushes
};

}  // namespace lsched
