// What the engine does for partial instances alone: it owns their contribution and result buffers, captures, finds out
// who is in a result, and ends them when every rank has left.
#include <algorithm>
#include <cstring>

#include "libsched/engine/engine.h"
#include "libsched/partial/adaptive_merge.h"

namespace lsched {
namespace {

/// An output that is as long as all contributions together has a block of each rank. Any other is of all ranks
/// throughout.
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

}  // namespace

// A partial instance owns its input and output: contribution and result buffers.
std::optional<failure> engine::reserve_partial(instance& it, const instance_options& options) {
  const schedule& program = *it.program;
  const op* combining = nullptr;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    if (is_call(what, program.place().self)) it.calls.push_back(id);
    if (what.kind == op_kind::capture) {
      it.input_buffer = what.c.buffer();
      combining = &what;
    }
  }
  for (std::uint16_t b = 0; b < program.buffers().size(); ++b)
    if (program.buffers()[b].role == buffer_role::output) it.output_buffer = b;
  if (it.calls.empty() || combining == nullptr || it.output_buffer == k_no_buffer)
    return failure{status::argument, "a partial schedule needs a call, a capture and an output"};

  // Results that nobody has collected are added up, however contributions are merged: they are steps.
  const bool adapts = combining->what == kernel::adasum;
  const auto arithmetic_of = [&](const buffer& data) {
    return combiner{find_reduce(adapts ? kernel::sum : combining->what, data.type), data.count, data.bytes()};
  };
  const buffer& input = program.buffers()[it.input_buffer];
  combiner given = arithmetic_of(input);
  const combiner made = arithmetic_of(program.buffers()[it.output_buffer]);
  if (adapts)
    given.merge =
        adaptive_merge(input.type, options.tensors.empty() ? std::vector<tensor>{{0, input.count}} : options.tensors);
  std::vector<std::byte*> memory;
  for (std::uint32_t i = 0; i < contribution::k_buffers + options.lag.buffers(); ++i) {
    memory.push_back(own(it, i < contribution::k_buffers ? given.bytes : made.bytes));
    if (memory.back() == nullptr)
      return failure{status::no_memory, "no memory left for contribution and result buffers"};
  }
  it.whose = round_calls(program.starts(), program.place().size);
  it.segments = segment_map(program);
  it.segment_states.resize(it.segments.count());
  it.buffer_swaps = buffer_swaps_of(program, it.segments);
  it.result_blocks = result_blocks_of(program, it.segments, given.count, made, it.output_buffer);
  it.offers = std::make_unique<contribution>(given, std::span(memory).first<contribution::k_buffers>());
  it.results = std::make_unique<delivery>(made, options.lag, std::span(memory).subspan(contribution::k_buffers));
  it.stats = std::make_unique<partial_stats>(program.place().size);
  it.cells[it.output_buffer].exchangeable = true;
  return std::nullopt;
}

// Takes what the application has offered so far; nothing offered is a null contribution.
outcome engine::capture(instance& it, op_id id, const op& what) {
  const rank self = it.program->place().self;
  const bool is_present = std::binary_search(it.present.begin(), it.present.end(), self);
  it.stats->enter(it.round, trace_buffer::now_ns());
  it.gated.store(it.round);  // before it looks: who reads less afterwards knows that his offer is found
  const auto [buffer, is_last] = it.offers->capture();
  it.captured = buffer;
  segment_state mine{.null = !it.captured.has_value()};
  mine.tally.leaver = is_last && is_present ? self : k_no_rank;
  if (it.captured) {
    const contribution::pending& offered = it.offers->at(*it.captured);
    it.cells[what.c.buffer()].data = offered.data;
    mine.tally.contributors = 1;
    mine.tally.offers = offered.offers;
  }
  set_segment_state(it, id, mine);
  return outcome::done;
}

// Who is in what has just been computed. Blocks of absent ranks become zeros.
segment_state engine::segment_state_of_result(const instance& it) {
  segment_state all{.null = true};
  for (const result_block& block : it.result_blocks) {
    const segment_state& one = it.segment_states[block.segment];
    all = {merge(all.tally, one.tally), all.null && one.null};
  }
  if (all.null || it.result_blocks.size() == 1) return all;
  std::byte* const result = it.cells[it.output_buffer].home;
  for (const result_block& block : it.result_blocks)
    if (it.segment_states[block.segment].null) std::memset(result + block.begin, 0, block.bytes);
  return all;
}

// Everybody has left and everybody knows. A signal of the last round may still be on its way to us, so every
// signal edge carries one more, its last; when all of them are here, no peer will touch this instance again.
void engine::begin_closing(instance& it) {
  it.phase = phase::closing;
  it.last_signals = 1;
  const auto ops = it.program->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::signal_send) net_.signal(it.links[id], k_last_round);
  for (const op_id id : it.signal_receives)
    if (!net_.arm(it.links[id], k_last_round)) ++it.last_signals;
  last_signal_seen(it);
}

void engine::last_signal_seen(instance& it) {
  if (--it.last_signals != 0) return;
  it.phase = phase::closed;
  it.finished.store(k_last_round);
  published_ = true;
}

}  // namespace lsched
