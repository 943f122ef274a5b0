// Starts rounds whose memory and counts the caller passes with each round (lsched_start_with).
#include <array>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/requests/block_lists.h"

namespace lsched {
namespace {

/// Reads the memory and counts of a round into next.memory. The schedule has a capacity. If the arguments are invalid,
/// returns the reason.
std::optional<failure> read_round_of_lists(const schedule& program, flight& next, const void* const* inputs,
                                           void* const* outputs, const lsched_counts* counts) {
  const auto known = read_struct(counts);
  if (!known) return known.error();
  const std::array<const void*, 5> arrays{known->send_counts, known->send_displacements, known->recv_counts,
                                          known->recv_displacements, known->received};
  if (is_any_on_device(arrays.data(), arrays.size()))
    return argument("counts, displacements and received must be in host memory");
  const caller_lists sent{.side = "send",
                          .memory = inputs == nullptr ? nullptr : inputs[0],
                          .counts = known->send_counts,
                          .displacements = known->send_displacements};
  const caller_lists received{.side = "recv",
                              .memory = outputs == nullptr ? nullptr : outputs[0],
                              .counts = known->recv_counts,
                              .displacements = known->recv_displacements,
                              .received = known->received};
  if (auto why = read_lists(program, sent, received, {next.memory, next.input_begins, next.output_begins})) return why;
  if (is_any_on_device(inputs, next.memory.inputs.size()) || is_any_on_device(outputs, next.memory.outputs.size()))
    return failure{status::unsupported,
                   "the buffers of a schedule with a capacity cannot be in device memory: pass host memory"};
  return std::nullopt;
}

std::optional<failure> read_round(const lsched_schedule& schedule, flight& next, const void* const* inputs,
                                  void* const* outputs, const lsched_counts* counts) {
  const lsched::schedule& program = *schedule.instance->program;
  if (schedule.extras.has_lists) return read_round_of_lists(program, next, inputs, outputs, counts);
  if (counts != nullptr) return argument("a schedule without a capacity takes no counts: leave counts null");
  auto memory = read_next_memory(schedule, inputs, outputs);
  if (!memory) return memory.error();
  next.memory = std::move(*memory);
  return std::nullopt;
}

/// Starts the next round in the next flight (an instance of the schedule, libsched/session/flights.h). Refuses the call
/// while the previous round of that flight is outstanding. This check comes before the arguments are read, because the
/// previous round may still use the flight's memory for displacements.
lsched_status start(lsched_schedule& schedule, const void* const* inputs, void* const* outputs,
                    const lsched_counts* counts, lsched_ticket* ticket) {
  driver& drives = schedule.world->process.driver();
  flight& next = schedule.flights.next();
  round_no round = 0;
  status answer = schedule.flights.may_start();
  if (answer != status::ok) return explain_start(schedule, *next.runs, answer);
  const bool is_as_before = inputs == nullptr && outputs == nullptr && counts == nullptr && !schedule.extras.has_lists;
  if (is_as_before && schedule.flights.needs_memory())
    return refuse(&schedule, "inputs and outputs are null, but the first rounds need inputs and outputs: pass both",
                  kept_diagnostic());
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
