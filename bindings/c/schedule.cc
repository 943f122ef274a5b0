// The functions of the C interface that run, inspect and end schedules.
#include <algorithm>
#include <array>
#include <cstring>

#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/requests/agreement.h"
#include "ops/adasum/non_finite.h"
#include "ops/counted.h"
#include "ops/elementwise/elementwise.h"

namespace lsched {
namespace {

awaited_round round_of(const lsched_ticket& ticket) { return ticket.schedule->flights.find(ticket.round); }

/// Returns true if the round of a ticket was not started. Waiting for such a round would never end.
bool is_unstarted(const awaited_round& asked) {
  return !asked.runs.program->is_partial() && (asked.shown == 0 || asked.round > asked.runs.called.load());
}

// --- rounds that were refused --------------------------------------------------------------------------------

/// Returns the outcome of a round that has ended: OK, or BOUNDS or NOT_FINITE if the data of the round was refused. All
/// ranks get the same outcome.
lsched_status verdict_on(const lsched_schedule& schedule, round_no round) {
  const auto& coo = schedule.extras.coo;
  const auto& sparse = schedule.extras.sparse;
  if (coo != nullptr && coo->status_of(round).flaw != coo_flaw::none) return LSCHED_ERR_BOUNDS;
  if (sparse != nullptr && sparse->non_finite_element_of(round).has_value()) return LSCHED_ERR_NOT_FINITE;
  return LSCHED_OK;
}

/// Returns the reason why a round of a sum of sparse vectors was refused.
failure failure_of(const coo_status& verdict, const coo_problem& problem) {
  const std::string culprit = "rank " + std::to_string(verdict.culprit);
  if (verdict.flaw == coo_flaw::many_items)
    return {status::bounds, culprit + " contributes more than " + counted(problem.room, "item") + ": set a larger room",
            verdict.culprit};
  if (verdict.flaw == coo_flaw::large_index)
    return {status::bounds,
            culprit + " has an index that is not below " + std::to_string(problem.count) + ", the count of the vector",
            verdict.culprit};
  return {status::bounds, "the result has " + counted(verdict.items, "item") + ", but there is room for " +
                              std::to_string(problem.result_room) + ": set a larger out_room"};
}

failure refusal_of(const lsched_schedule& schedule, round_no round) {
  if (const auto& coo = schedule.extras.coo) return failure_of(coo->status_of(round), coo->problem());
  const auto element = schedule.extras.sparse->non_finite_element_of(round);
  return {status::not_finite,
          "element " + std::to_string(element.value_or(0)) +
              " of the sum is not finite, and nans is LSCHED_NAN_ERROR: check the gradients of all ranks"};
}

lsched_status explain_refusal(const lsched_schedule& schedule, round_no round, lsched_diagnostic* diagnostic) {
  if (diagnostic == nullptr) return verdict_on(schedule, round);
  return guarded(diagnostic, [&] {
    failure why = refusal_of(schedule, round);
    why.text = schedule.instance->label + ": " + why.text;
    return report(diagnostic, why, round);
  });
}

// --- failed waits -----------------------------------------------------------------------------------------------

lsched_status explain_failure(const lsched_schedule& schedule, const awaited_round& awaited, status answer,
                              lsched_diagnostic* diagnostic) {
  if (diagnostic == nullptr) return static_cast<lsched_status>(answer);
  const instance& runs = awaited.runs;
  return guarded(diagnostic, [&] {
    if (runs.verdict.load() != status::ok && runs.refusal && answer == runs.refusal->code)
      return report(diagnostic, with_advice(*runs.refusal));
    return report(diagnostic, with_details_of_rank(schedule.world_of(runs), describe_failure(runs, answer)),
                  awaited.shown);
  });
}

failure describe_timeout(const lsched_schedule& schedule, const awaited_round& awaited) {
  failure why{status::timeout};
  runtime& process = schedule.world->process;
  const lsched_world& in = schedule.world_of(awaited.runs);
  process.driver().with_engine([&] {
    if (&in == schedule.world) {
      why = describe_wait(process.engine(), schedule.instance->label, awaited);
    } else {
      why.text = schedule.instance->label + ": " + schedule.session->groups()->describe_wait(&why.peer);
    }
  });
  return with_details_of_rank(in, std::move(why));
}

/// Reports a TIMEOUT. If the round has ended meanwhile, returns OK or the failure of the schedule instead. The function
/// writes the text before it checks whether the round has ended, so the text describes an unfinished round.
lsched_status explain_timeout(const lsched_schedule& schedule, const awaited_round& awaited,
                              lsched_diagnostic* diagnostic) {
  failure why{status::timeout};
  const auto describe = [&] {
    why = describe_timeout(schedule, awaited);
    return LSCHED_OK;
  };
  if (diagnostic != nullptr)
    if (const lsched_status failed = guarded(diagnostic, describe); failed != LSCHED_OK) return failed;
  const status outcome = outcome_of(awaited);
  if (outcome == status::pending) return report(diagnostic, why, awaited.shown);
  if (outcome == status::ok) return explain(schedule, awaited, outcome, diagnostic);
  return explain_failure(schedule, awaited, outcome, diagnostic);
}

// --- adaptive sums -------------------------------------------------------------------------------------------

/// Finds the non-finite tensors in the result of an adaptive sum. If tensors were combined, it is enough to read the
/// first element of each tensor: one NaN coefficient makes all elements of a tensor NaN.
std::uint64_t find_in_result(const lsched_schedule& schedule, std::uint8_t* is_non_finite) {
  const auto buffers = schedule.instance->program->buffers();
  const auto output = std::ranges::find(buffers, buffer_role::output, &buffer::role);
  const auto rule =
      schedule.extras.looks_at_tensors ? non_finite_rule::first_element_nan : non_finite_rule::any_element;
  return find_non_finite(schedule.instance->cells[static_cast<std::size_t>(output - buffers.begin())].storage,
                         output->type, schedule.extras.tensors, rule, is_non_finite);
}

/// Returns whether the result is in device memory, which the host cannot read.
bool is_result_on_device(const lsched_schedule& schedule) {
  const auto is_there = [](const buffer& b) {
    return b.role == buffer_role::output && b.space == memory_space::device;
  };
  return std::ranges::any_of(schedule.instance->program->buffers(), is_there);
}

bool is_ordinary(const lsched_schedule* schedule) { return schedule != nullptr && !schedule->is_partial(); }

/// Returns true if the schedule is ordinary, and its rounds use the bound memory. Only then may lsched_start and
/// lsched_run start rounds.
bool is_startable(const lsched_schedule* schedule) {
  return is_ordinary(schedule) && !schedule->is_started_with_memory();
}

constexpr const char k_no_round[] =
    "the ticket is of replica groups, whose tickets have no rounds: pass the ticket to lsched_collect";

}  // namespace

std::vector<instance**> instances_of(lsched_schedule& schedule) {
  if (!schedule.session) return schedule.flights.in_order_of_removal();
  const auto all = schedule.session->instances();
  return {all.begin(), all.end()};
}

lsched_status explain(const lsched_schedule& schedule, const awaited_round& awaited, status answer,
                      lsched_diagnostic* diagnostic) {
  if (answer == status::timeout) return explain_timeout(schedule, awaited, diagnostic);
  if (answer == status::ok)
    return verdict_on(schedule, awaited.shown) == LSCHED_OK ? LSCHED_OK
                                                            : explain_refusal(schedule, awaited.shown, diagnostic);
  return explain_failure(schedule, awaited, answer, diagnostic);
}

lsched_status explain(const lsched_schedule& schedule, const call_progress& made, lsched_diagnostic* diagnostic) {
  if (made.reason.empty()) {
    // The end of a schedule has no round number, and the rounds of a control instance are not those of the caller.
    const bool is_end = made.round == k_last_round || &schedule.world_of(*made.awaited) != schedule.world;
    return explain(schedule, {*made.awaited, made.round, is_end ? 0 : counted(*made.awaited, made.round)}, made.answer,
                   diagnostic);
  }
  if (diagnostic == nullptr) return static_cast<lsched_status>(made.answer);
  return guarded(diagnostic, [&] {
    return report(diagnostic, {made.answer, schedule.instance->label + ": " + std::string(made.reason)});
  });
}

lsched_status refuse(const lsched_schedule* schedule) {
  return schedule == nullptr ? LSCHED_ERR_ARGUMENT : LSCHED_ERR_STATE;
}

lsched_status refuse(const lsched_schedule* schedule, const char* reason, lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) return report(diagnostic, {status::argument, "schedule is null"});
  return guarded(diagnostic, [&] {
    return report(diagnostic, {status::state, schedule->instance->label + ": " + reason});
  });
}

lsched_status explain_start(const lsched_schedule& schedule, const instance& started, status answer) {
  if (answer == status::ok) return LSCHED_OK;
  if (answer == status::state)
    return refuse(&schedule, "a round is outstanding: wait for the round before you start the next", kept_diagnostic());
  return explain(schedule, {started, 0, 0}, answer, kept_diagnostic());
}

void copy_out(const std::string& whole, char* text, std::size_t bytes, std::size_t* needed) {
  if (needed != nullptr) *needed = whole.size() + 1;
  if (bytes == 0) return;
  const std::size_t length = std::min(whole.size(), bytes - 1);
  std::memcpy(text, whole.data(), length);
  text[length] = '\0';
}

}  // namespace lsched

using namespace lsched;

namespace {

/// Refuses lsched_start and lsched_run for a schedule whose rounds do not start over bound memory.
lsched_status refuse_run(const lsched_schedule* schedule, lsched_diagnostic* diagnostic) {
  return refuse(schedule,
                is_ordinary(schedule)
                    ? "each round needs its own memory or counts: call lsched_start_with"
                    : "a partial schedule has no rounds to start: call lsched_offer and lsched_collect",
                diagnostic);
}

/// Waits until all ranks have agreed on the schedule, or until the schedule has failed. The diagnostic has no round
/// number.
lsched_status await_agreement(const lsched_schedule& schedule, driver::clock::time_point deadline,
                              lsched_diagnostic* diagnostic) {
  const common_step& agreement = schedule.commit->progress();
  const awaited_round creation{*schedule.instance, 0, 0};
  failure why{schedule.world->process.driver().wait(agreement, *schedule.instance, deadline)};
  if (why.code == status::timeout && diagnostic != nullptr) {
    const auto describe = [&] {
      why = describe_timeout(schedule, creation);
      return LSCHED_OK;
    };
    if (const lsched_status failed = guarded(diagnostic, describe); failed != LSCHED_OK) return failed;
  }
  const bool is_agreed = agreement.finished.load() != 0;  // the ranks may have agreed while the wait was described
  const status verdict = schedule.instance->verdict.load();
  if (verdict != status::ok) return explain_failure(schedule, creation, verdict, diagnostic);
  return is_agreed ? LSCHED_OK : report(diagnostic, why);
}

}  // namespace

extern "C" {

// --- running --------------------------------------------------------------------------------------------------------

lsched_status lsched_start(lsched_schedule* schedule, lsched_ticket* ticket) {
  if (ticket == nullptr) return report(kept_diagnostic(), argument("ticket is null"));
  if (!is_startable(schedule)) return refuse_run(schedule, kept_diagnostic());
  round_no round = 0;
  const status answer = schedule->world->process.driver().start(*schedule->instance, &round);
  if (answer == status::ok) *ticket = {schedule, round};
  return explain_start(*schedule, *schedule->instance, answer);
}

lsched_status lsched_test(lsched_ticket ticket) {
  if (ticket.schedule == nullptr)
    return fail(status::argument, "the ticket names no schedule: pass a ticket that a start has filled in");
  if (ticket.schedule->has_groups()) return fail(status::unsupported, k_no_round);
  const awaited_round asked = round_of(ticket);
  if (is_unstarted(asked)) return fail(status::state, "the round of the ticket was not started: start the round first");
  if (asked.runs.finished.load() < asked.round) (void)ticket.schedule->world->process.driver().progress();
  const status outcome = outcome_of(asked);
  if (outcome == status::pending) return LSCHED_PENDING;
  return explain(*ticket.schedule, asked, outcome, kept_diagnostic());
}

lsched_status lsched_wait(lsched_ticket ticket, uint64_t timeout_ns, lsched_diagnostic* diagnostic) {
  if (ticket.schedule == nullptr)
    return report(diagnostic,
                  {status::argument, "the ticket names no schedule: pass a ticket that a start has filled in"});
  if (ticket.schedule->has_groups()) return report(diagnostic, {status::unsupported, k_no_round});
  const awaited_round asked = round_of(ticket);
  if (is_unstarted(asked))
    return report(diagnostic,
                  {status::state, ticket.schedule->instance->label + ": round " + std::to_string(ticket.round) +
                                      " has not been started: start the round before you wait"});
  const status answer =
      ticket.schedule->world->process.driver().wait(asked.runs, asked.round, deadline_after(timeout_ns));
  return explain(*ticket.schedule, asked, answer, diagnostic);
}

lsched_status lsched_run(lsched_schedule* schedule, uint64_t timeout_ns, lsched_diagnostic* diagnostic) {
  if (!is_startable(schedule)) return refuse_run(schedule, diagnostic);
  round_no round = 0;
  const status answer = schedule->world->process.driver().run(*schedule->instance, &round, deadline_after(timeout_ns));
  if (answer == status::state)
    return report(diagnostic,
                  {answer, schedule->instance->label + ": a round is outstanding: wait for that round first"});
  return explain(*schedule, {*schedule->instance, round, round}, answer, diagnostic);
}

lsched_status lsched_rebind(lsched_schedule* schedule, const void* const* inputs, void* const* outputs) {
  lsched_diagnostic* const why = kept_diagnostic();
  if (schedule == nullptr) return report(why, argument("schedule is null"));
  return guarded(why, [&] {
    const std::string& label = schedule->instance->label;
    if (!is_startable(schedule))
      return report(why,
                    {status::unsupported,
                     label + (schedule->is_partial() ? ": a partial schedule owns its memory, so no other memory can "
                                                       "be bound: pass memory to lsched_offer"
                                                     : ": each round has its own memory: call lsched_start_with")});
    if (const status failed = schedule->instance->verdict.load(); failed != status::ok)
      return explain_start(*schedule, *schedule->instance, failed);
    const auto memory = read_next_memory(*schedule, inputs, outputs);
    if (!memory) return report(why, {memory.error().code, label + ": " + memory.error().text});
    status answer = status::internal;
    schedule->world->process.driver().with_engine(
        [&] { answer = schedule->world->process.engine().bind(*schedule->instance, *memory); });
    if (answer == status::ok) schedule->flights.note_binding(schedule->instance->called.load());
    return explain_start(*schedule, *schedule->instance, answer);
  });
}

// --- ending ---------------------------------------------------------------------------------------------------------

lsched_status lsched_cancel(lsched_schedule* schedule, lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) return report(diagnostic, {status::argument, "schedule is null"});
  return guarded(diagnostic, [&] {
    auto all = instances_of(*schedule);
    if (schedule->has_groups()) all.push_back(control_of(*schedule));
    const auto why = schedule->world->joined.cancel(all);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

lsched_status lsched_create_wait(lsched_schedule* schedule, uint64_t timeout_ns, lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) return report(diagnostic, {status::argument, "schedule is null"});
  return await_agreement(*schedule, deadline_after(timeout_ns), diagnostic);
}

lsched_status lsched_schedule_destroy(lsched_schedule* schedule, uint64_t timeout_ns, lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) return LSCHED_OK;
  driver& drives = schedule->world->process.driver();
  if (schedule->session) {
    leave(drives, *schedule->session);
    const auto drain = [&] { return schedule->session->drain(); };
    if (const lsched_status why = complete(*schedule, timeout_ns, diagnostic, drain); why != LSCHED_OK) return why;
  } else if (schedule->instance->verdict.load() == status::ok) {
    if (await_agreement(*schedule, deadline_after(timeout_ns), diagnostic) == LSCHED_ERR_TIMEOUT)
      return LSCHED_ERR_TIMEOUT;
  }
  const auto has_failed = [schedule](const instance& one) { return schedule->world->joined.has_failed(one); };
  if (!schedule->session && schedule->flights.has_outstanding(has_failed))
    return report(diagnostic,
                  {status::busy, schedule->instance->label + ": a round is outstanding: wait for that round first"});
  return guarded(diagnostic, [&] {
    if (schedule->has_groups()) {
      drives.with_engine([&] { schedule->world->process.engine().drop(*schedule->session->groups()); });
      instance** control = control_of(*schedule);
      if (const auto why = schedule->all->joined.remove(std::span(&control, 1))) return report(diagnostic, *why);
    }
    const auto why = schedule->world->joined.remove(instances_of(*schedule));
    if (!why || why->code == status::unsupported || why->code == status::device) delete schedule;
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

lsched_status lsched_schedule_print(const lsched_schedule* schedule, lsched_print_format format, char* text,
                                    size_t bytes, size_t* needed) {
  if (schedule == nullptr || (text == nullptr && bytes > 0))
    return fail(status::argument, "schedule is null, or text is null and bytes is not 0");
  if (!is_within(format, LSCHED_PRINT_TEXT, LSCHED_PRINT_STATS))
    return fail(status::argument, "format is not an lsched_print_format");
  if (format == LSCHED_PRINT_STATS && !schedule->is_partial())
    return refuse(
        schedule,
        "only partial schedules have these statistics: call lsched_get_stats or lsched_sparse_get_stats instead",
        kept_diagnostic());
  return guarded(kept_diagnostic(), [&] {
    const lsched::schedule& program = *schedule->instance->program;
    const std::string whole = format == LSCHED_PRINT_STATS ? stats_json_of(*schedule)
                              : format == LSCHED_PRINT_DOT ? to_dot(program)
                                                           : to_text(program);
    copy_out(whole, text, bytes, needed);
    return LSCHED_OK;
  });
}

// --- numbers ---------------------------------------------------------------------------------------------------------

lsched_status lsched_non_finite_tensors(const lsched_schedule* schedule, uint64_t tensor_count, uint8_t* is_non_finite,
                                        uint64_t* number) {
  if (schedule == nullptr || (is_non_finite == nullptr) != (tensor_count == 0))
    return fail(status::argument, "schedule is null, or only one of is_non_finite and tensor_count is given");
  if (schedule->is_partial() || schedule->flights.depth() > 1)
    return fail(status::unsupported, "only ordinary adaptive sums of depth 1 can be searched for non-finite tensors");
  if (schedule->extras.tensors.empty()) return fail(status::argument, "the schedule is not an adaptive sum");
  if (is_result_on_device(*schedule))
    return fail(status::unsupported,
                "the result is in device memory, which the host cannot search: search a copy in host memory");
  if (is_non_finite != nullptr && tensor_count != schedule->extras.tensors.size())
    return report(kept_diagnostic(),
                  argument("tensor_count is " + std::to_string(tensor_count) + ", but the schedule has " +
                           counted(schedule->extras.tensors.size(), "tensor")));
  if (!schedule->flights.has_result())
    return fail(status::state,
                "the schedule has no result yet: no round has ended since its memory was bound, or a round is "
                "outstanding. Start a round if there is none, and wait for the round");
  const std::uint64_t found = find_in_result(*schedule, is_non_finite);
  if (number != nullptr) *number = found;
  return LSCHED_OK;
}

lsched_status lsched_convert(lsched_dtype from, const void* input, uint64_t count, double factor, lsched_dtype to,
                             void* output) {
  if (count > 0 && (input == nullptr || output == nullptr)) return fail(status::argument, "input or output is null");
  const std::array<const void*, 2> buffers{input, output};
  if (count > 0 && is_any_on_device(buffers.data(), buffers.size()))
    return fail(status::argument, "lsched_convert cannot read or write device memory: pass host memory");
  return guarded(kept_diagnostic(), [&] {
    const auto source = read_dtype(from);
    const auto target = read_dtype(to);
    const convert_fn convert = source && target ? find_convert(*source, *target) : nullptr;
    if (convert == nullptr) return fail(status::argument, "there is no conversion between these dtypes");
    if (count > 0) convert(input, count, factor, output);
    return LSCHED_OK;
  });
}

}  // extern "C"
