// Hazards: what could go wrong inside one rank if its ops ran in another order.
//
// `before` is the order that every execution has: all deps of an op that needs all its tokens; of an op that needs
// fewer, only what is before so many of its deps that no choice of tokens can avoid it.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/verify/assembly.h"

namespace lsched {

class hazards {
 public:
  static constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 30;

  /// `order`: what fires in every execution, each op after all it waits for, sends before their receives.
  hazards(const assembly& all, const std::vector<world_op>& order, const aliasing& in_place);

  /// Two ops of `r` on overlapping bytes, one of them writing, and neither before the other; property `hazard`.
  /// Where only a way through other ranks orders them, that is a note. And ops that the end of the round may come too
  /// early for; property `progress`. A rank with so many ops that their order takes more than k_most_bytes is a
  /// finding, too; property `hazard`. One after the other; not for several threads.
  void check(rank r, finding_list& out, finding_list& notes);

  /// Signals of the ranks checked so far that the end of the round may come too early for, so that they are not sent.
  const std::vector<world_op>& unsure_signals() const { return unsure_signals_; }

 private:
  struct access {
    std::uint64_t begin = 0, end = 0;  ///< bytes of the memory
    op_id by = k_no_op;
    std::uint16_t buffer = k_no_buffer;
    bool is_write = false;
  };

  bool number_columns(rank r, finding_list& out);
  void find_order(rank r);
  void add_all(op_id to, std::span<const op_id> from);
  void add_some(op_id to, std::span<const op_id> from, std::size_t least);
  bool has_column(op_id it) const { return column_[it] != column_[it + 1]; }
  bool has_bit(op_id row, std::uint32_t column) const {
    return (before_[row * words_ + column / 64] >> column % 64 & 1) != 0;
  }
  void set_bit(op_id row, std::uint32_t column) {
    before_[row * words_ + column / 64] |= std::uint64_t{1} << column % 64;
  }
  /// False for an `x` without a column.
  bool is_before(op_id x, op_id y) const { return has_column(x) && has_bit(y, column_[x]); }

  void find_accesses(rank r);
  void check_functions(rank r, world_op one, world_op other, finding_list& out);
  void check_pair(rank r, const access& x, const access& y, finding_list& out, finding_list& notes);
  bool is_before_by_way_of_others(world_op x, world_op y) const;
  void check_exit(rank r, finding_list& out);

  const assembly& all_;
  const std::vector<world_op>& order_;
  const aliasing& in_place_;
  std::size_t words_ = 0;                      ///< of a row
  std::vector<std::uint32_t> column_;          ///< by op, and one more: how many ops before it have a column
  std::vector<std::uint64_t> before_;          ///< of the rank being checked: a row of bits for each op
  std::vector<placement> placements_;          ///< of the rank being checked, by buffer
  std::vector<std::vector<access>> accesses_;  ///< by memory
  std::vector<world_op> unsure_signals_;
};

}  // namespace lsched
