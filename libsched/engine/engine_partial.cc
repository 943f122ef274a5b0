// The parts of the engine that only partial instances use: resources, null operands, graces (activation.h), and the end
// of instances that every rank has left.
#include <algorithm>
#include <iterator>
#include <utility>

#include "libsched/engine/engine.h"
#include "libsched/trace/trace_buffer.h"
#include "ops/elementwise/elementwise.h"

namespace lsched {

std::optional<failure> engine::reserve_partial(instance& inst, const instance_options& options) {
  auto made = make_partial_state(*inst.program);
  if (!made) return made.error();
  partial_state& partial = *(inst.partial = std::move(*made));
  inst.cells[partial.output_buffer].exchangeable = true;
  partial.predecessor = options.predecessor;
  if (partial.predecessor != nullptr && owns(*partial.predecessor)) return std::nullopt;
  auto [contributions, results] = combiners_of(partial, *inst.program, options.tensors);
  const dtype type = inst.program->buffers()[partial.input_buffer].type;
  contributions.age = options.age;
  contributions.age.rounds = options.fragments;
  contributions.scale = find_convert(type, type);
  const std::uint32_t of_contributions = contribution::k_buffers + (options.age.exists() ? 1 : 0);
  const std::uint32_t of_fragment = of_contributions + options.lag.buffers();
  std::vector<std::byte*> memory;
  for (std::uint32_t i = 0; i < options.fragments * of_fragment; ++i) {
    memory.push_back(own(inst, i % of_fragment < of_contributions ? contributions.bytes : results.bytes));
    if (memory.back() == nullptr)
      return failure{status::no_memory,
                     "no memory left for contribution and result buffers: set a larger LSCHED_REGION"};
  }
  if (partial.predecessor != nullptr) {
    partial.memory_for_predecessor = std::move(memory);
    return std::nullopt;
  }
  for (std::uint32_t i = 0; i < options.fragments; ++i) {
    const auto own = std::span(memory).subspan(i * of_fragment, of_fragment);
    partial.fragments.push_back(
        {std::make_unique<contribution>(contributions, own.first<contribution::k_buffers>(),
                                        options.age.exists() ? own[contribution::k_buffers] : nullptr),
         std::make_unique<delivery>(results, options.lag, own.subspan(of_contributions))});
  }
  partial.rounds_before = options.rounds_before;
  partial.stats = std::make_unique<partial_stats>(options.rounds_before);
  return std::nullopt;
}

// Before the failure, the result buffer and a scratch buffer may have exchanged their memory. write_at() records the
// memory of the result buffer, which must not be freed.
void engine::strip(instance& inst) {
  const partial_state& partial = *inst.partial;
  if (inst.round > 0) open_fragment(inst).results->write_at(inst.cells[partial.output_buffer].storage);
  std::vector<std::byte*> kept;
  for (const fragment_queues& one : partial.fragments) {
    std::ranges::copy(one.offers->memory(), std::back_inserter(kept));
    std::ranges::copy(one.results->memory(), std::back_inserter(kept));
  }
  std::ranges::sort(kept);
  for (std::byte* const place : inst.owned)
    if (!std::ranges::binary_search(kept, place)) net_.memory().deallocate(place);
  inst.owned = std::move(kept);
}

// In a partial schedule, sets the contributors of the op's result. If null operands make a kernel call unnecessary,
// also produces the result.
engine::null_operands engine::settle_nulls(instance& inst, op_id id, const op& o) {
  const bool is_binary = o.b.exists();
  const segment_state a = segment_state_of(inst, &op_segments::a, id);
  const segment_state b = is_binary ? segment_state_of(inst, &op_segments::b, id) : segment_state{.null = true};
  const bool lacks_one = a.null || (is_binary && b.null), lacks_all = a.null && b.null;
  const null_rule rule = inst.kernels[id].null;
  if (rule == null_rule::present) {
    set_segment_state(inst, id, {});
  } else {
    const bool is_null = rule == null_rule::keep ? lacks_one : lacks_all;
    set_segment_state(inst, id, {merge(a.tally, b.tally), is_null});
    if (is_null) return {.is_settled = true};
  }
  if (lacks_one && rule == null_rule::either) {
    const buffer_swap may = may_swap(inst, id);
    a.null ? select(inst, o, o.b, o.releases_b, may.of_b) : select(inst, o, o.a, o.releases_a, may.of_a);
    return {.is_settled = true};
  }
  return {.a = a.null, .b = b.null};
}

// Returns the register of a call op that completes by an event of the engine (is_engine_call). The register of a
// departure always satisfies the round, because round_calls decides whether the op counts. The grace begins now, and
// poll_graces() completes the op.
round_no engine::begin_grace(instance& inst, const op& call) {
  if (inst.partial == nullptr) return inst.called.load();  // a schedule file may use this tag for an ordinary call
  if (call.tag != k_grace_tag) return k_last_round;
  if (inst.partial->whose.waits_for_all()) return 0;
  inst.partial->grace_due_ns = trace_buffer::now_ns() + std::uint64_t{inst.program->starts().grace_us} * 1000;
  return 0;
}

bool engine::is_grace_over(const instance& inst) {
  const std::uint64_t due_ns = inst.phase == phase::running ? inst.partial->grace_due_ns : k_never;
  return due_ns != k_never && trace_buffer::now_ns() >= due_ns;
}

std::uint64_t engine::next_grace_ns() const {
  std::uint64_t next_ns = k_never;
  for (const instance* const one : timed_)
    if (one->phase == phase::running) next_ns = std::min(next_ns, one->partial->grace_due_ns);
  return next_ns;
}

// Begins to close an instance after all ranks have agreed that every rank has left. Signals of the last round may still
// be in flight. So every signal edge transfers one final signal. When all final signals have arrived, no peer accesses
// this instance again.
void engine::begin_closing(instance& inst) {
  inst.phase = phase::closing;
  inst.partial->last_signals = 1;
  const auto ops = inst.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::signal_send) net_.signal(inst.links[id], k_last_round);
  for (const op_id id : inst.signal_receives)
    if (!net_.arm(inst.links[id], k_last_round)) ++inst.partial->last_signals;
  last_signal_seen(inst);
}

void engine::last_signal_seen(instance& inst) {
  if (--inst.partial->last_signals != 0) return;
  inst.phase = phase::closed;
  inst.finished.store(k_last_round);
  published_ = true;
}

}  // namespace lsched
