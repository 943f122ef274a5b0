// A stage: what interleavings need to know about a small world and that does not change while it is played.
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
  std::vector<stage_op> readers{};    ///< of a payload in place
  std::size_t transit = 0;            ///< send: cells for its payload on the way
  std::vector<stage_op> conflicts{};  ///< ops that may not use its memory while it does
  std::vector<stage_op> rivals{};     ///< those of them that do not wait for it by deps of their own rank
};

struct stage_rank {
  const schedule* program = nullptr;
  stage_op first = 0;
  stage_op entry = k_no_stage_op;  ///< its capture, else its call, else none: the begin of its round
  stage_op call = k_no_stage_op;
  stage_op full_call = k_no_stage_op;  ///< of rounds that wait for everybody
  bool captures = false;
  /// Data ops that may not have fired yet when its exit has completed and no op is in flight, for all that deps say.
  std::vector<stage_op> loose{};
  bool calls_before_capture = true;    ///< by deps
  std::vector<std::size_t> cells{};    ///< by buffer: its first element
  std::vector<std::size_t> lengths{};  ///< by buffer of packed lists: of its first one
};

class stage {
 public:
  stage(std::span<const schedule_ptr> world, const aliasing& in_place);

  /// Why the world cannot be played at all, as when a region leaves its buffer; or an empty string.
  const std::string& flaw() const { return flaw_; }
  /// Guards are due again as they were so many rounds before.
  round_no period() const { return period_; }

  /// Functions that split, fold or join what their operands hold: what comes of that is not played.
  bool has_functions() const { return has_functions_; }

  std::size_t op_count() const { return parts_.size(); }
  std::size_t cell_count() const { return cells_; }
  rank size() const { return static_cast<rank>(ranks_.size()); }
  const stage_part& at(stage_op it) const { return parts_[it]; }
  const stage_rank& of(rank r) const { return ranks_[static_cast<std::size_t>(r)]; }
  bool is_synchronising() const { return is_synchronising_; }

  /// Element i of a region of an op.
  std::size_t cell(const stage_part& part, region where, std::uint64_t i) const {
    return of(part.owner).cells[where.buffer()] + where.offset() + i;
  }
  /// How long packed list i of a region of an op has been said to be.
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
