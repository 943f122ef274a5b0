// A stage has the fixed properties of a small world that the check of all interleavings (interleavings.h) needs. Memory
// is an array of cells, one for each element.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

/// The index of an op in the world. The ops of rank 0 come first, followed by the ops of rank 1, and so on.
using stage_op = std::uint32_t;
inline constexpr stage_op k_no_stage_op = ~stage_op{0};

struct stage_part {
  rank owner = 0;
  op_id id = 0;
  const op* what = nullptr;
  bool is_data = false;               ///< whether the op must have completed when the round of its rank ends
  bool is_call = false;               ///< whether the op waits for the call of this rank's application
  stage_op partner = k_no_stage_op;   ///< send or receive: op at the other end
  std::vector<stage_op> readers{};    ///< receive: ops that read its payload in place
  std::size_t transit = 0;            ///< send: first cell that holds the payload while the payload is in flight
  std::vector<stage_op> conflicts{};  ///< ops that must not use memory at the same time as this op
  std::vector<stage_op> rivals{};     ///< ops in `conflicts` that may fire before this op has completed
};

struct stage_rank {
  const schedule* program = nullptr;
  stage_op first = 0;
  stage_op entry = k_no_stage_op;  ///< op by which the rank enters a round: the capture, or the call op of a
                                   ///< schedule without capture. If the schedule has neither op, the rank enters
                                   ///< the round at once
  stage_op call = k_no_stage_op;
  stage_op full_call = k_no_stage_op;  ///< call op of rounds that wait for all ranks
  bool captures = false;
  /// Data ops that may still be unfired when the exit has completed and no op is in flight.
  std::vector<stage_op> loose{};
  bool calls_before_capture = true;    ///< whether deps ensure that the call precedes the capture
  std::vector<std::size_t> cells{};    ///< cell of the first element of each buffer
  std::vector<std::size_t> lengths{};  ///< cell of the first list length, for each buffer of packed lists
};

class stage {
 public:
  stage(std::span<const schedule_ptr> world, const aliasing& in_place);

  /// Returns the reason why the world cannot be executed (for example a region that exceeds its buffer), or an empty
  /// string.
  const std::string& flaw() const { return flaw_; }
  /// Returns the common period of all guards, in rounds. (A guard selects the rounds in which an op runs.)
  round_no period() const { return period_; }

  /// Returns whether ops call functions that split, fold or join their operands. The oracle does not execute
  /// such functions.
  bool has_functions() const { return has_functions_; }

  std::size_t op_count() const { return parts_.size(); }
  std::size_t cell_count() const { return cells_; }
  rank size() const { return static_cast<rank>(ranks_.size()); }
  const stage_part& at(stage_op it) const { return parts_[it]; }
  const stage_rank& of(rank r) const { return ranks_[static_cast<std::size_t>(r)]; }
  bool is_synchronising() const { return is_synchronising_; }

  /// Returns the cell of element i of the region `where`, which belongs to op `part`.
  std::size_t cell(const stage_part& part, region where, std::uint64_t i) const {
    return of(part.owner).cells[where.buffer()] + where.offset() + i;
  }
  /// Returns the cell that stores the length of packed list i in region `where`, which belongs to op `part`.
  std::size_t length(const stage_part& part, region where, std::uint64_t i) const {
    return of(part.owner).lengths[where.buffer()] + where.offset() + i;
  }
  /// Returns a text such as "rank 3, op 7 (send, peer 5, tag 2)".
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
