// Starts rounds with memory, and with counts, that the caller passes for one round (lsched_start_with).
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "ops/counted.h"

namespace lsched {
namespace {

using numbers = std::span<const std::uint64_t>;

/// The send side or the receive side of the caller's lsched_counts. `side` is the prefix of that side's members.
struct caller_lists {
  std::string_view side;
  const std::uint64_t* counts;
  const std::uint64_t* displacements;
  std::uint64_t* received;
};

/// Returns the first buffer with that role, or null. A collective has at most one such buffer.
const buffer* find_buffer(const schedule& program, buffer_role role) {
  const auto found = std::ranges::find(program.buffers(), role, &buffer::role);
  return found == program.buffers().end() ? nullptr : &*found;
}

/// Reads the blocks of one side. If the caller passes no displacements, computes them into `begins`.
result<list_binding> read_lists(const buffer* under, const caller_lists& given, const void* memory,
                                std::vector<std::uint64_t>& begins) {
  const std::string side(given.side);
  if (under == nullptr) {
    if (given.counts == nullptr && given.displacements == nullptr && given.received == nullptr) return list_binding{};
    return argument(side + "_counts is set, but this rank has no such buffer: leave " + side + "_counts null");
  }
  if (given.counts == nullptr) return argument(side + "_counts is null");
  const numbers counts(given.counts, under->count);
  const auto large = std::ranges::find_if(counts, [&](std::uint64_t count) { return count > under->lists.room; });
  if (large != counts.end())
    return failure{status::bounds, side + "_counts[" + std::to_string(large - counts.begin()) + "] is " +
                                       std::to_string(*large) + ", above the capacity of " +
                                       std::to_string(under->lists.room)};
  const auto filled = std::ranges::find_if(counts, [](std::uint64_t count) { return count != 0; });
  if (memory == nullptr && filled != counts.end())
    return argument("the " + side + " buffer is null, but " + side + "_counts[" +
                    std::to_string(filled - counts.begin()) + "] is " + std::to_string(*filled));
  list_binding made{given.displacements, given.counts, given.received};
  if (made.begins == nullptr) {
    begins.resize(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::uint64_t{0});
    made.begins = begins.data();
  }
  return made;
}

/// The interval of addresses [begin, end).
struct interval {
  std::uintptr_t begin, end;
};

interval interval_of(const void* memory, const list_binding& lists, std::size_t i, std::size_t width) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory) + lists.begins[i] * width;
  return {begin, begin + lists.counts[i] * width};
}

/// Returns whether two intervals have an address in common. An empty interval overlaps no interval.
bool overlap(const interval& x, const interval& y) { return std::max(x.begin, y.begin) < std::min(x.end, y.end); }

/// Returns whether input and output are placed so that no block is overwritten before it was sent. If both sides have
/// several blocks, the ranges around them must be disjoint. If one side has a single block, the blocks must be
/// disjoint, except that the block that a rank sends to itself may have the same address on both sides.
bool lie_apart(const schedule& program, const binding& memory) {
  const list_binding &sent = memory.input_lists.front(), &received = memory.output_lists.front();
  const buffer &from = *find_buffer(program, buffer_role::input), &to = *find_buffer(program, buffer_role::output);
  const std::size_t width = size_of(from.type);
  const auto self = static_cast<std::size_t>(program.place().self);
  const auto hull = [&](const void* where, const list_binding& lists, std::size_t count) {
    interval all{~std::uintptr_t{0}, 0};
    for (std::size_t i = 0; i < count; ++i) {
      if (lists.counts[i] == 0) continue;
      const interval one = interval_of(where, lists, i, width);
      all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
    }
    return all;
  };
  if (!overlap(hull(memory.inputs[0], sent, from.count), hull(memory.outputs[0], received, to.count))) return true;
  if (from.count > 1 && to.count > 1) return false;
  for (std::size_t i = 0; i < from.count; ++i)
    for (std::size_t o = 0; o < to.count; ++o) {
      const interval x = interval_of(memory.inputs[0], sent, i, width);
      const interval y = interval_of(memory.outputs[0], received, o, width);
      const bool is_own = (from.count == 1 || i == self) && (to.count == 1 || o == self);
      if (overlap(x, y) && !(is_own && x.begin == y.begin)) return false;
    }
  return true;
}

/// Returns BOUNDS if the block that this rank sends to itself is longer than the recv_counts entry for this block.
std::optional<failure> validate_own_block(const schedule& program, const binding& memory) {
  const auto own = [&](buffer_role role, const list_binding& lists) {
    const std::uint64_t blocks = find_buffer(program, role)->count;
    return lists.counts[blocks == 1 ? 0 : static_cast<std::size_t>(program.place().self)];
  };
  const std::uint64_t sent = own(buffer_role::input, memory.input_lists.front());
  const std::uint64_t room = own(buffer_role::output, memory.output_lists.front());
  if (sent <= room) return std::nullopt;
  return failure{status::bounds, "the block of this rank for itself has " + counted(sent, "element") +
                                     ", but recv_counts gives the block room for " + std::to_string(room)};
}

/// Reads the memory and counts of a round of a schedule with a capacity into next.memory. If these are invalid, returns
/// the reason.
std::optional<failure> read_round_of_lists(const schedule& program, flight& next, const void* const* inputs,
                                           void* const* outputs, const lsched_counts* counts) {
  const auto known = read_struct(counts);
  if (!known) return known.error();
  const std::array<const void*, 5> arrays{known->send_counts, known->send_displacements, known->recv_counts,
                                          known->recv_displacements, known->received};
  if (is_any_on_device(arrays.data(), arrays.size()))
    return argument("counts, displacements and received must be in host memory");
  const buffer* const from = find_buffer(program, buffer_role::input);
  const buffer* const to = find_buffer(program, buffer_role::output);
  const void* const input = inputs == nullptr ? nullptr : inputs[0];
  void* const output = outputs == nullptr ? nullptr : outputs[0];
  const auto sent =
      read_lists(from, {"send", known->send_counts, known->send_displacements, nullptr}, input, next.input_begins);
  if (!sent) return sent.error();
  const auto received = read_lists(to, {"recv", known->recv_counts, known->recv_displacements, known->received}, output,
                                   next.output_begins);
  if (!received) return received.error();
  binding& memory = next.memory;
  if (from != nullptr)
    memory.inputs.assign(1, static_cast<const std::byte*>(input)), memory.input_lists.assign(1, *sent);
  if (to != nullptr)
    memory.outputs.assign(1, static_cast<std::byte*>(output)), memory.output_lists.assign(1, *received);
  if (is_any_on_device(inputs, from == nullptr ? 0 : 1) || is_any_on_device(outputs, to == nullptr ? 0 : 1))
    return failure{status::unsupported, "lists cannot be in device memory"};
  if (from == nullptr || to == nullptr) return std::nullopt;
  if (auto why = validate_own_block(program, memory)) return why;
  if (!lie_apart(program, memory)) return argument("the send buffer and the recv buffer overlap");
  return std::nullopt;
}

std::optional<failure> read_round(const lsched_schedule& schedule, flight& next, const void* const* inputs,
                                  void* const* outputs, const lsched_counts* counts) {
  const lsched::schedule& program = *schedule.instance->program;
  if (schedule.extras.has_lists) return read_round_of_lists(program, next, inputs, outputs, counts);
  if (counts != nullptr) return argument("a schedule without a capacity takes no counts");
  auto memory = read_next_memory(schedule, inputs, outputs);
  if (!memory) return memory.error();
  next.memory = std::move(*memory);
  return std::nullopt;
}

/// Starts the next round. Refuses the call while the last round of the next flight is outstanding. This check comes
/// before the arguments are read, because that round may still use the flight's memory for displacements.
lsched_status start(lsched_schedule& schedule, const void* const* inputs, void* const* outputs,
                    const lsched_counts* counts, lsched_ticket* ticket) {
  driver& drives = schedule.world->process.driver();
  flight& next = schedule.flights.next();
  round_no round = 0;
  status answer = schedule.flights.may_start();
  if (answer != status::ok) return explain_start(schedule, *next.runs, answer);
  const bool is_as_before = inputs == nullptr && outputs == nullptr && counts == nullptr && !schedule.extras.has_lists;
  if (is_as_before && schedule.flights.needs_memory())
    return refuse(&schedule, "the first rounds need inputs and outputs", kept_diagnostic());
  if (is_as_before) {
    answer = drives.start(*next.runs, &round);
  } else {
    if (const auto why = read_round(schedule, next, inputs, outputs, counts))
      return report(kept_diagnostic(), {why->code, next.runs->label + ": " + why->text});
    answer = drives.start(*next.runs, next.memory, &round);
    if (answer == status::ok) schedule.flights.note_binding(round - 1);
  }
  if (answer == status::ok) *ticket = {&schedule, schedule.flights.count_start(round)};
  return explain_start(schedule, *next.runs, answer);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

lsched_status lsched_start_with(lsched_schedule* schedule, const void* const* inputs, void* const* outputs,
                                const lsched_counts* counts, lsched_ticket* ticket) {
  if (ticket == nullptr) return report(kept_diagnostic(), argument("ticket is null"));
  if (schedule == nullptr || schedule->is_partial())
    return refuse(schedule, "a partial schedule has no rounds to start: call lsched_offer", kept_diagnostic());
  return guarded(kept_diagnostic(), [&] { return start(*schedule, inputs, outputs, counts, ticket); });
}
