// Several rounds of a schedule may be in flight at the same time.
//
// Each outstanding round needs its own instance. So a schedule of depth d has d instances, called flights. The caller's
// round t is round (t - 1) / d + 1 of flight (t - 1) mod d. Rounds start in order and end in any order.
//     depth 3     flight 0   flight 1   flight 2
//     round 1        1
//           2                   1
//           3                              1
//           4        2                              round 4 starts only when round 1 has ended
//
// A partial schedule has only one flight. Contributions and results belong to its instance.
//
// Thread safety: one thread at a time may start rounds or remove instances. Any thread may call find() meanwhile,
// unless instances are removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/session/outcome.h"

namespace lsched {

/// One of the instances of a schedule. `memory` and the displacements are kept between rounds, so that rounds with
/// lists of blocks do not allocate.
struct flight {
  instance* runs = nullptr;                                    ///< null: removed
  binding memory{};                                            ///< memory that was passed most recently with a round
  std::vector<std::uint64_t> input_begins{}, output_begins{};  ///< displacements of blocks, computed if the caller
                                                               ///< passes none
};

class flights {
 public:
  flights() = default;
  /// Creates one flight for each instance in `all`, which must not be empty. No round may have been started.
  explicit flights(std::span<instance* const> all);

  std::size_t depth() const { return all_.size(); }

  flight& next() { return all_[next_]; }

  /// Returns OK if the next round may start. Returns STATE if the previous round of the next flight is still
  /// outstanding. If the instance of the next flight has failed, returns its error.
  status may_start() const;

  /// Returns whether the next flight has no memory yet. Only schedules of depth 1 use memory bound at creation.
  bool needs_memory() const { return depth() > 1 && all_[next_].runs->called.load() == 0; }

  /// Records that round `round` of the next flight was started. The following flight then becomes the next flight.
  /// Returns the caller's number of this round.
  round_no count_start(round_no round);

  /// Finds a round by the caller's round number. Round 0 belongs to the first flight. If the instance of the round was
  /// removed, returns k_last_round of the first instance, because the schedule is being destroyed.
  awaited_round find(round_no round) const;

  /// Returns true if any flight has an outstanding round, and `has_failed` returns false for the instance of that
  /// flight. Instances that have published an error have no outstanding round.
  template <class HasFailed>
  bool has_outstanding(const HasFailed& has_failed) const {
    for (const flight& each : all_)
      if (each.runs != nullptr && each.runs->verdict.load() == status::ok && !is_between_rounds(*each.runs) &&
          !has_failed(*each.runs))
        return true;
    return false;
  }

  /// Records that rounds after round `last` use other memory than earlier rounds. The depth must be 1.
  void note_binding(round_no last) { bound_after_ = last; }

  /// Returns whether no round is outstanding, and a round has written to the memory that is bound now. The depth must
  /// be 1.
  bool has_result() const;

  /// Returns the instances in the order in which they must be removed: the first instance is last. The caller sets each
  /// removed instance to null.
  std::vector<instance**> in_order_of_removal();

 private:
  std::vector<flight> all_;
  instance* first_ = nullptr;  ///< instance of the first flight, also after its removal
  std::size_t next_ = 0;       ///< flight of the next round
  round_no bound_after_ = 0;   ///< number of rounds that were started before the present memory was bound
};

}  // namespace lsched
