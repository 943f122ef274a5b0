// An instance is a schedule with its buffers, links and counters. The engine runs it round after round.
//
// All resources of a round are reserved once, at commit. Thread safety: only the engine's owner may access an instance.
// Exceptions are the atomics and, in a partial instance, the queues of contributions and results
// (partial/contribution.h) and the call times. docs/inside/threading.md has a row for each exception.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libsched/engine/cell.h"
#include "libsched/engine/device_state.h"
#include "libsched/engine/list_state.h"
#include "libsched/engine/partial_state.h"
#include "libsched/schedule/functions.h"
#include "libsched/schedule/round.h"
#include "libsched/schedule/schedule.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/membership.h"
#include "ops/adasum/tensor.h"

namespace lsched {

/// The executor of a compute op.
enum class compute_way : std::uint8_t { kernel, lists, function, device, device_function };

/// The kernel of a compute op, with properties from the kernel's row (kernel_row).
struct bound_kernel {
  kernel_fn run = nullptr;  ///< nullptr for a copy, and for an op that calls no kernel of the host
  const parameter_values* with = nullptr;
  compute_way way = compute_way::kernel;
  null_rule null = null_rule::present;
  bool is_elementwise = false;
  std::uint8_t target_bytes = 0;  ///< size of an element of c
};

/// The ops that read a payload in place, without a copy.
struct payload_use {
  op_id reader = k_no_op;  ///< last reader, in the order of ops
  std::uint32_t readers = 0;
};

/// Counts, for one buffer and over all rounds, the messages that were sent from this buffer or received into it.
struct traffic {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
};

struct instance_options {
  lag_rule lag{};
  user_kernel user{};  ///< arithmetic for ops of kernel::user; ordinary schedules only
  /// Tensors of a contribution. Captures with kernel::adasum merge each tensor separately. Empty: the contribution is
  /// one tensor.
  std::vector<tensor> tensors{};
  /// Factors of late contributions. Only for sums of floating elements.
  age_rule age{};
  /// Number of fragments of a partial instance (partial_state::fragments).
  std::uint32_t fragments = 1;
  /// Functions that ops call. The instance shares ownership.
  std::shared_ptr<functions> local{};
  /// A failed partial instance whose state the new instance takes over; null: none. The contribution and result buffers
  /// of both instances must have the same sizes. The instance may belong to another engine of this process. It must
  /// then be ready for removal (engine::check_readers()).
  instance* predecessor = nullptr;
  /// Number of rounds that the other ranks' predecessors have finished, if a partial instance has no predecessor.
  round_no rounds_before = 0;
};

enum class phase : std::uint8_t {
  committing,  ///< the commit is in progress: calls are recorded, no round runs
  idle,        ///< committed, no round open
  running,     ///< a round is open (a partial instance: always)
  closing,     ///< every rank has left; final signals are in flight
  closed,      ///< no message will be sent or received any more
  failed,
};

struct instance {
  schedule_ptr program;
  std::uint32_t id = 0;                ///< id at the transport, local to this rank
  std::uint32_t index = 0;             ///< index in the engine's table
  membership_ptr members;              ///< members of the world; peers in the program are ranks of this world
  std::uint64_t number_on_record = 0;  ///< id in the recording (endpoint.h), equal on all members

  // --- state of rounds ---
  round_no round = 0;
  enum phase phase = phase::committing;
  std::uint32_t outstanding = 0;  ///< ops that have fired but not completed
  /// Part of outstanding: ops on the lane or the device. These ops use the instance's memory.
  std::uint32_t jobs = 0;
  status failed_with = status::ok;  ///< error that becomes the verdict when the memory is no longer in use
  bool exited = false;
  bool is_given_up = false;  ///< all ranks were notified that the instance has failed
  bool has_settled = false;  ///< the commit has ended, with success or failure
  bool is_linked = false;    ///< links are connected to the links of the other ranks
  bool is_orphan = false;    ///< removed before the commit settled, or before the device jobs of the instance ended
  std::vector<token_count> counts;
  std::vector<round_no> completed;  ///< last round in which each op completed
  std::vector<op_id> ready;         ///< FIFO queue of this round; each op enters the queue at most once
  std::uint32_t ready_head = 0;
  std::uint32_t ready_tail = 0;
  std::vector<cell> cells;
  std::vector<traffic> moved;  ///< traffic, indexed by buffer
  std::shared_ptr<functions> local;
  std::vector<bound_kernel> kernels;  ///< kernels, indexed by op
  user_kernel user;
  std::vector<link_id> links;         ///< links of communication ops, indexed by op
  std::vector<payload_use> payloads;  ///< for each receive: the ops that read its payload, if it stays in place
  /// For each receive: number of ops that still have to read its payload in place
  std::vector<std::uint32_t> pinned;
  std::vector<op_id> signal_receives;
  std::vector<std::byte*> owned;  ///< memory from the endpoint
  std::string label;              ///< human-readable: "allreduce.recursive_doubling #3"

  /// Remaining ranks. A rank that leaves is removed when all ranks have agreed upon its departure
  std::vector<rank> present;
  std::atomic<round_no>* entered = nullptr;  ///< copy of `called` that other ranks read, in the application's numbering

  // --- parts that only some schedules have ---
  std::unique_ptr<partial_state> partial{};  ///< partial schedules
  std::unique_ptr<list_state> lists{};       ///< schedules with buffers of lists
  std::unique_ptr<device_state> device{};    ///< schedules over device memory, and instances that wait for streams

  // --- variables that two threads access ---
  std::atomic<round_no> called{0};  ///< last round for which the application has called; k_last_round after leave
  /// Last round that has ended; k_last_round once closed. The application reads it.
  std::atomic<round_no> finished{0};
  std::atomic<status> verdict{status::ok};  ///< published error; OK unless the instance has failed
  std::atomic<rank> culprit{k_no_rank};     ///< rank to blame for the error
  /// The reason why the commit has failed. Written before the verdict.
  std::optional<failure> refusal{};
  std::atomic<bool> has_gate{false};  ///< whether device->gate is set; read by other threads; set once, between steps

  // --- the engine's list of posted instances (engine::post), which contains an instance at most once ---
  std::atomic<bool> posted{false};
  instance* next_posted = nullptr;
};

/// Returns the cookie of an op. Transports, the lane and the device return this cookie with the op's completion.
inline std::uint64_t cookie_of(const instance& inst, op_id id) { return std::uint64_t{inst.index} << 32 | id; }

/// Returns the atomic that a call op (is_call() in round.h) observes.
inline const std::atomic<round_no>& calls_heard(const instance& inst, const op& call) {
  return is_deadline_call(call, inst.program->starts()) ? inst.partial->hurried : inst.called;
}

/// Returns true if the application has called for the next round, and this round waits for its gate (round_gate.h).
inline bool waits_at_gate(const instance& inst) {
  return inst.phase == phase::idle && inst.device != nullptr && inst.device->is_at_gate;
}

/// Returns true if no round runs. The caller may then read state that is kept from round to round. A failed round is
/// over. A partial instance always has an open round, but that round runs only after the capture of this rank's
/// contribution.
inline bool is_between_rounds(const instance& inst) {
  if (inst.verdict.load() != status::ok) return true;
  const round_no finished = inst.finished.load();
  if (!inst.program->is_partial()) return finished == inst.called.load();
  return finished == k_last_round || finished == inst.partial->gated.load();
}

/// Returns the number of rounds that predecessors have finished.
inline round_no rounds_before(const instance& inst) {
  return inst.partial == nullptr ? 0 : inst.partial->rounds_before;
}

/// Converts a round to the application's numbering, which includes the rounds of predecessors. uncounted() is the
/// inverse.
inline round_no counted(const instance& inst, round_no round) {
  return round == k_last_round ? round : rounds_before(inst) + round;
}
inline round_no uncounted(const instance& inst, round_no round) {
  return round == k_last_round ? round : round - std::min(round, rounds_before(inst));
}

/// Returns the queues of the fragment that the instance's present round moves.
inline fragment_queues& open_fragment(const instance& inst) {
  return inst.partial->fragment_of(counted(inst, inst.round));
}

/// Returns the last round that the application has called for, in the application's numbering.
inline round_no called_of(const instance& inst) {
  return counted(inst, inst.called.load()) - (inst.partial == nullptr ? 0 : inst.partial->calls_behind);
}
/// Calls for `round`, in the application's numbering, and for all rounds before it. Called by the application's thread.
inline void call_for(instance& inst, round_no round) {
  const round_no before = rounds_before(inst);
  if (inst.partial != nullptr) inst.partial->calls_behind = before - std::min(round, before);
  if (round > before) inst.called.store(uncounted(inst, round));
}

/// Returns the contributors of an operand's value. A value of an ordinary schedule is never null.
inline segment_state segment_state_of(const instance& inst, segment_range op_segments::*operand, op_id id) {
  return inst.partial == nullptr ? segment_state{} : inst.partial->state_of(operand, id);
}
inline void set_segment_state(instance& inst, op_id id, const segment_state& now) {
  if (inst.partial != nullptr) inst.partial->set_state(id, now);
}

/// Returns true if ops of the instance run on the device.
inline bool uses_device(const instance& inst) { return inst.device != nullptr && inst.device->most_jobs != 0; }
/// Returns true if jobs were left to the device.
inline bool has_left_jobs(const instance& inst) { return inst.device != nullptr && inst.device->has_left_jobs; }

/// Returns the location of the device memory that the peer reads instead of a payload, or 0 if the payload is sent.
inline std::uint64_t exposed_at(const instance& inst, op_id send) {
  return inst.device == nullptr || inst.device->exposed.empty() ? 0 : inst.device->exposed[send];
}

/// Returns the round that runs, or the round that the next call opens.
inline round_no open_round(const instance& inst) { return inst.phase == phase::running ? inst.round : inst.round + 1; }

}  // namespace lsched
