#include "libsched/engine/partial_state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "libsched/engine/instance.h"
#include "libsched/trace/trace_buffer.h"
#include "ops/adasum/adasum.h"

namespace lsched {
namespace {

/// Returns the blocks of the output. If the output is as long as all contributions together, each rank has its own
/// block. Otherwise the output is a single block, to which all ranks contribute.
std::vector<result_block> result_blocks_of(const schedule& program, const partial_state& partial) {
  const auto size = static_cast<std::uint64_t>(program.place().size);
  const std::uint64_t contribution = program.buffers()[partial.input_buffer].count;
  const buffer& output = program.buffers()[partial.output_buffer];
  const bool is_gathered = size > 1 && contribution > 0 && output.count == size * contribution;
  const std::uint64_t blocks = is_gathered ? size : 1, bytes = output.bytes() / blocks;
  std::vector<result_block> all;
  for (std::uint64_t i = 0; i < blocks; ++i)
    all.push_back({partial.segments.at(partial.output_buffer, i * contribution), i * bytes, bytes});
  return all;
}

/// Returns the function that merges two contributions of a rank to a partial Adasum. Each tensor is merged separately.
/// Elements outside all tensors get the later contribution's value. The function runs on the application's thread.
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

/// Returns the op that captures the contribution, or null.
const op* find_capture(const schedule& program) {
  const auto found = std::ranges::find(program.ops(), op_kind::capture, &op::kind);
  return found == program.ops().end() ? nullptr : &*found;
}

}  // namespace

result<std::unique_ptr<partial_state>> make_partial_state(const schedule& program) {
  auto made = std::make_unique<partial_state>();
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& o = program.ops()[id];
    if (!is_call(o, program.place().self)) continue;
    if (!is_engine_call(o)) made->calls.push_back(id);
    if (o.tag == k_grace_tag) made->grace = id;
  }
  for (std::uint16_t b = 0; b < program.buffers().size(); ++b)
    if (program.buffers()[b].role == buffer_role::output) made->output_buffer = b;
  const op* const capture = find_capture(program);
  if (made->calls.empty() || capture == nullptr || made->output_buffer == k_no_buffer)
    return failure{
        status::argument,
        "a partial schedule needs a call of the application, a capture and an output buffer: add the missing part"};
  made->input_buffer = capture->c.buffer();
  made->whose = round_calls(program.starts(), program.place().size);
  made->segments = segment_map(program);
  made->segment_states.resize(made->segments.count());
  made->buffer_swaps = buffer_swaps_of(program, made->segments);
  made->result_blocks = result_blocks_of(program, *made);
  return made;
}

// Uncollected results are always added up, because each result is an update. This is true even if Adasum merges the
// contributions.
partial_combiners combiners_of(const partial_state& partial, const schedule& program, std::span<const tensor> tensors) {
  const kernel combining = find_capture(program)->what;
  const bool adapts = row_of(combining).symbol == symbolic_rule::weighted;
  const auto arithmetic_of = [&](const buffer& data) {
    return combiner{find_reduce(adapts ? kernel::sum : combining, data.type), data.count, data.bytes()};
  };
  const buffer& input = program.buffers()[partial.input_buffer];
  partial_combiners all{arithmetic_of(input), arithmetic_of(program.buffers()[partial.output_buffer])};
  std::vector<tensor> parts(tensors.begin(), tensors.end());
  if (parts.empty()) parts.push_back({0, input.count});
  if (adapts) all.contributions.merge = adaptive_merge(input.type, std::move(parts));
  if (combining == kernel::sum) all.contributions.multiply = find_multiply(input.type);
  return all;
}

void capture_offers(instance& inst, op_id id, const op& o) {
  partial_state& partial = *inst.partial;
  const rank self = inst.program->place().self;
  const bool is_present = std::binary_search(inst.present.begin(), inst.present.end(), self);
  partial.stats->enter(counted(inst, inst.round), trace_buffer::now_ns());
  // The round must be stored before the capture. If a thread makes its offer and then reads a smaller round number,
  // this capture will find the offer.
  partial.gated.store(inst.round);
  contribution& offers = *open_fragment(inst).offers;
  const auto [buffer, is_last] = offers.capture();
  const auto has_pending = [](const fragment_queues& one) { return one.offers->has_pending(); };
  const bool leaves = is_present && is_last && std::ranges::none_of(partial.fragments, has_pending);
  partial.captured = buffer;
  segment_state mine{.null = !partial.captured.has_value()};
  mine.tally.leaver = leaves ? self : k_no_rank;
  if (partial.captured) {
    const contribution::pending& offered = offers.at(*partial.captured);
    inst.cells[o.c.buffer()].data = offers.data_for(*partial.captured, counted(inst, inst.round));
    mine.tally.contributors = 1;
    mine.tally.offers = offered.offers;
  }
  partial.set_state(id, mine);
}

segment_state segment_state_of_result(const instance& inst) {
  const partial_state& partial = *inst.partial;
  segment_state all{.null = true};
  for (const result_block& block : partial.result_blocks) {
    const segment_state& one = partial.segment_states[block.segment];
    all = {merge(all.tally, one.tally), all.null && one.null};
  }
  if (all.null || partial.result_blocks.size() == 1) return all;
  std::byte* const result = inst.cells[partial.output_buffer].storage;
  for (const result_block& block : partial.result_blocks)
    if (partial.segment_states[block.segment].null) std::memset(result + block.begin, 0, block.bytes);
  return all;
}

void publish_result(instance& inst, const round_totals& totals, bool is_null) {
  partial_state& partial = *inst.partial;
  const round_no round = counted(inst, inst.round);
  const auto& [offers, results] = open_fragment(inst);
  const auto [data, mine, since, newest] = partial.captured ? offers->at(*partial.captured) : contribution::pending{};
  const delivered result{.from = round - std::min<round_no>(round, partial.fragments.size()),
                         .to = round,
                         .contributors = totals.contributors,
                         .last_offers = totals.offers,
                         .offers = totals.offers,
                         .in_result = totals.contributors,
                         .ranks = totals.ranks,
                         .mine = mine,
                         .age_factor = partial.captured ? offers->factor_of(*partial.captured, round) : 1,
                         .staleness = mine == 0 || since >= round ? 0 : round - since,
                         .null = is_null};
  std::byte*& storage = inst.cells[partial.output_buffer].storage;
  storage = results->publish(storage, result);
  partial.stats->finish(result, trace_buffer::now_ns());
  if (partial.captured) offers->done(*std::exchange(partial.captured, std::nullopt));
}

last_result last_result_of(const instance& inst) {
  const round_no round = counted(inst, inst.finished.load());
  const delivery::slot& newest = inst.partial->fragment_of(round).results->newest();
  const delivered& what = newest.what;
  return {round, newest.data, {what.contributors, what.last_offers, what.ranks}};
}

void adopt_result(instance& inst, const last_result& theirs) {
  cell& output = inst.cells[inst.partial->output_buffer];
  const std::uint64_t bytes = inst.program->buffers()[inst.partial->output_buffer].bytes();
  if (theirs.data != nullptr && bytes > 0) std::memcpy(output.storage, theirs.data, bytes);
  publish_result(inst, theirs.totals, theirs.data == nullptr);
  inst.finished.store(inst.round);
}

void take_over(instance& heir, instance& from) {
  partial_state& ended = *from.partial;
  if (ended.captured) open_fragment(from).offers->give_back(*std::exchange(ended.captured, std::nullopt));
  if (const auto memory = std::exchange(heir.partial->memory_for_predecessor, {}); !memory.empty()) {
    std::span<std::byte* const> left = memory;
    for (const auto& [offers, results] : ended.fragments) {
      const std::size_t of_offers = offers->memory().size(), of_results = results->memory().size();
      offers->move_to(left.first(of_offers));
      results->move_to(left.subspan(of_offers, of_results));
      left = left.subspan(of_offers + of_results);
    }
  } else {
    std::ranges::copy(std::exchange(from.owned, {}), std::back_inserter(heir.owned));
  }
  heir.partial->fragments = std::move(ended.fragments);
  heir.partial->stats = std::move(ended.stats);
  heir.partial->rounds_before = counted(from, from.finished.load());
  call_for(heir, called_of(from));
}

}  // namespace lsched
