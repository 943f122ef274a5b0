// The order of one rank's ops that every execution has, by deps of that rank alone.
//
// Of an op that needs all its tokens: all its deps, and what is before them. Of an op that needs fewer: only what is
// one of, or before, so many of its deps that no choice of tokens can avoid it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// The deps of each op, ascending: successors() the other way round.
class dep_table {
 public:
  explicit dep_table(const schedule& program);
  op_id size() const { return static_cast<op_id>(first_.size() - 1); }
  std::span<const op_id> operator[](op_id id) const {
    return std::span(all_).subspan(first_[id], first_[id + 1] - first_[id]);
  }

 private:
  std::vector<std::uint32_t> first_;  ///< by op, and one more
  std::vector<op_id> all_;
};

/// Memory grows with the square of the number of ops: this many take up to 8 MiB.
inline constexpr std::size_t k_most_ordered_ops = 8192;

class local_order {
 public:
  explicit local_order(const schedule& program);

  /// Bytes that the order of a schedule takes.
  static std::uint64_t bytes_of(const schedule& program);

  /// Whether op `x` has completed whenever op `y` fires. False where `x` is a nop that waits for all its deps: nobody
  /// asks about those, since they touch nothing and are bound to fire if their deps are.
  bool is_before(op_id x, op_id y) const { return has_column(x) && has_bit(y, column_[x]); }

  /// By op: whether it has fired whenever the rank's round ends. What is before the exit has; so has what got enough
  /// tokens from such ops, because an op in flight keeps the round open. A receive of a signal is merely armed.
  std::vector<bool> fired_by_end(const schedule& program) const;

  /// Whether no op fires on fewer tokens than it has deps.
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
  std::vector<std::uint32_t> column_;  ///< by op, and one more: how many ops before it have a column
  std::size_t words_ = 0;              ///< of a row
  std::vector<std::uint64_t> before_;  ///< a row of bits for each op
  bool waits_for_all_ = true;
};

}  // namespace lsched
