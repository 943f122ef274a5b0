// Each rank records its current state. Peers and `lsched postmortem` read these records to find the rank that the error
// of a timeout must name (docs/reference/recorder.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/base.h"
#include "ops/op.h"

namespace lsched {

/// The message or signal for which a rank waits. Peers read the note for diagnosis.
struct wait_note {
  static constexpr std::uint64_t k_message =
      ~std::uint64_t{0};  ///< value of `instance` if the rank waits for a mailbox message
  bool is_of_message() const { return round != 0 && instance == k_message; }

  std::uint64_t instance = 0;  ///< id in the recording, equal on all ranks
  round_no round = 0;          ///< 0: the rank does not wait
  op_id op = k_no_op;          ///< k_no_op unless the rank waits for an op that communicates
  rank peer = k_no_rank;
  op_kind kind = op_kind::nop;
  std::uint32_t tag = 0;
  std::uint64_t since_ns = 0;  ///< start of the wait on the machine's monotonic clock
};

/// The state of a rank's process according to the operating system.
enum class rank_state : std::uint8_t { unknown, running, stopped, ending };

/// Gives a rank access to its own record and to the records of its peers. Transports without records use the functions
/// of this base class.
class endpoint_recorder {
 public:
  virtual ~endpoint_recorder() = default;

  /// Records an attached instance. `label` is a readable name. `number` is an id that is equal on all ranks. Returns a
  /// word in which the caller must publish the last round for which this rank's application has called. Returns nullptr
  /// if no rank reads such a word.
  virtual std::atomic<round_no>* put_on_record(std::uint32_t id, std::uint64_t number, std::string_view label) {
    static_cast<void>(id), static_cast<void>(number), static_cast<void>(label);
    return nullptr;
  }
  /// For a linked instance, returns the last round for which the application of rank `who` has called. Returns nullopt
  /// if this round is not known.
  virtual std::optional<round_no> entered_by(rank who, std::uint32_t id) const {
    static_cast<void>(who), static_cast<void>(id);
    return std::nullopt;
  }

  /// Publishes a note about this rank's current wait, for diagnosis by other ranks. Round 0 withdraws the note.
  virtual void note_wait(const wait_note& what) { static_cast<void>(what); }
  virtual wait_note wait_of(rank who) const {
    static_cast<void>(who);
    return {};
  }

  virtual rank_state state_of(rank who) const {
    static_cast<void>(who);
    return rank_state::unknown;
  }
};

}  // namespace lsched
