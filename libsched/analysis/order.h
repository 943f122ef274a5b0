// The order of one rank's ops that every execution has, by deps of that rank alone.
//
// An op that needs all its tokens comes after all its deps, and after all ops before these deps. An op that needs fewer
// tokens comes only after ops that no choice of tokens can avoid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// The deps of each op, ascending. This is the reverse of successors().
class dep_table {
 public:
  explicit dep_table(const schedule& program);
  op_id size() const { return static_cast<op_id>(first_.size() - 1); }
  std::span<const op_id> operator[](op_id id) const {
    return std::span(all_).subspan(first_[id], first_[id + 1] - first_[id]);
  }

 private:
  std::vector<std::uint32_t> first_;  ///< by op, plus the end: start of its deps in all_
  std::vector<op_id> all_;
};

/// Limit for callers. Memory grows with the square of the number of ops, and this many ops take up to 8 MiB.
inline constexpr std::size_t k_most_ordered_ops = 8192;

class local_order {
 public:
  explicit local_order(const schedule& program);

  /// Returns the bytes that the order of a schedule takes.
  static std::uint64_t bytes_of(const schedule& program);

  /// Returns true if op `x` has always completed when op `y` fires. Returns false for every nop `x` that waits for all
  /// its deps. Callers do not need these, since they access no memory, and always fire if their deps do.
  bool is_before(op_id x, op_id y) const { return has_column(x) && has_bit(y, column_[x]); }

  /// Returns, for each op, whether it has always fired when the rank's round ends. This holds for ops before the exit,
  /// and for ops with enough tokens from such ops, because an op in flight keeps the round open. Tokens are not enough
  /// for a signal receive, because they only arm it.
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
  std::vector<std::uint32_t> column_;  ///< by op, plus the end: number of lower ops that have a column
  std::size_t words_ = 0;              ///< length of a row in words
  std::vector<std::uint64_t> before_;  ///< a row of bits for each op
  bool waits_for_all_ = true;
};

}  // namespace lsched
