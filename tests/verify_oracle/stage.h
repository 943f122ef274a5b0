// A stage: the properties of a small world that interleavings need and that do not change during play.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

/// An op of the world: the ops of rank 0, then those of rank 1, and so on.
using stage_op = std::uint32_t;
inline constexpr stage_op k_no_stage_op = ~stage_op{0};

struct stage_part {
  rank owner = 0;
  op_id id = 0;
  const op* what = nullptr;
  bool is_data = false;               ///< must have completed when its rank's round ends
  bool is_call = false;               ///< the application's own call
  stage_op partner = k_no_stage_op;   ///< the other end of a communication
  std::vector<stage_op> readers{};    ///< ops that read a payload in place
  std::size_t transit = 0;            ///< send: first cell of its payload in flight
  std::vector<stage_op> conflicts{};  ///< ops that must not use memory at the same time as this op
  std::vector<stage_op> rivals{};     ///< conflicts that do not wait for this op by deps of their own rank
};

struct stage_rank {
  const schedule* program = nullptr;
  stage_op first = 0;
  stage_op entry = k_no_stage_op;  ///< capture, else call, else none: the rank enters when its round begins
  stage_op call = k_no_stage_op;
  stage_op full_call = k_no_stage_op;  ///< call of rounds that wait for all ranks
  bool captures = false;
  /// Data ops for which deps do not ensure that they have fired when the exit has completed and no op is in flight.
  std::vector<stage_op> loose{};
  bool calls_before_capture = true;    ///< ensured by deps
  std::vector<std::size_t> cells{};    ///< by buffer: cell of its first element
  std::vector<std::size_t> lengths{};  ///< by buffer of packed lists: cell of the first length
};

class stage {
 public:
  stage(std::span<const schedule_ptr> world, const aliasing& in_place);

  /// Returns the reason why the world cannot be played, for example a region that leaves its buffer; or an empty
  /// string.
  const std::string& flaw() const { return flaw_; }
  /// Returns the period of all guards together, in rounds.
  round_no period() const { return period_; }

  /// Returns whether ops call functions that split, fold or join their operands. Such functions are not played.
  bool has_functions() const { return has_functions_; }

  std::size_t op_count() const { return parts_.size(); }
  std::size_t cell_count() const { return cells_; }
  rank size() const { return static_cast<rank>(ranks_.size()); }
  const stage_part& at(stage_op it) const { return parts_[it]; }
  const stage_rank& of(rank r) const { return ranks_[static_cast<std::size_t>(r)]; }
  bool is_synchronising() const { return is_synchronising_; }

  /// Returns the cell of element i of a region of an op.
  std::size_t cell(const stage_part& part, region where, std::uint64_t i) const {
    return of(part.owner).cells[where.buffer()] + where.offset() + i;
  }
  /// Returns the cell of the length that was laid out for packed list i of a region of an op.
  std::size_t length(const stage_part& part, region where, std::uint64_t i) const {
    return of(part.owner).lengths[where.buffer()] + where.offset() + i;
  }
  /// "rank 3, op 7 (send, peer 5, tag 2)"
  std::string words_for(stage_op it) const;

 private:
  void add_rank(const schedule& program, const aliasing& in_place);
  void place_buffers(stage_rank& me, const aliasing& in_place);
  bool is_sound(const stage_part& part);
  bool slips(const stage_part& part, const operand& from) const;
  void match();
  void find_order(stage_rank& me);
  void find_conflicts(const stage_rank& me, const std::vector<std::vector<bool>>& without);
  bool clash(const stage_part& x, const stage_part& y) const;

  std::vector<stage_part> parts_;
  std::vector<stage_rank> ranks_;
  std::size_t cells_ = 0;
  bool is_synchronising_ = false;
  bool has_functions_ = false;
  round_no period_ = 1;
  std::string flaw_;
};

}  // namespace lsched
