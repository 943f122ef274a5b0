// An assembly contains the schedules of a world as one graph, in which every send is connected with its receive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/round.h"
#include "libsched/schedule/schedule.h"
#include "libsched/verify/finding.h"
#include "libsched/verify/form.h"

namespace lsched {

/// An op of the world. The ops of rank 0 come first, then those of rank 1, and so on.
using world_op = std::uint32_t;
inline constexpr world_op k_no_world_op = ~world_op{0};

class assembly {
 public:
  /// The schedules must have passed check_form, must outlive the assembly, and must have fewer than 2^32-1 ops in
  /// total.
  explicit assembly(std::span<const schedule_ptr> programs);

  rank size() const { return static_cast<rank>(programs_.size()); }
  world_op op_count() const { return first_.back(); }
  const schedule& program(rank r) const { return *programs_[static_cast<std::size_t>(r)]; }

  world_op number(rank r, op_id id) const { return first_[static_cast<std::size_t>(r)] + id; }
  rank rank_of(world_op id) const { return owner_[id]; }
  op_id id_of(world_op id) const { return id - first_[static_cast<std::size_t>(owner_[id])]; }
  bool is_call(world_op id) const { return lsched::is_call(at(id), owner_[id]); }

  // The properties that algorithms over the whole world read most often.
  const op& at(world_op id) const { return *ops_[id]; }
  bool is_exit(world_op id) const { return is_exit_[id]; }
  op_kind kind(world_op id) const { return kind_[id]; }
  std::uint32_t need(world_op id) const { return need_[id]; }
  std::span<const world_op> successors(world_op id) const {
    return std::span(after_).subspan(after_first_[id], after_first_[id + 1] - after_first_[id]);
  }

  /// Returns the ids of the ops of the same rank on which the op depends, in ascending order.
  std::span<const op_id> predecessors(world_op id) const {
    return std::span(before_).subspan(before_first_[id], before_first_[id + 1] - before_first_[id]);
  }
  /// Returns the other end of a communication op. Returns k_no_world_op for other ops and for call ops.
  world_op partner(world_op id) const { return partner_[id]; }

  /// Finds the partners. Adds findings of property `matching`.
  void match(finding_list& out);

  std::string words_for(world_op id) const { return lsched::words_for(program(owner_[id]), id_of(id)); }

  finding about(property what, world_op id, const element_range& range, const std::string& text) const;
  finding about(property what, world_op id, const std::string& text) const { return about(what, id, {}, text); }

 private:
  void match_out(world_op id, std::span<const world_op> receivers, finding_list& out);
  bool fit(world_op out, world_op in) const;
  void object(world_op id, const std::string& why, finding_list& out) const;

  std::span<const schedule_ptr> programs_;
  std::vector<world_op> first_;  ///< by rank: its first op; last: number of all ops
  std::vector<rank> owner_;
  std::vector<const op*> ops_;
  std::vector<bool> is_exit_;
  std::vector<op_kind> kind_;
  std::vector<std::uint32_t> need_;
  std::vector<world_op> partner_;
  std::vector<std::size_t> after_first_;
  std::vector<world_op> after_;
  std::vector<std::size_t> before_first_;
  std::vector<op_id> before_;
};

}  // namespace lsched
