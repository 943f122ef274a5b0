// The state that only instances of partial schedules have.
//
// A partial instance owns the contribution and result buffers of its fragments. A segment (segments.h) is a part of a
// buffer whose elements have the same contributors. The functions below record the contributors of each segment during
// a round, capture this rank's contribution, and publish the result.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libsched/analysis/buffer_swap.h"
#include "libsched/analysis/segments.h"
#include "libsched/engine/cell.h"
#include "libsched/partial/contribution.h"
#include "libsched/partial/partial_stats.h"
#include "libsched/schedule/round.h"
#include "libsched/schedule/schedule.h"
#include "libsched/transport/message.h"
#include "ops/adasum/tensor.h"

namespace lsched {

struct instance;

/// The contributors of a value in a partial schedule. A value without a contributor is null.
struct segment_state {
  contributor_count tally{};
  bool null = false;
};

/// A part of a partial schedule's result. Either the whole part is null, or no value in the part is null.
struct result_block {
  std::uint32_t segment = 0;  ///< first segment; its state is the state of the block
  std::uint64_t begin = 0;    ///< offset in the result, in bytes
  std::uint64_t bytes = 0;
};

/// The participation in a round. The numbers are equal on all ranks.
struct round_totals {
  std::uint64_t contributors = 0;
  std::uint64_t offers = 0;  ///< sum of the weights of the offers
  std::uint64_t ranks = 0;   ///< size of the world
};

/// The contributions and the results of one fragment.
struct fragment_queues {
  std::unique_ptr<contribution> offers;
  std::unique_ptr<delivery> results;
};

/// A time that never comes, in nanoseconds.
inline constexpr std::uint64_t k_never = ~std::uint64_t{0};

struct partial_state {
  instance* predecessor = nullptr;  ///< instance whose state this instance takes over; null once this instance is open
  /// Memory for the contributions and results of a predecessor in another engine. Also in instance::owned.
  std::vector<std::byte*> memory_for_predecessor;
  /// Rounds that predecessors have finished; the application's numbering includes them
  round_no rounds_before = 0;
  /// Number of the rounds in rounds_before for which the application has not called yet. Written by a thread of
  /// the application.
  round_no calls_behind = 0;
  /// The fragments take turns (Douillard and others, "Streaming DiLoCo", 2025): round t, in the application's
  /// numbering, moves fragment (t - 1) mod F. All fragments have the same size. Without fragments, F is 1.
  std::vector<fragment_queues> fragments;
  std::unique_ptr<partial_stats> stats;
  segment_map segments;
  std::vector<segment_state> segment_states;  ///< states, indexed by segment
  std::vector<result_block> result_blocks;
  std::vector<buffer_swap> buffer_swaps;  ///< permitted exchanges of storage, indexed by op
  std::optional<std::uint32_t> captured;  ///< buffer of the contribution that the open round has captured
  /// Call ops (is_call() in round.h): the normal op, and the op for rounds that wait for all ranks
  std::vector<op_id> calls;
  op_id grace = k_no_op;                 ///< call op that completes when the grace has passed, or k_no_op
  std::uint64_t grace_due_ns = k_never;  ///< time at which the grace of the open round passes; k_never: no grace runs
  round_calls whose;                     ///< rule that selects the ranks whose calls start this round
  std::uint16_t input_buffer = k_no_buffer;
  std::uint16_t output_buffer = k_no_buffer;
  std::uint32_t last_signals = 0;    ///< number of incoming edges whose final signal is missing
  std::atomic<round_no> hurried{0};  ///< last round whose deadline has passed on this rank; set by the application
  std::atomic<round_no> gated{0};    ///< last round whose contribution was captured; set by the engine

  std::size_t number_of_fragment(round_no round) const {
    return round == 0 || fragments.size() == 1 ? 0 : (round - 1) % fragments.size();
  }
  fragment_queues& fragment_of(round_no round) { return fragments[number_of_fragment(round)]; }

  /// Returns the state of an operand's first segment. All segments of the operand have the same state.
  segment_state state_of(segment_range op_segments::*operand, op_id id) const {
    const segment_range range = segments.of(id).*operand;
    return range.size() == 0 ? segment_state{.null = true} : segment_states[range.first];
  }
  /// Sets the state of the segments that the op writes.
  void set_state(op_id id, const segment_state& now) {
    const segment_range range = segments.of(id).c;
    std::fill(segment_states.begin() + range.first, segment_states.begin() + range.end, now);
  }
};

/// Returns the state for a partial schedule. The state has neither contribution buffers nor result buffers yet. Returns
/// ARGUMENT if the schedule has no call, capture or output.
result<std::unique_ptr<partial_state>> make_partial_state(const schedule& program);

/// The combiner of contributions, and the combiner of uncollected results.
struct partial_combiners {
  combiner contributions, results;
};
/// Returns the combiners of a schedule. For Adasum, `tensors` are the tensors of a contribution; empty: one tensor.
partial_combiners combiners_of(const partial_state& partial, const schedule& program, std::span<const tensor> tensors);

/// Captures the contributions that the application has offered. Without an offer, the captured contribution is null.
void capture_offers(instance& inst, op_id id, const op& o);

/// Returns the contributors of the new result. Sets the blocks of ranks without a contribution to zeros.
segment_state segment_state_of_result(const instance& inst);

/// Publishes the open round's result, which lies in the storage of the output buffer.
void publish_result(instance& inst, const round_totals& totals, bool is_null);

// --- recovery from a failed instance (docs/reference/shrink.md) --------------------------------------------------

/// The last finished round of a partial instance, in the application's numbering (counted() in instance.h), and the
/// result of that round. `data` is null if no rank contributed or no round has finished.
struct last_result {
  round_no round = 0;
  const std::byte* data = nullptr;
  round_totals totals{};
};
last_result last_result_of(const instance& inst);

/// Publishes `theirs` as the result of the open round, which other ranks have finished. This rank has certainly
/// captured its contribution for the round, because otherwise no rank could have ended the round.
void adopt_result(instance& inst, const last_result& theirs);

/// Moves the contributions and the results of a failed instance to its successor. The successor also gets the buffers,
/// unless it has memory_for_predecessor. Only the owner of the successor's engine may call this function. The owner of
/// another engine does not access the state of the failed instance any more.
void take_over(instance& heir, instance& from);

}  // namespace lsched
