// A schedule bound to buffers, links and counters: what the engine runs, round after round.
//
// Everything a round needs is reserved here, once. The engine's owner owns all of it except the atomics, and the two
// hand-overs and the call times of a partial instance; docs/inside/threading.md has a row for each.
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
  std::byte* storage = nullptr;     ///< where the next write goes; null where payloads stay in place
  const std::byte* data = nullptr;  ///< where the value is: storage, a peer's memory, or another buffer's
  bool exchangeable = false;        ///< the engine owns the memory and may exchange storage of equal size
};

/// Of a value in a partial schedule: whether it is there, and who is in it.
struct segment_state {
  contributor_count tally{};
  bool null = false;
};

/// Who carries out a compute.
enum class compute_way : std::uint8_t { kernel, lists, function, device, device_function };

/// What a compute calls, as its kernel's row has it.
struct bound_kernel {
  kernel_fn run = nullptr;  ///< nullptr of a copy, and where it is no kernel that is called
  const parameter_values* with = nullptr;
  compute_way way = compute_way::kernel;
  null_rule null = null_rule::present;
  bool is_elementwise = false;
  std::uint8_t target_bytes = 0;  ///< of an element of c
};

/// Who reads a payload that stays in place.
struct payload_use {
  op_id reader = k_no_op;  ///< the last of them
  std::uint32_t readers = 0;
};

/// What has left a buffer and come into it, in messages of all rounds.
struct traffic {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
};

/// A part of a partial schedule's result that is null as one.
struct result_block {
  std::uint32_t segment = 0;  ///< that speaks for it
  std::uint64_t begin = 0;    ///< bytes
  std::uint64_t bytes = 0;
};

/// The user's lists in a buffer: a number for each, which stays the user's and does not change while a round runs.
struct list_binding {
  const std::uint64_t* begins = nullptr;  ///< items from the buffer's beginning; null: as in the layout
  const std::uint64_t* counts =
      nullptr;                        ///< of inputs: items. null: none. Of outputs: room for them. null: the layout's
  std::uint64_t* received = nullptr;  ///< of outputs: items, written before a round ends. null: nobody asks
};

/// User memory for the schedule's inputs and outputs, in the builder's order; and of those that hold lists, in the same
/// order, where these are. Partial schedules have none: their buffers belong to the instance.
struct binding {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<list_binding> input_lists{};
  std::vector<list_binding> output_lists{};
};

/// The user's lists in a buffer, and the number of the buffer.
struct bound_lists {
  std::uint16_t buffer = k_no_buffer;
  list_binding at{};
};

struct instance;

struct instance_options {
  lag_rule lag{};
  user_kernel user{};  ///< for ops of kernel::user; ordinary schedules only
  /// Of captures that merge by kernel::adasum: what is combined as one. Empty: the contribution is one.
  std::vector<tensor> tensors{};
  /// For ops that call functions. Kept as long as the instance.
  std::shared_ptr<functions> local{};
  /// Of a partial schedule: one of the same contributions and results that has failed, and that this one goes on from.
  instance* predecessor = nullptr;
};

enum class phase : std::uint8_t {
  committing,  ///< the ranks have not agreed upon it yet: calls are kept, nothing runs
  idle,        ///< committed, no round open
  running,     ///< a round is open (a partial instance: always)
  closing,     ///< every rank has left; last signals are under way
  closed,      ///< no message will ever come or go again
  failed,
};

struct instance {
  schedule_ptr program;
  std::uint32_t id = 0;                ///< at the transport; this rank's own
  std::uint32_t index = 0;             ///< place in the engine's table
  membership_ptr members;              ///< of its world; ranks in the program are ranks there
  std::uint64_t number_on_record = 0;  ///< equal on all members

  // --- what a round is made of ---
  round_no round = 0;
  enum phase phase = phase::committing;
  std::uint32_t outstanding = 0;    ///< ops fired and not completed
  std::uint32_t jobs = 0;           ///< of these: on the lane or the device, which use the instance's memory
  status failed_with = status::ok;  ///< the verdict to be, while the lane still computes
  bool exited = false;
  bool is_given_up = false;    ///< all ranks were told
  bool has_settled = false;    ///< its commit has ended, well or not
  bool is_linked = false;      ///< with those of the other ranks
  bool is_orphan = false;      ///< removed by whoever made it; it has not settled yet, or its device has jobs left
  bool has_left_jobs = false;  ///< of a device that nobody waits for any more: what they use stays until they end
  std::vector<token_count> counts;
  std::vector<round_no> completed;  ///< last round in which each op completed
  std::vector<op_id> ready;         ///< FIFO of this round: an op enters at most once
  std::uint32_t ready_head = 0;
  std::uint32_t ready_tail = 0;
  std::vector<cell> cells;
  std::vector<traffic> moved;                    ///< by buffer
  std::vector<std::optional<list_table>> lists;  ///< by buffer; empty: none has any
  std::vector<bound_lists> user_lists;
  std::shared_ptr<functions> local;
  std::vector<bound_kernel> kernels;  ///< by op
  user_kernel user;
  std::vector<link_id> links;         ///< by op
  std::vector<payload_use> payloads;  ///< by op: of an in-place receive
  std::vector<std::uint32_t> pinned;  ///< by op: so many readers still await the in-place receive's payload
  std::vector<op_id> signal_receives;
  std::vector<std::byte*> owned;         ///< memory from the endpoint
  std::vector<std::byte*> device_owned;  ///< device and staging memory
  std::unique_ptr<round_gate> gate{};    ///< rounds begin when it is open; null: at once. Made once, between steps
  std::atomic<bool> has_gate{false};     ///< for other threads
  bool is_at_gate = false;               ///< the next round was called for, and waits for the gate
  std::vector<std::uint64_t> shown{};  ///< by op: of a send from device memory, where peers find that; 0: it is copied
  std::vector<bool> is_left_out{};     ///< by op: copies whose source is shown instead
  std::vector<std::shared_ptr<const std::byte>> found{};  ///< by op: what a peer has shown to a receive last
  std::uint32_t most_device_jobs = 0;  ///< at a time, that the device has room for; 0: it has no part in this
  std::string label;                   ///< for people: "allreduce.recursive_doubling #3"

  // --- partial instances ---
  instance* predecessor = nullptr;  ///< until this one is open: then what follows here is taken over from it
  round_no rounds_before = 0;       ///< that were over there: applications count on
  round_no calls_behind = 0;        ///< of these, for which the application has not called yet; the application's
  std::unique_ptr<contribution> offers;
  std::unique_ptr<delivery> results;
  std::unique_ptr<partial_stats> stats;
  segment_map segments;
  std::vector<segment_state> segment_states;  ///< by segment
  std::vector<result_block> result_blocks;
  std::vector<buffer_swap> buffer_swaps;  ///< by op
  std::optional<std::uint32_t> captured;
  std::vector<op_id> calls;  ///< one, or a second one that opens the own gate alone
  round_calls whose;         ///< calls count in this round
  std::uint16_t input_buffer = k_no_buffer;
  std::uint16_t output_buffer = k_no_buffer;
  std::vector<rank> present;                 ///< ranks whose leave is not yet agreed
  std::atomic<round_no>* entered = nullptr;  ///< where the others read `called`
  std::uint32_t last_signals = 0;            ///< in-edges that still owe theirs

  // --- crossings ---
  std::atomic<round_no> called{0};    ///< application → engine: rounds asked for; k_last_round after leave
  std::atomic<round_no> hurried{0};   ///< application → engine: rounds whose deadline has passed for it
  std::atomic<round_no> gated{0};     ///< engine → application: the last round whose contribution was captured
  std::atomic<round_no> finished{0};  ///< engine → application: rounds ended; k_last_round once closed
  std::atomic<status> verdict{status::ok};
  std::atomic<rank> culprit{k_no_rank};
  /// Why the ranks have not agreed upon it; written before the verdict.
  std::optional<failure> refusal{};
  std::string device_words{};  ///< of one that has failed by its device: why; written before the verdict

  // --- the engine's posts: a posted instance is linked in at most once ---
  std::atomic<bool> posted{false};
  instance* next_posted = nullptr;
};

/// What transports and the lane hand back.
inline std::uint64_t cookie_of(const instance& inst, op_id id) { return std::uint64_t{inst.index} << 32 | id; }

/// Where a call op hears of the application's calls.
inline const std::atomic<round_no>& calls_heard(const instance& inst, const op& call) {
  return is_deadline_call(call, inst.program->starts()) ? inst.hurried : inst.called;
}

/// Whether a round has been called for that waits for its gate.
inline bool waits_at_gate(const instance& inst) { return inst.phase == phase::idle && inst.is_at_gate; }

/// Whether no round runs: what rounds use from one to the next may be looked at. A round that has failed is over. Of a
/// partial instance a round is open at any time, but under way only from its capture on.
inline bool is_between_rounds(const instance& inst) {
  if (inst.verdict.load() != status::ok) return true;
  const round_no finished = inst.finished.load();
  if (!inst.program->is_partial()) return finished == inst.called.load();
  return finished == k_last_round || finished == inst.gated.load();
}

/// A round as applications count, and the other way round.
inline round_no counted(const instance& inst, round_no round) {
  return round == k_last_round ? round : inst.rounds_before + round;
}
inline round_no uncounted(const instance& inst, round_no round) {
  return round == k_last_round ? round : round - std::min(round, inst.rounds_before);
}

/// The last round that the application has called for, as it counts.
inline round_no called_of(const instance& inst) { return counted(inst, inst.called.load()) - inst.calls_behind; }
/// The application calls for a round, and for those before it.
inline void call_for(instance& inst, round_no round) {
  inst.calls_behind = inst.rounds_before - std::min(round, inst.rounds_before);
  if (round > inst.rounds_before) inst.called.store(uncounted(inst, round));
}

/// The round that is under way, or else the one that the next call opens.
inline round_no open_round(const instance& inst) { return inst.phase == phase::running ? inst.round : inst.round + 1; }

}  // namespace lsched
