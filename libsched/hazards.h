// Hazards: what could go wrong inside one rank if its ops ran in another order.
//
// `before` is the order that every execution has: all deps of an op that needs all its tokens; of an op that needs
// fewer, only what is before so many of its deps that no choice of tokens can avoid it.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/assembly.h"

namespace lsched {

class hazards {
 public:
  /// `order`: what fires in every execution, each op after all it waits for, sends before their receives.
  hazards(const assembly& all, const std::vector<world_op>& order, bool in_place);

  /// Two ops of `r` on overlapping bytes, one of them writing, and neither before the other; property `hazard`.
  /// Where only a way through other ranks orders them, that is a note. And ops that the end of the round may come too
  /// early for; property `progress`. And slots that are read before a receive has filled them; property `hazard`. One
  /// after the other; not for several threads.
  void check(rank r, finding_list& out, finding_list& notes);

  /// Signals of the ranks checked so far that the end of the round may come too early for, so that they are not sent.
  const std::vector<world_op>& unsure_signals() const { return unsure_signals_; }

 private:
  struct access {
    std::uint64_t begin = 0, end = 0;  ///< bytes
    op_id by = k_no_op;
    std::uint16_t buffer = k_no_buffer;
    bool is_write = false;
  };

  void find_order(rank r);
  void add_all(op_id to, std::span<const op_id> from);
  void add_some(op_id to, std::span<const op_id> from, std::size_t least);
  bool is_before(op_id x, op_id y) const { return (before_[y * words_ + x / 64] >> x % 64 & 1) != 0; }

  void find_accesses(rank r);
  void check_pair(rank r, const access& x, const access& y, finding_list& out, finding_list& notes);
  bool is_before_by_way_of_others(world_op x, world_op y) const;
  void check_exit(rank r, finding_list& out);
  void check_slots(rank r, finding_list& out) const;

  const assembly& all_;
  const std::vector<world_op>& order_;
  const bool in_place_;
  std::size_t words_ = 0;
  std::vector<std::uint64_t> before_;          ///< of the rank being checked: a row of bits for each op
  std::vector<std::vector<access>> accesses_;  ///< by memory
  std::vector<world_op> unsure_signals_;
};

}  // namespace lsched
