// A mutant is a world of schedules with one fault. The faults are those that authors of generators make.
//
// The share of mutants that a checker detects is the quality of the checker. Every single fault of a world has an index
// that depends only on the schedules. Therefore a run can be repeated, and a seed can select a sample. (DeMillo, Lipton
// and Sayward, 1978.)
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

enum class mutation : std::uint8_t {
  drop_dep,        ///< an op no longer waits for another op
  swap_peers,      ///< the peers of two sends, receives or signals of a rank are exchanged
  shift_offset,    ///< a region begins one element too early or too late
  change_extent,   ///< the count of an op, or of both ends of an edge, is one element larger or smaller; a list has a
                   ///< larger capacity
  duplicate,       ///< an op exists twice, with the same deps
  merge_tags,      ///< an edge has the tag of another edge, at one or both ends
  change_kernel,   ///< a reduction or a capture's merge has another kernel, or a division has another divisor; a
                   ///< compute op on whole buffers calls a function
  exchange_order,  ///< the operands of a reduction, or two ops of which one waits for the other, are exchanged
  change_need,     ///< the number of predecessors that an op needs becomes one or all, or changes by one
  lose_signal,     ///< a signal is not sent, not awaited, or not triggered
  change_guard,    ///< an op is skipped in other rounds than before, or in no round
  insert_op,       ///< an inserted op changes the result of another op, or an output after the round has ended
  /// A result is multiplied by a number that equals 1 in the modular arithmetic of the weights of verify(), or of the
  /// weights and counts.
  multiply,
};

inline constexpr std::array<mutation, 13> k_all_mutations{
    mutation::drop_dep,    mutation::swap_peers,  mutation::shift_offset,  mutation::change_extent,
    mutation::duplicate,   mutation::merge_tags,  mutation::change_kernel, mutation::exchange_order,
    mutation::change_need, mutation::lose_signal, mutation::change_guard,  mutation::insert_op,
    mutation::multiply};

std::string_view name_of(mutation how);

/// A schedule in a form that can be changed. Deps lead from lower to higher op indices.
struct draft {
  schedule::parts head;  ///< all parts of the schedule except the deps
  std::vector<std::pair<op_id, op_id>> deps{};
};

draft draft_of(const schedule& from);

/// Returns the schedule that compile() would return for the same ops and deps, but without the checks of compile().
/// Computes the derived fields (roots, and payloads that are read in place) again.
schedule_ptr schedule_of(draft content);

/// Removes a dep. If op `after` needed all its deps before, it needs all remaining deps afterwards. Returns false if
/// there is no such dep.
bool drop_dep(draft& in, op_id before, op_id after);

/// All single faults of a world. The list keeps the original schedules alive.
class mutant_list {
 public:
  /// Rank r runs the schedule `world[r]`.
  explicit mutant_list(std::vector<schedule_ptr> world);

  std::size_t size() const { return faults_.size(); }
  mutation how(std::size_t k) const { return faults_[k].how; }

  /// Returns a name such as "drop_dep: rank 3: op 7 (send to 5) no longer waits for op 4 (compute sum)".
  std::string name(std::size_t k) const { return std::string(name_of(how(k))) + ": " + faults_[k].what; }

  /// Returns the world with the k-th fault. Ranks without the fault have the schedules of the original world.
  std::vector<schedule_ptr> world(std::size_t k) const;

 private:
  using edit = std::function<void(draft&)>;
  struct fault {
    mutation how;
    std::string what;
    std::vector<std::pair<rank, edit>> edits;
  };
  class enumeration;

  std::vector<schedule_ptr> original_;
  std::vector<fault> faults_;
};

}  // namespace lsched
