// An assembly: the schedules of a world as one graph, in which every send knows its receive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "libsched/verify/finding.h"

namespace lsched {

/// An op of the world: the ops of rank 0, then those of rank 1, and so on.
using world_op = std::uint32_t;
inline constexpr world_op k_no_world_op = ~world_op{0};

class assembly {
 public:
  /// The schedules must have passed check_form, and outlive the assembly. Fewer than 2^32-1 ops.
  explicit assembly(std::span<const schedule_ptr> programs);

  rank size() const { return static_cast<rank>(programs_.size()); }
  world_op op_count() const { return first_.back(); }
  const schedule& program(rank r) const { return *programs_[static_cast<std::size_t>(r)]; }

  world_op number(rank r, op_id id) const { return first_[static_cast<std::size_t>(r)] + id; }
  rank rank_of(world_op it) const { return owner_[it]; }
  op_id id_of(world_op it) const { return it - first_[static_cast<std::size_t>(owner_[it])]; }
  const op& at(world_op it) const { return program(owner_[it]).ops()[id_of(it)]; }
  bool is_call(world_op it) const { return kind_[it] == op_kind::signal_recv && at(it).peer == owner_[it]; }

  // What the passes over the whole world ask most often, without a detour over the schedules.
  op_kind kind(world_op it) const { return kind_[it]; }
  std::uint32_t need(world_op it) const { return need_[it]; }
  std::span<const world_op> successors(world_op it) const {
    return std::span(after_).subspan(after_first_[it], after_first_[it + 1] - after_first_[it]);
  }

  /// Op ids of the same rank, ascending.
  std::span<const op_id> predecessors(world_op it) const {
    return std::span(before_).subspan(before_first_[it], before_first_[it + 1] - before_first_[it]);
  }
  /// The other end of a communication op; k_no_world_op for others, and for the application's call.
  world_op partner(world_op it) const { return partner_[it]; }

  /// Finds the partners. Property `matching`.
  void match(finding_list& out);

  std::string words_for(world_op it) const;

 private:
  void match_out(world_op it, std::span<const world_op> receivers, finding_list& out);
  bool fit(world_op out, world_op in) const;
  bool has_one_guard(world_op out, world_op in) const;
  void object(world_op it, const std::string& why, finding_list& out) const;

  std::span<const schedule_ptr> programs_;
  std::vector<world_op> first_;  ///< by rank, and one more
  std::vector<rank> owner_;
  std::vector<op_kind> kind_;
  std::vector<std::uint32_t> need_;
  std::vector<world_op> partner_;
  std::vector<std::size_t> after_first_;
  std::vector<world_op> after_;
  std::vector<std::size_t> before_first_;
  std::vector<op_id> before_;
};

}  // namespace lsched
