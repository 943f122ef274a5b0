// Partial instances: contribution and result buffers, captures, contributors of results, and the closing after every
// rank has left.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "libsched/engine/engine.h"
#include "ops/adasum/adasum.h"

namespace lsched {
namespace {

/// Returns the blocks of the output. If the output is as long as all contributions together, each rank has its own
/// block. Otherwise the output is a single block, to which all ranks contribute.
std::vector<result_block> result_blocks_of(const schedule& program, const segment_map& segments,
                                           std::uint64_t contribution, const combiner& output, std::uint16_t buffer) {
  const auto size = static_cast<std::uint64_t>(program.place().size);
  const bool is_gathered = size > 1 && contribution > 0 && output.count == size * contribution;
  const std::uint64_t blocks = is_gathered ? size : 1;
  std::vector<result_block> all;
  for (std::uint64_t i = 0; i < blocks; ++i)
    all.push_back({segments.at(buffer, i * contribution), i * (output.bytes / blocks), output.bytes / blocks});
  return all;
}

/// Returns the function that merges two contributions of a rank to a partial Adasum, tensor by tensor. Elements outside
/// all tensors get the later contribution's value. Runs on the application's thread.
auto adaptive_merge(dtype type, std::vector<tensor> tensors) {
  return [=, dot_norms = find_dot_norms(type), scaled_add = find_scaled_add(type), tensors = std::move(tensors)](
             const std::byte* earlier, std::byte* later) {
    for (const auto& [begin, count] : tensors) {
      if (count == 0) continue;
      const std::byte* a = earlier + begin * size_of(type);
      std::byte* b = later + begin * size_of(type);
      std::array<double, k_dot_sums> sums;
      dot_norms(a, b, count, sums.data());
      const auto [x, y] = adasum_coefficients_of(sums.data());
      scaled_add(x, a, y, b, b, count);
    }
  };
}

}  // namespace

std::optional<failure> engine::reserve_partial(instance& inst, const instance_options& options) {
  const schedule& program = *inst.program;
  const op* combining = nullptr;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& o = program.ops()[id];
    if (is_call(o, program.place().self)) inst.calls.push_back(id);
    if (o.kind == op_kind::capture) {
      inst.input_buffer = o.c.buffer();
      combining = &o;
    }
  }
  for (std::uint16_t b = 0; b < program.buffers().size(); ++b)
    if (program.buffers()[b].role == buffer_role::output) inst.output_buffer = b;
  if (inst.calls.empty() || combining == nullptr || inst.output_buffer == k_no_buffer)
    return failure{status::argument, "a partial schedule needs a call, a capture and an output"};

  // Results that wait to be collected are merged by a sum, even if contributions are merged by Adasum, because results
  // are update steps.
  const bool adapts = row_of(combining->what).symbol == symbolic_rule::weighted;
  const auto arithmetic_of = [&](const buffer& data) {
    return combiner{find_reduce(adapts ? kernel::sum : combining->what, data.type), data.count, data.bytes()};
  };
  const buffer& input = program.buffers()[inst.input_buffer];
  combiner given = arithmetic_of(input);
  const combiner made = arithmetic_of(program.buffers()[inst.output_buffer]);
  if (adapts)
    given.merge =
        adaptive_merge(input.type, options.tensors.empty() ? std::vector<tensor>{{0, input.count}} : options.tensors);
  inst.whose = round_calls(program.starts(), program.place().size);
  inst.segments = segment_map(program);
  inst.segment_states.resize(inst.segments.count());
  inst.buffer_swaps = buffer_swaps_of(program, inst.segments);
  inst.result_blocks = result_blocks_of(program, inst.segments, given.count, made, inst.output_buffer);
  inst.cells[inst.output_buffer].exchangeable = true;
  if ((inst.predecessor = options.predecessor) != nullptr) return std::nullopt;
  std::vector<std::byte*> memory;
  for (std::uint32_t i = 0; i < contribution::k_buffers + options.lag.buffers(); ++i) {
    memory.push_back(own(inst, i < contribution::k_buffers ? given.bytes : made.bytes));
    if (memory.back() == nullptr)
      return failure{status::no_memory, "no memory left for contribution and result buffers"};
  }
  inst.offers = std::make_unique<contribution>(given, std::span(memory).first<contribution::k_buffers>());
  inst.results = std::make_unique<delivery>(made, options.lag, std::span(memory).subspan(contribution::k_buffers));
  inst.stats = std::make_unique<partial_stats>(program.place().size);
  return std::nullopt;
}

// Captures the contributions that the application has offered. Without an offer, the captured contribution is null.
outcome engine::capture(instance& inst, op_id id, const op& o) {
  const rank self = inst.program->place().self;
  const bool is_present = std::binary_search(inst.present.begin(), inst.present.end(), self);
  inst.stats->enter(counted(inst, inst.round), trace_buffer::now_ns());
  // The round must be stored before the capture: a thread that reads a smaller round number after its offer then knows
  // that this capture will find the offer.
  inst.gated.store(inst.round);
  const auto [buffer, is_last] = inst.offers->capture();
  inst.captured = buffer;
  segment_state mine{.null = !inst.captured.has_value()};
  mine.tally.leaver = is_last && is_present ? self : k_no_rank;
  if (inst.captured) {
    const contribution::pending& offered = inst.offers->at(*inst.captured);
    inst.cells[o.c.buffer()].data = offered.data;
    mine.tally.contributors = 1;
    mine.tally.offers = offered.offers;
  }
  set_segment_state(inst, id, mine);
  return outcome::done;
}

// Publishes the open round's result, which lies in the storage of the output buffer.
void engine::publish_result(instance& inst, const round_totals& totals, bool is_null) {
  const round_no round = counted(inst, inst.round);
  const auto [data, mine, since] = inst.captured ? inst.offers->at(*inst.captured) : contribution::pending{};
  const delivered result{.from = round - 1,
                         .to = round,
                         .contributors = totals.contributors,
                         .last_offers = totals.offers,
                         .offers = totals.offers,
                         .in_result = totals.contributors,
                         .ranks = totals.ranks,
                         .mine = mine,
                         .staleness = mine == 0 || since >= round ? 0 : round - since,
                         .null = is_null};
  inst.results->publish(inst.cells[inst.output_buffer].storage, result);
  inst.stats->finish(result, trace_buffer::now_ns());
  if (inst.captured) inst.offers->done(*std::exchange(inst.captured, std::nullopt));
}

// Returns the contributors of the new result. Sets the blocks of ranks without a contribution to zeros.
segment_state engine::segment_state_of_result(const instance& inst) {
  segment_state all{.null = true};
  for (const result_block& block : inst.result_blocks) {
    const segment_state& one = inst.segment_states[block.segment];
    all = {merge(all.tally, one.tally), all.null && one.null};
  }
  if (all.null || inst.result_blocks.size() == 1) return all;
  std::byte* const result = inst.cells[inst.output_buffer].storage;
  for (const result_block& block : inst.result_blocks)
    if (inst.segment_states[block.segment].null) std::memset(result + block.begin, 0, block.bytes);
  return all;
}

// Begins to close an instance after all ranks have agreed that every rank has left it. Signals of the last round may
// still be in flight, so every signal edge carries one final signal. When all final signals have arrived, no peer
// accesses this instance again.
void engine::begin_closing(instance& inst) {
  inst.phase = phase::closing;
  inst.last_signals = 1;
  const auto ops = inst.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::signal_send) net_.signal(inst.links[id], k_last_round);
  for (const op_id id : inst.signal_receives)
    if (!net_.arm(inst.links[id], k_last_round)) ++inst.last_signals;
  last_signal_seen(inst);
}

void engine::last_signal_seen(instance& inst) {
  if (--inst.last_signals != 0) return;
  inst.phase = phase::closed;
  inst.finished.store(k_last_round);
  published_ = true;
}

}  // namespace lsched
