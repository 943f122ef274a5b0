// Mutants: a world of schedules with one fault, of the kinds people make when they write generators.
//
// The quality of a checker is the share of mutants it notices. All single faults of a world are numbered, in an order
// that depends on nothing but the schedules, so a run can be repeated and a sample drawn by seed. (The idea is DeMillo,
// Lipton and Sayward's, 1978.)
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
  swap_peers,      ///< two communications of a rank have each other's peer
  shift_offset,    ///< a region begins one element early or late
  change_extent,   ///< an op, or both ends of an edge, move or touch one element more or fewer; a list has more room
  duplicate,       ///< an op is there twice, with the same deps
  merge_tags,      ///< an edge has another edge's tag, at one or both ends
  change_kernel,   ///< a reduction, or the merge of a capture, is by another kernel, or a division by another number;
                   ///< a compute of whole buffers is a function
  exchange_order,  ///< a reduction's operands, or two ops of which one waits for the other, change places
  change_need,     ///< an op waits for any, for all, for one token more or for one fewer
  lose_signal,     ///< a signal is not sent, not waited for, or nothing triggers it
  change_guard,    ///< an op is void in other rounds, or in none
  insert_op,       ///< what an op has written, or in the end an output, is changed by an op of any kernel
  multiply,  ///< what an op has written is added up so often that sums of weights, or counts too, come round again
};

inline constexpr std::array<mutation, 13> k_all_mutations{
    mutation::drop_dep,    mutation::swap_peers,  mutation::shift_offset,  mutation::change_extent,
    mutation::duplicate,   mutation::merge_tags,  mutation::change_kernel, mutation::exchange_order,
    mutation::change_need, mutation::lose_signal, mutation::change_guard,  mutation::insert_op,
    mutation::multiply};

std::string_view name_of(mutation how);

/// A schedule taken apart so that it can be changed. Deps go from lower to higher op numbers.
struct draft {
  schedule::parts head;  ///< all but the deps
  std::vector<std::pair<op_id, op_id>> deps{};
};

draft draft_of(const schedule& from);

/// Roots and payloads in place are found anew, so this is what compile() would have made of the same ops and deps,
/// but for its checks.
schedule_ptr schedule_of(draft content);

/// Takes a dep out. An op that needed all its deps needs all that remain. False: there is no such dep.
bool drop_dep(draft& in, op_id before, op_id after);

/// All single faults of a world. A value; keeps the original schedules alive.
class mutant_list {
 public:
  /// Rank r runs world[r].
  explicit mutant_list(std::vector<schedule_ptr> world);

  std::size_t size() const { return faults_.size(); }
  mutation how(std::size_t k) const { return faults_[k].how; }

  /// "drop_dep: rank 3: op 7 (send to 5) no longer waits for op 4 (compute sum)"
  std::string name(std::size_t k) const { return std::string(name_of(how(k))) + ": " + faults_[k].what; }

  /// The world with the k-th fault. Ranks without the fault share their schedule with the original.
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
