// The order of a rank's ops that holds in every execution.
//
// An op that waits for all its deps comes after these deps and all their predecessors. If an op waits for k of its
// deps, it comes after another op x only if every choice of k deps includes x, or an op that comes after x.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// The deps of each op, ascending. (schedule::successors() is the opposite direction.)
class dep_table {
 public:
  explicit dep_table(const schedule& program);
  op_id size() const { return static_cast<op_id>(first_.size() - 1); }
  std::span<const op_id> operator[](op_id id) const {
    return std::span(all_).subspan(first_[id], first_[id + 1] - first_[id]);
  }

 private:
  std::vector<std::uint32_t> first_;  ///< by op: position of its first dep in all_; last: length of all_
  std::vector<op_id> all_;
};

/// Maximum number of ops for which callers should construct a local_order. Memory grows with the square of the number
/// of ops: this maximum needs up to 8 MiB.
inline constexpr std::size_t k_most_ordered_ops = 8192;

class local_order {
 public:
  explicit local_order(const schedule& program);

  /// Returns the number of bytes that a local_order of the schedule occupies.
  static std::uint64_t bytes_of(const schedule& program);

  /// Returns true if op `x` has always completed when op `y` fires. `x` must not be a nop that waits for all its deps:
  /// for such a nop, the result is always false.
  bool is_before(op_id x, op_id y) const { return has_column(x) && has_bit(y, column_[x]); }

  /// Returns, for each op, whether the op has always fired when the rank's round ends. The result is true for the exit
  /// op and for ops that come before the exit op. It is also true for ops that get enough tokens from such ops, because
  /// a round does not end while an op is in flight. This second rule does not apply to signal receives, because they
  /// also wait for a signal.
  std::vector<bool> fired_by_end(const schedule& program) const;

  /// Returns true if every op waits for all its deps.
  bool waits_for_all() const { return waits_for_all_; }

 private:
  bool has_column(op_id id) const { return column_[id] != column_[id + 1]; }
  bool has_bit(op_id row, std::uint32_t column) const {
    return (before_[row * words_ + column / 64] >> column % 64 & 1) != 0;
  }
  void set_bit(op_id row, std::uint32_t column) {
    before_[row * words_ + column / 64] |= std::uint64_t{1} << column % 64;
  }
  void add_all(op_id to);
  void add_some(op_id to, std::size_t least);

  dep_table deps_;
  std::vector<std::uint32_t> column_;  ///< by op: number of columns of lower-numbered ops; last: number of all columns
  std::size_t words_ = 0;              ///< number of words of a row
  std::vector<std::uint64_t> before_;  ///< a row of bits for each op: the ops that come before this op
  bool waits_for_all_ = true;
};

}  // namespace lsched
