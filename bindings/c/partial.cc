// The two ends of a partial schedule, and what its ranks do together.
#include <algorithm>
#include <cstring>

#include "bindings/c/runtime.h"

namespace lsched {
namespace {

using step = lsched_schedule::meeting::step;

bool is_partial(const lsched_schedule* schedule) { return schedule != nullptr && schedule->is_partial(); }

const buffer& contribution_of(const lsched_schedule& schedule) {
  return schedule.it->program->buffers()[schedule.it->input_buffer];
}

void call_for(lsched_schedule& schedule, instance& it, round_no round) {
  if (it.called.load() < round) it.called.store(round);
  schedule.runtime->driver().poke(it);
}

/// What a collect of `got` says; nothing: all has been collected up to the last round that was.
lsched_report report_of(const instance& it, const std::optional<delivered>& got) {
  const round_no last = it.results->collected(), over = it.finished.load();
  lsched_report told{.struct_size = sizeof told,
                     .from = last,
                     .to = last,
                     .round = over == k_last_round ? it.round : std::max(over, last),
                     .ranks = it.program->place().size};
  if (!got) return told;
  told.from = got->from;
  told.to = got->to;
  told.contributors = got->contributors;
  told.offers = got->offers;
  told.mine = got->mine;
  told.staleness = got->staleness;
  told.has_result = got->null ? 0 : 1;
  return told;
}

std::optional<failure> objection_to_report(const lsched_report* into) {
  if (into == nullptr || into->struct_size == sizeof *into) return std::nullopt;
  return failure{status::argument, "struct_size is not sizeof(lsched_report)"};
}

// --- agreeing ---------------------------------------------------------------------------------------------------------

/// Says how far this rank is. A round of the agreement waits for every rank that has not left.
void say(lsched_schedule& schedule, round_no round) {
  instance& agreement = *schedule.agreement;
  const round_no next = agreement.called.load() + 1;
  agreement.offers->offer(reinterpret_cast<const std::byte*>(&round), next);
  call_for(schedule, agreement, next);
}

/// What the furthest rank has said, and how many have said something.
struct agreed_round {
  round_no furthest = 0;
  std::uint64_t ranks = 0;
};
lsched_status hear(lsched_schedule& schedule, std::uint64_t timeout_ns, agreed_round& out,
                   lsched_diagnostic* diagnostic) {
  instance& agreement = *schedule.agreement;
  const lsched_status answer = wait_for(schedule, agreement, agreement.called.load(), timeout_ns, diagnostic);
  if (answer != LSCHED_OK) return answer;
  const auto got = agreement.results->collect(reinterpret_cast<std::byte*>(&out.furthest));
  out.ranks = got ? got->contributors : 0;
  return LSCHED_OK;
}

/// The round that nobody has called for yet comes next for all.
lsched_status agree_on_a_round(lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_diagnostic* diagnostic) {
  lsched_schedule::meeting& met = schedule.met;
  if (met.at == step::none) {
    say(schedule, std::max(schedule.it->called.load(), schedule.it->finished.load()));
    met.at = step::asked;
  }
  if (met.at != step::asked) return LSCHED_OK;
  agreed_round all;
  if (const lsched_status answer = hear(schedule, timeout_ns, all, diagnostic); answer != LSCHED_OK) return answer;
  met.target = all.furthest + 1;
  call_for(schedule, *schedule.it, met.is_model_sync ? met.target - 1 : met.target);
  met.at = step::called;
  return LSCHED_OK;
}

/// Nobody goes on before everybody has taken the result: until then there is no later one to take.
lsched_status part(lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_report* report_to,
                   lsched_diagnostic* diagnostic) {
  agreed_round all;
  if (const lsched_status answer = hear(schedule, timeout_ns, all, diagnostic); answer != LSCHED_OK) return answer;
  if (report_to != nullptr) *report_to = schedule.met.told;
  schedule.met = {};
  return LSCHED_OK;
}

std::optional<failure> objection_to_meeting(const lsched_schedule* schedule, bool is_model_sync) {
  if (!is_partial(schedule)) return failure{static_cast<status>(refuse(schedule)), "not a partial schedule"};
  if (schedule->it->leaving.load()) return failure{status::state, schedule->it->label + ": this rank has left"};
  if (schedule->met.at != step::none && schedule->met.is_model_sync != is_model_sync)
    return failure{status::state, schedule->it->label + ": this rank is in another call that all ranks make together"};
  return std::nullopt;
}

lsched_status flush(lsched_schedule& schedule, void* result, std::uint64_t timeout_ns, lsched_report* report_to,
                    lsched_diagnostic* diagnostic) {
  if (const lsched_status answer = agree_on_a_round(schedule, timeout_ns, diagnostic); answer != LSCHED_OK)
    return answer;
  lsched_schedule::meeting& met = schedule.met;
  if (met.at == step::called) {
    const lsched_status answer = wait_for(schedule, *schedule.it, met.target, timeout_ns, diagnostic);
    if (answer != LSCHED_OK) return answer;
    met.told = report_of(*schedule.it, schedule.it->results->collect(static_cast<std::byte*>(result)));
    met.told.round = met.target;
    say(schedule, met.target);
    met.at = step::taken;
  }
  return part(schedule, timeout_ns, report_to, diagnostic);
}

// --- averaging weights -------------------------------------------------------------------------------------------------

std::optional<failure> objection_to_average(const lsched_schedule& schedule, const void* weights) {
  const buffer& data = contribution_of(schedule);
  const auto ops = schedule.it->program->ops();
  const auto capture = std::ranges::find(ops, op_kind::capture, &op::kind);
  if (capture->what != kernel::sum || (data.type != dtype::f32 && data.type != dtype::f64))
    return failure{status::unsupported, schedule.it->label + ": only sums of f32 and f64 can be averaged"};
  if (weights == nullptr && data.count > 0) return failure{status::argument, "weights is null"};
  return std::nullopt;
}

template <class Number>
void divide(void* values, std::uint64_t count, std::uint64_t by) {
  auto* const first = static_cast<Number*>(values);
  std::for_each(first, first + count, [by](Number& it) { it /= static_cast<Number>(by); });
}

/// Nobody computes now: what is pending is forgotten, and so is what was not collected.
lsched_status put_weights_in(lsched_schedule& schedule, const void* weights, std::uint64_t timeout_ns,
                             lsched_diagnostic* diagnostic) {
  instance& it = *schedule.it;
  lsched_schedule::meeting& met = schedule.met;
  if (met.at == step::called) {
    const lsched_status answer = wait_for(schedule, it, met.target - 1, timeout_ns, diagnostic);
    if (answer != LSCHED_OK) return answer;
    it.offers->withdraw();
    while (it.results->collect(nullptr)) continue;
    it.offers->offer(static_cast<const std::byte*>(weights), met.target);
    say(schedule, met.target);
    met.at = step::ready;
  }
  if (met.at != step::ready) return LSCHED_OK;
  agreed_round all;
  if (const lsched_status answer = hear(schedule, timeout_ns, all, diagnostic); answer != LSCHED_OK) return answer;
  met.ranks = all.ranks;
  call_for(schedule, it, met.target);
  met.at = step::shared;
  return LSCHED_OK;
}

/// Whether one round was taken, with the weights of all who agreed on it in it and nothing else.
bool is_mean_of(const lsched_report& told, std::uint64_t ranks) {
  return told.to == told.from + 1 && told.contributors == ranks && told.has_result != 0;
}

lsched_report take_mean(lsched_schedule& schedule, void* weights) {
  const buffer& data = contribution_of(schedule);
  std::vector<std::byte> sum(data.bytes());
  const lsched_report told = report_of(*schedule.it, schedule.it->results->collect(sum.data()));
  const std::uint64_t ranks = schedule.met.ranks;
  if (!is_mean_of(told, ranks) || data.count == 0) return told;
  std::memcpy(weights, sum.data(), sum.size());
  data.type == dtype::f32 ? divide<float>(weights, data.count, ranks) : divide<double>(weights, data.count, ranks);
  return told;
}

lsched_status average(lsched_schedule& schedule, void* weights, std::uint64_t timeout_ns, lsched_report* report_to,
                      lsched_diagnostic* diagnostic) {
  schedule.met.is_model_sync = true;
  if (const lsched_status answer = agree_on_a_round(schedule, timeout_ns, diagnostic); answer != LSCHED_OK)
    return answer;
  if (const lsched_status answer = put_weights_in(schedule, weights, timeout_ns, diagnostic); answer != LSCHED_OK)
    return answer;
  lsched_schedule::meeting& met = schedule.met;
  instance& it = *schedule.it;
  if (met.at == step::shared) {
    const lsched_status answer = wait_for(schedule, it, met.target, timeout_ns, diagnostic);
    if (answer != LSCHED_OK) return answer;
    met.told = take_mean(schedule, weights);
    say(schedule, met.target);
    met.at = step::taken;
  }
  const std::uint64_t ranks = met.ranks;
  lsched_report told = met.told;
  if (const lsched_status answer = part(schedule, timeout_ns, &told, diagnostic); answer != LSCHED_OK) return answer;
  if (report_to != nullptr) *report_to = told;
  if (is_mean_of(told, ranks)) return LSCHED_OK;
  return report(diagnostic, {status::state, it.label + ": a rank has left meanwhile; no weights have changed"});
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_offer(lsched_schedule* schedule, const void* contribution, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse(schedule);
  instance& it = *schedule->it;
  if (ticket == nullptr || (contribution == nullptr && contribution_of(*schedule).count > 0))
    return LSCHED_ERR_ARGUMENT;
  if (const status verdict = it.verdict.load(); verdict != status::ok) return static_cast<lsched_status>(verdict);
  if (it.leaving.load() || schedule->met.at != step::none) return LSCHED_ERR_STATE;
  const round_no mine = it.called.load() + 1;
  it.offers->offer(static_cast<const std::byte*>(contribution), mine);
  it.called.store(mine);
  *ticket = {schedule, mine};
  if (mine > it.finished.load()) schedule->runtime->driver().poke(it);
  return LSCHED_OK;
}

lsched_status lsched_collect(lsched_ticket ticket, void* result, uint64_t timeout_ns, lsched_report* report_to,
                             lsched_diagnostic* diagnostic) {
  const lsched_schedule* schedule = ticket.schedule;
  if (!is_partial(schedule))
    return report(diagnostic, {static_cast<status>(refuse(schedule)), "not a partial schedule's ticket"});
  if (const auto why = objection_to_report(report_to)) return report(diagnostic, *why);
  instance& it = *schedule->it;
  if (const lsched_status answer = wait_for(*schedule, it, ticket.round, timeout_ns, diagnostic); answer != LSCHED_OK)
    return answer;
  const auto got = it.results->collect(static_cast<std::byte*>(result));
  if (report_to != nullptr) *report_to = report_of(it, got);
  return LSCHED_OK;
}

lsched_status lsched_withdraw(lsched_schedule* schedule, uint64_t* offers) {
  if (!is_partial(schedule)) return refuse(schedule);
  if (schedule->met.at != step::none) return LSCHED_ERR_STATE;
  const std::uint64_t taken = schedule->it->offers->withdraw();
  if (offers != nullptr) *offers = taken;
  return LSCHED_OK;
}

lsched_status lsched_flush(lsched_schedule* schedule, void* result, uint64_t timeout_ns, lsched_report* report_to,
                           lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (const auto why = objection_to_meeting(schedule, false)) return report(diagnostic, *why);
    if (const auto why = objection_to_report(report_to)) return report(diagnostic, *why);
    return flush(*schedule, result, timeout_ns, report_to, diagnostic);
  });
}

lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns, lsched_report* report_to,
                                lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (const auto why = objection_to_meeting(schedule, true)) return report(diagnostic, *why);
    if (const auto why = objection_to_average(*schedule, weights)) return report(diagnostic, *why);
    if (const auto why = objection_to_report(report_to)) return report(diagnostic, *why);
    return average(*schedule, weights, timeout_ns, report_to, diagnostic);
  });
}

lsched_status lsched_leave(lsched_schedule* schedule) {
  if (!is_partial(schedule)) return refuse(schedule);
  for (instance* it : {schedule->it, schedule->agreement}) {
    if (it == nullptr) continue;
    it->leaving.store(true);  // before the call, so that the round the call starts sees it
    it->called.store(k_last_round);
    schedule->runtime->driver().poke(*it);
  }
  return LSCHED_OK;
}

}  // extern "C"
