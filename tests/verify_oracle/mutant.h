// Mutants: worlds of schedules with one fault each, of the kinds that authors of generators make.
//
// The quality of a checker is the share of mutants that it detects. All single faults of a world are numbered, in an
// order that depends only on the schedules. So a run can be repeated, and a sample can be drawn by seed. (DeMillo,
// Lipton and Sayward, 1978.)
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
  drop_dep,        ///< an op no longer waits for another
  swap_peers,      ///< two sends, receives or signals of a rank have exchanged peers
  shift_offset,    ///< a region begins one element early or late
  change_extent,   ///< an op, or both ends of an edge, move or touch one element more or fewer; a list has more room
  duplicate,       ///< an op exists twice, with the same deps
  merge_tags,      ///< an edge has another edge's tag, at one or both ends
  change_kernel,   ///< a reduction or the merge of a capture has another kernel, or a division has another divisor;
                   ///< a compute of whole buffers is a function
  exchange_order,  ///< a reduction's operands, or two ops of which one waits for the other, change places
  change_need,     ///< an op needs one token, all tokens, one token more, or one token fewer
  lose_signal,     ///< a signal is not sent, not awaited, or not triggered
  change_guard,    ///< an op is void in other rounds, or in no round
  insert_op,       ///< an op of any kernel changes the result of another op, or an output after the exit
  multiply,        ///< the result of an op is multiplied until sums of weights, or also counts, wrap around
};

inline constexpr std::array<mutation, 13> k_all_mutations{
    mutation::drop_dep,    mutation::swap_peers,  mutation::shift_offset,  mutation::change_extent,
    mutation::duplicate,   mutation::merge_tags,  mutation::change_kernel, mutation::exchange_order,
    mutation::change_need, mutation::lose_signal, mutation::change_guard,  mutation::insert_op,
    mutation::multiply};

std::string_view name_of(mutation how);

/// A schedule in a form that can be changed. Deps go from lower to higher op numbers.
struct draft {
  schedule::parts head;  ///< everything except the deps
  std::vector<std::pair<op_id, op_id>> deps{};
};

draft draft_of(const schedule& from);

/// Returns the schedule that compile() would make of the same ops and deps, but without its checks. Roots and payloads
/// in place are computed again.
schedule_ptr schedule_of(draft content);

/// Removes a dep. An op that needed all its deps needs all remaining deps. Returns false if there is no such dep.
bool drop_dep(draft& in, op_id before, op_id after);

/// All single faults of a world. The list keeps the original schedules alive.
class mutant_list {
 public:
  /// Rank r runs world[r].
  explicit mutant_list(std::vector<schedule_ptr> world);

  std::size_t size() const { return faults_.size(); }
  mutation how(std::size_t k) const { return faults_[k].how; }

  /// Returns a name such as "drop_dep: rank 3: op 7 (send to 5) no longer waits for op 4 (compute sum)".
  std::string name(std::size_t k) const { return std::string(name_of(how(k))) + ": " + faults_[k].what; }

  /// Returns the world with the k-th fault. Ranks without the fault share their schedule with the original.
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
