// An instance is a schedule with its buffers, links and counters. The engine runs it round after round.
//
// All resources of a round are reserved once, at commit. Thread safety: only the engine's owner may access an instance.
// Exceptions are the atomics and, in a partial instance, the two hand-overs (partial/contribution.h) and the call
// times. docs/inside/threading.md has a row for each exception.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libsched/analysis/buffer_swap.h"
#include "libsched/analysis/segments.h"
#include "libsched/engine/round_gate.h"
#include "libsched/partial/contribution.h"
#include "libsched/partial/partial_stats.h"
#include "libsched/schedule/functions.h"
#include "libsched/schedule/round.h"
#include "libsched/schedule/schedule.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/membership.h"
#include "ops/adasum/tensor.h"

namespace lsched {

/// The memory of one symbolic buffer in the current round.
struct cell {
  std::byte* storage = nullptr;     ///< target of the next write; null if payloads stay in place
  const std::byte* data = nullptr;  ///< location of the value: storage, a peer's memory, or another buffer
  bool exchangeable = false;        ///< the engine owns the storage, and may exchange it with equally large storage
};

/// The contributors of a value in a partial schedule, and whether the value is null, that is, has no contributor.
struct segment_state {
  contributor_count tally{};
  bool null = false;
};

/// The executor of a compute op.
enum class compute_way : std::uint8_t { kernel, lists, function, device, device_function };

/// The kernel of a compute op, with properties from the kernel's row (kernel_row).
struct bound_kernel {
  kernel_fn run = nullptr;  ///< nullptr for a copy, and if the op does not call a kernel of the host
  const parameter_values* with = nullptr;
  compute_way way = compute_way::kernel;
  null_rule null = null_rule::present;
  bool is_elementwise = false;
  std::uint8_t target_bytes = 0;  ///< size of an element of c
};

/// The readers of a payload that stays in place.
struct payload_use {
  op_id reader = k_no_op;  ///< last reader, in the order of ops
  std::uint32_t readers = 0;
};

/// Messages sent from a buffer and received into it, over all rounds.
struct traffic {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
};

/// A part of a partial schedule's result. Such a part is null as a whole, or not at all.
struct result_block {
  std::uint32_t segment = 0;  ///< first segment; its state is the state of the block
  std::uint64_t begin = 0;    ///< offset in the result, in bytes
  std::uint64_t bytes = 0;
};

/// The user's lists in a buffer. Each array has one element per list. The user owns the arrays and must not change them
/// while a round runs.
struct list_binding {
  /// Offsets in items from the buffer's beginning; null: the offsets of the layout
  const std::uint64_t* begins = nullptr;
  /// Inputs: lengths in items; null: all lists are empty. Outputs: capacities in items; null: the capacities of the
  /// layout.
  const std::uint64_t* counts = nullptr;
  std::uint64_t* received = nullptr;  ///< outputs: numbers of items received, written before a round ends; may be null
};

/// User memory for the schedule's inputs and outputs, in the builder's order. `input_lists` and `output_lists` have an
/// element for each input or output that holds lists, in the same order. All four vectors are empty for partial
/// schedules, whose instances own the buffers.
struct binding {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<list_binding> input_lists{};
  std::vector<list_binding> output_lists{};
};

struct bound_lists {
  std::uint16_t buffer = k_no_buffer;
  list_binding at{};
};

struct instance;

struct instance_options {
  lag_rule lag{};
  user_kernel user{};  ///< arithmetic for ops of kernel::user; ordinary schedules only
  /// Tensors of a contribution. Captures with kernel::adasum merge each tensor separately. Empty: the contribution is
  /// one tensor.
  std::vector<tensor> tensors{};
  /// Functions that ops call. The instance shares ownership.
  std::shared_ptr<functions> local{};
  /// A failed partial instance that the new instance continues, with contribution and result buffers of the same sizes;
  /// null: none.
  instance* predecessor = nullptr;
};

enum class phase : std::uint8_t {
  committing,  ///< the commit is in progress: calls are recorded, no round runs
  idle,        ///< committed, no round open
  running,     ///< a round is open (a partial instance: always)
  closing,     ///< every rank has left; last signals are in flight
  closed,      ///< no message will be sent or received any more
  failed,
};

struct instance {
  schedule_ptr program;
  std::uint32_t id = 0;                ///< number at the transport, local to this rank
  std::uint32_t index = 0;             ///< index in the engine's table
  membership_ptr members;              ///< members of the world; peers in the program are ranks of this world
  std::uint64_t number_on_record = 0;  ///< number in the recording (endpoint.h), equal on all members

  // --- state of rounds ---
  round_no round = 0;
  enum phase phase = phase::committing;
  std::uint32_t outstanding = 0;  ///< ops that have fired but not completed
  /// Part of outstanding: ops on the lane or the device, which use the instance's memory
  std::uint32_t jobs = 0;
  status failed_with = status::ok;  ///< error that becomes the verdict when the memory is no longer in use
  bool exited = false;
  bool is_given_up = false;    ///< all ranks were notified of the end
  bool has_settled = false;    ///< the commit has ended, with success or failure
  bool is_linked = false;      ///< links are connected to the links of the other ranks
  bool is_orphan = false;      ///< removed before the commit settled, or before the device jobs of the instance ended
  bool has_left_jobs = false;  ///< jobs were left to the device: the memory is kept until these jobs end
  std::vector<token_count> counts;
  std::vector<round_no> completed;  ///< last round in which each op completed
  std::vector<op_id> ready;         ///< FIFO queue of this round; each op enters the queue at most once
  std::uint32_t ready_head = 0;
  std::uint32_t ready_tail = 0;
  std::vector<cell> cells;
  std::vector<traffic> moved;                    ///< traffic, by buffer
  std::vector<std::optional<list_table>> lists;  ///< lists, by buffer; empty if no buffer holds lists
  std::vector<bound_lists> user_lists;
  std::shared_ptr<functions> local;
  std::vector<bound_kernel> kernels;  ///< kernels, by op
  user_kernel user;
  std::vector<link_id> links;         ///< links of communication ops, by op
  std::vector<payload_use> payloads;  ///< readers of payloads of in-place receives, by receive
  /// Numbers of readers that still need the payload of an in-place receive, by receive
  std::vector<std::uint32_t> pinned;
  std::vector<op_id> signal_receives;
  std::vector<std::byte*> owned;         ///< memory from the endpoint
  std::vector<std::byte*> device_owned;  ///< device and staging memory
  std::unique_ptr<round_gate> gate{};    ///< gate that must be open when a round begins; null: rounds begin at once
  std::atomic<bool> has_gate{false};     ///< whether `gate` is set, for other threads; changes once, between steps
  bool is_at_gate = false;               ///< the next round was called for and waits for the gate
  /// Locations of sources in device memory that peers read, by send; 0: the source is copied
  std::vector<std::uint64_t> shown{};
  /// Flags, by op: the op is a copy that is skipped because peers read the source
  std::vector<bool> is_left_out{};
  std::vector<std::shared_ptr<const std::byte>> found{};  ///< device memory of peers that was read last, by receive
  std::uint32_t most_device_jobs = 0;  ///< jobs reserved on the device; 0: the instance does not use the device
  std::string label;                   ///< human-readable: "allreduce.recursive_doubling #3"

  // --- partial instances ---
  instance* predecessor = nullptr;  ///< instance to take over from; null once this instance is open
  /// Rounds that predecessors have finished; the application's numbering includes them
  round_no rounds_before = 0;
  /// Part of rounds_before: rounds that were not yet called for; written by the application
  round_no calls_behind = 0;
  std::unique_ptr<contribution> offers;
  std::unique_ptr<delivery> results;
  std::unique_ptr<partial_stats> stats;
  segment_map segments;
  std::vector<segment_state> segment_states;  ///< states, by segment
  std::vector<result_block> result_blocks;
  std::vector<buffer_swap> buffer_swaps;  ///< permitted exchanges of storage, by op
  std::optional<std::uint32_t> captured;
  /// Call ops (is_call() in round.h): the normal op, and the op for rounds that wait for all ranks
  std::vector<op_id> calls;
  round_calls whose;  ///< rule that selects the ranks whose calls start this round
  std::uint16_t input_buffer = k_no_buffer;
  std::uint16_t output_buffer = k_no_buffer;
  /// Remaining ranks. A rank that leaves is removed when all ranks have agreed upon its departure
  std::vector<rank> present;
  std::atomic<round_no>* entered = nullptr;  ///< copy of `called` that other ranks read, in the application's numbering
  std::uint32_t last_signals = 0;            ///< incoming edges on which the last signal is missing

  // --- variables that two threads access ---
  std::atomic<round_no> called{0};   ///< application → engine: last round called for; k_last_round after leave
  std::atomic<round_no> hurried{0};  ///< application → engine: last round whose deadline has passed on this rank
  std::atomic<round_no> gated{0};    ///< engine → application: the last round whose contribution was captured
  /// Engine → application: last round that has ended; k_last_round once closed
  std::atomic<round_no> finished{0};
  std::atomic<status> verdict{status::ok};  ///< published error; OK unless the instance has failed
  std::atomic<rank> culprit{k_no_rank};     ///< rank to blame for the error
  /// The reason why the commit has failed. Written before the verdict.
  std::optional<failure> refusal{};
  std::string device_words{};  ///< text of a device failure; written before the verdict

  // --- the engine's list of posted instances (engine::post), which contains an instance at most once ---
  std::atomic<bool> posted{false};
  instance* next_posted = nullptr;
};

/// Returns the cookie of an op, which transports, the lane and the device return with completions.
inline std::uint64_t cookie_of(const instance& inst, op_id id) { return std::uint64_t{inst.index} << 32 | id; }

/// Returns the atomic that a call op (is_call() in round.h) observes.
inline const std::atomic<round_no>& calls_heard(const instance& inst, const op& call) {
  return is_deadline_call(call, inst.program->starts()) ? inst.hurried : inst.called;
}

/// Returns whether the next round was called for and waits for its gate (round_gate.h).
inline bool waits_at_gate(const instance& inst) { return inst.phase == phase::idle && inst.is_at_gate; }

/// Returns whether no round runs, so that state which several rounds use may be read. A failed round is over. A partial
/// instance always has an open round, but that round runs only after the capture of this rank's contribution.
inline bool is_between_rounds(const instance& inst) {
  if (inst.verdict.load() != status::ok) return true;
  const round_no finished = inst.finished.load();
  if (!inst.program->is_partial()) return finished == inst.called.load();
  return finished == k_last_round || finished == inst.gated.load();
}

/// Converts a round to the application's numbering, which includes the rounds of predecessors. uncounted() is the
/// inverse.
inline round_no counted(const instance& inst, round_no round) {
  return round == k_last_round ? round : inst.rounds_before + round;
}
inline round_no uncounted(const instance& inst, round_no round) {
  return round == k_last_round ? round : round - std::min(round, inst.rounds_before);
}

/// Returns the last round that the application has called for, in the application's numbering.
inline round_no called_of(const instance& inst) { return counted(inst, inst.called.load()) - inst.calls_behind; }
/// Calls for `round`, in the application's numbering, and for all rounds before it. Called by the application's thread.
inline void call_for(instance& inst, round_no round) {
  inst.calls_behind = inst.rounds_before - std::min(round, inst.rounds_before);
  if (round > inst.rounds_before) inst.called.store(uncounted(inst, round));
}

/// Returns the round that runs, or the round that the next call opens.
inline round_no open_round(const instance& inst) { return inst.phase == phase::running ? inst.round : inst.round + 1; }

}  // namespace lsched
