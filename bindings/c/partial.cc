// The two ends of a partial schedule, and what its ranks do together.
#include <algorithm>
#include <cstring>

#include "bindings/c/runtime.h"
#include "bindings/c/sized.h"
#include "collectives/shape.h"
#include "libsched/trace_buffer.h"
#include "ops/kernel.h"

namespace lsched {

const buffer& contribution_of(const lsched_schedule& schedule) {
  return schedule.it->program->buffers()[schedule.it->input_buffer];
}

const buffer& result_of(const lsched_schedule& schedule) {
  return schedule.it->program->buffers()[schedule.it->output_buffer];
}

namespace {

using step = lsched_schedule::meeting::step;

bool is_partial(const lsched_schedule* schedule) { return schedule != nullptr && schedule->is_partial(); }

/// What is copied in no more time than waking a thread takes (20 us). Copying more, a rank goes on serving the others.
constexpr std::uint64_t k_short_offer = std::uint64_t{1} << 18;

void call_for(lsched_schedule& schedule, instance& it, round_no round) {
  it.stats->calls.note(round, trace_buffer::now_ns());
  if (it.called.load() < round) it.called.store(round);
  schedule.runtime->driver().poke(it);
}

/// What a collect of `got` says; nothing: all has been collected up to the last round that was.
lsched_report report_of(const instance& it, const std::optional<delivered>& got) {
  const round_no last = it.results->collected(), over = it.finished.load();
  lsched_report told{.last = {.round = last, .ranks = wide(it.program->place().size)},
                     .from = last,
                     .to = last,
                     .round = over == k_last_round ? it.round : std::max(over, last)};
  if (!got) return told;
  told.from = got->from;
  told.to = got->to;
  told.last.round = got->to;
  told.last.contributors = got->contributors;
  told.last.offers = got->last_offers;
  told.offers = got->offers;
  told.mine = got->mine;
  told.staleness = got->staleness;
  told.has_result = got->null ? 0 : 1;
  return told;
}

std::optional<failure> objection_to_report(const lsched_report* into) {
  if (into == nullptr || is_there(into)) return std::nullopt;
  return refusal_of(published_as(into), &into->struct_size);
}

/// To a caller who wants it.
void write_report(lsched_report* into, const lsched_report& told) {
  if (into != nullptr) write_struct(into, told);
}

// --- what all ranks do together --------------------------------------------------------------------------------------

using deadline = driver::clock::time_point;

/// Says how far this rank is. A round of the agreement waits for every rank that has not left.
void say(lsched_schedule& schedule, round_no round) {
  instance& agreement = *schedule.agreement;
  const round_no next = agreement.called.load() + 1;
  agreement.offers->offer(reinterpret_cast<const std::byte*>(&round), next);
  call_for(schedule, agreement, next);
}

/// What the furthest rank has said.
lsched_status hear(lsched_schedule& schedule, deadline until, round_no& furthest, lsched_diagnostic* diagnostic) {
  instance& agreement = *schedule.agreement;
  const lsched_status answer = wait_for(schedule, agreement, agreement.called.load(), until, diagnostic);
  if (answer == LSCHED_OK) (void)agreement.results->collect(reinterpret_cast<std::byte*>(&furthest));
  return answer;
}

/// Makes a round, the same for all, that nobody has called for and whose contribution no rank had given before it came
/// here: so everything is in it or before it. (A rank that leaves meanwhile may start rounds; what is here goes into
/// the first of them.)
lsched_status make_common_round(lsched_schedule& schedule, deadline until, lsched_diagnostic* diagnostic) {
  lsched_schedule::meeting& met = schedule.met;
  instance& it = *schedule.it;
  if (met.at == step::none) {
    say(schedule, std::max({it.called.load(), it.finished.load(), it.gated.load()}));
    met.at = step::asked;
  }
  if (met.at == step::asked) {
    round_no furthest = 0;
    if (const lsched_status answer = hear(schedule, until, furthest, diagnostic); answer != LSCHED_OK) return answer;
    met.target = furthest + 1;
    call_for(schedule, it, met.target);
    met.at = step::called;
  }
  return met.at == step::called ? wait_for(schedule, it, met.target, until, diagnostic) : LSCHED_OK;
}

std::optional<failure> objection_to_meeting(const lsched_schedule* schedule, bool is_model_sync) {
  if (!is_partial(schedule)) return failure{static_cast<status>(refuse(schedule)), "not a partial schedule"};
  if (schedule->it->leaving.load()) return failure{status::state, schedule->it->label + ": this rank has left"};
  if (schedule->met.at != step::none && schedule->met.is_model_sync != is_model_sync)
    return failure{status::state, schedule->it->label + ": this rank is in another call that all ranks make together"};
  return std::nullopt;
}

/// What a result is divided by; 1: nothing.
std::uint64_t divisor_of(const lsched_schedule& schedule, const delivered& got) {
  switch (schedule.divisor) {
    case LSCHED_DIVIDE_BY_NONE: break;
    case LSCHED_DIVIDE_BY_RANKS: return wide(schedule.it->program->place().size);
    case LSCHED_DIVIDE_BY_CONTRIBUTORS: return got.in_result;
    case LSCHED_DIVIDE_BY_OFFERS: return got.offers;
  }
  return 1;
}

void divide(const lsched_schedule& schedule, const delivered& got, std::span<const target_part> result) {
  const std::uint64_t by = got.null ? 1 : divisor_of(schedule, got);
  if (by == 1) return;
  for (const target_part& it : result) find_divide(result_of(schedule).type)(it.data, it.data, it.count, by);
}

/// The next result that was not collected, divided; without `into` it is dropped.
std::optional<delivered> take(lsched_schedule& schedule, std::span<const target_part> into) {
  const auto got = schedule.it->results->collect(into);
  if (got) divide(schedule, *got, into);
  return got;
}

/// The same where it lies.
std::optional<delivered> take_view(lsched_schedule& schedule, void*& result) {
  const auto got = schedule.it->results->borrow();
  result = nullptr;
  if (!got) return std::nullopt;
  const target_part whole{got->data, result_of(schedule).count};
  divide(schedule, got->what, std::span(&whole, 1));
  if (!got->what.null) result = got->data;
  return got->what;
}

/// Gives out what a flush has taken. Nothing, if that has happened already.
lsched_report hand_out(lsched_schedule& schedule, std::span<const target_part> into) {
  lsched_schedule::meeting& met = schedule.met;
  if (met.told.has_result != 0) schedule.it->results->copy(met.sum.data(), into);
  const lsched_report told = met.told;
  met.told.from = met.told.to;
  met.told.last.contributors = met.told.last.offers = met.told.offers = met.told.mine = met.told.staleness = 0;
  met.told.has_result = 0;
  return told;
}

/// Nobody goes on before everybody has taken the result: until then there is no later one to take.
lsched_status flush(lsched_schedule& schedule, std::span<const target_part> result, deadline until,
                    lsched_report* report_to, lsched_diagnostic* diagnostic) {
  lsched_schedule::meeting& met = schedule.met;
  if (const lsched_status answer = make_common_round(schedule, until, diagnostic); answer != LSCHED_OK) return answer;
  if (met.at == step::called) {
    met.sum.resize(result_of(schedule).bytes());
    const target_part whole{met.sum.data(), result_of(schedule).count};
    met.told = report_of(*schedule.it, take(schedule, std::span(&whole, 1)));
    met.told.round = std::max(met.target, met.told.to);
    say(schedule, 0);
    met.at = step::taken;
  }
  round_no nothing = 0;
  if (const lsched_status answer = hear(schedule, until, nothing, diagnostic); answer != LSCHED_OK) return answer;
  write_report(report_to, hand_out(schedule, result));
  schedule.met = {};
  return LSCHED_OK;
}

/// The weights go through a schedule of their own that waits for every rank. Nobody comes to that before he has dropped
/// what he had not collected.
lsched_status average(lsched_schedule& schedule, void* weights, deadline until, lsched_report* report_to,
                      lsched_diagnostic* diagnostic) {
  lsched_schedule::meeting& met = schedule.met;
  met.is_model_sync = true;
  if (const lsched_status answer = make_common_round(schedule, until, diagnostic); answer != LSCHED_OK) return answer;
  instance& mean = *schedule.mean;
  if (met.at == step::called) {
    while (schedule.it->results->collect(nullptr)) continue;
    const round_no next = mean.called.load() + 1;
    mean.offers->offer(static_cast<const std::byte*>(weights), next);
    call_for(schedule, mean, next);
    met.at = step::taken;
  }
  const lsched_status answer = wait_for(schedule, mean, mean.called.load(), until, diagnostic);
  if (answer != LSCHED_OK) return answer;
  const buffer& data = contribution_of(schedule);
  const auto got = mean.results->collect(static_cast<std::byte*>(weights));
  if (!got) return report(diagnostic, {status::internal, mean.label + ": a round without a result"});
  const std::uint64_t ranks = got->contributors;
  find_divide(data.type)(weights, weights, data.count, ranks);
  lsched_report told = report_of(*schedule.it, std::nullopt);
  told.last.contributors = ranks;
  write_report(report_to, told);
  schedule.met = {};
  return LSCHED_OK;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

namespace {

/// `buckets` of a caller, one pointer each. False: one that is not empty has no memory.
template <class Part, class Pointers>
bool point(std::vector<Part>& parts, Pointers buckets) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].data = static_cast<decltype(parts[i].data)>(buckets[i]);
    if (parts[i].data == nullptr && parts[i].count > 0) return false;
  }
  return true;
}

/// A result in one piece; none: the data is dropped.
std::span<const target_part> pieces_of(const target_part& whole) {
  return std::span(&whole, whole.data == nullptr ? 0 : 1);
}

target_part whole_result(const lsched_schedule* schedule, void* result) {
  return {static_cast<std::byte*>(result), is_partial(schedule) ? result_of(*schedule).count : 0};
}

lsched_status offer(lsched_schedule& schedule, std::span<const source_part> contribution, lsched_ticket* ticket) {
  instance& it = *schedule.it;
  if (const status verdict = it.verdict.load(); verdict != status::ok) return static_cast<lsched_status>(verdict);
  if (it.leaving.load() || schedule.met.at != step::none) return LSCHED_ERR_STATE;
  const round_no mine = it.called.load() + 1;
  *ticket = {&schedule, mine};
  const auto call = [&] {
    it.offers->offer(contribution, mine);
    it.stats->calls.note(mine, trace_buffer::now_ns());  // before the call that may start the round
    it.called.store(mine);
    return mine > it.finished.load();
  };
  driver& engine_driver = schedule.runtime->driver();
  if (contribution_of(schedule).bytes() <= k_short_offer)
    engine_driver.poke_after(it, call);
  else if (call())
    engine_driver.poke(it);
  return LSCHED_OK;
}

/// Waits for a ticket's round, if that is one of a partial schedule.
lsched_status wait_to_collect(lsched_ticket ticket, std::uint64_t timeout_ns, const lsched_report* report_to,
                              lsched_diagnostic* diagnostic) {
  lsched_schedule* const schedule = ticket.schedule;
  if (!is_partial(schedule))
    return report(diagnostic, {static_cast<status>(refuse(schedule)), "not a partial schedule's ticket"});
  if (const auto why = objection_to_report(report_to)) return report(diagnostic, *why);
  return wait_for(*schedule, *schedule->it, ticket.round, deadline_after(timeout_ns), diagnostic);
}

lsched_status collect(lsched_ticket ticket, std::span<const target_part> result, std::uint64_t timeout_ns,
                      lsched_report* report_to, lsched_diagnostic* diagnostic) {
  const lsched_status answer = wait_to_collect(ticket, timeout_ns, report_to, diagnostic);
  if (answer != LSCHED_OK) return answer;
  lsched_schedule& schedule = *ticket.schedule;
  const lsched_schedule::meeting& met = schedule.met;
  const bool has_taken = met.at == step::taken && !met.is_model_sync && met.told.to != met.told.from;
  write_report(report_to, has_taken ? hand_out(schedule, result) : report_of(*schedule.it, take(schedule, result)));
  return LSCHED_OK;
}

}  // namespace

extern "C" {

lsched_status lsched_offer(lsched_schedule* schedule, const void* contribution, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse(schedule);
  const source_part whole{static_cast<const std::byte*>(contribution), contribution_of(*schedule).count};
  if (ticket == nullptr || (contribution == nullptr && whole.count > 0)) return LSCHED_ERR_ARGUMENT;
  return offer(*schedule, std::span(&whole, 1), ticket);
}

lsched_status lsched_offer_buckets(lsched_schedule* schedule, const void* const* buckets, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse(schedule);
  if (ticket == nullptr || buckets == nullptr || !point(schedule->offered, buckets)) return LSCHED_ERR_ARGUMENT;
  return offer(*schedule, schedule->offered, ticket);
}

lsched_status lsched_collect(lsched_ticket ticket, void* result, uint64_t timeout_ns, lsched_report* report_to,
                             lsched_diagnostic* diagnostic) {
  const target_part whole = whole_result(ticket.schedule, result);
  return collect(ticket, pieces_of(whole), timeout_ns, report_to, diagnostic);
}

lsched_status lsched_collect_buckets(lsched_ticket ticket, void* const* buckets, uint64_t timeout_ns,
                                     lsched_report* report_to, lsched_diagnostic* diagnostic) {
  if (!is_partial(ticket.schedule))
    return report(diagnostic, {static_cast<status>(refuse(ticket.schedule)), "not a partial schedule's ticket"});
  std::vector<target_part>& into = ticket.schedule->collected;
  if (buckets == nullptr || !point(into, buckets))
    return report(diagnostic, {status::argument, "buckets is null, or the pointer to one that is not empty"});
  return collect(ticket, into, timeout_ns, report_to, diagnostic);
}

lsched_status lsched_collect_view(lsched_ticket ticket, void** result, uint64_t timeout_ns, lsched_report* report_to,
                                  lsched_diagnostic* diagnostic) {
  if (result == nullptr) return report(diagnostic, {status::argument, "result is null"});
  const lsched_status answer = wait_to_collect(ticket, timeout_ns, report_to, diagnostic);
  if (answer != LSCHED_OK) return answer;
  lsched_schedule& schedule = *ticket.schedule;
  if (schedule.met.at != step::none)
    return report(diagnostic, {status::state, schedule.it->label + ": in the middle of a call that all ranks make"});
  write_report(report_to, report_of(*schedule.it, take_view(schedule, *result)));
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
    const target_part whole = whole_result(schedule, result);
    return flush(*schedule, pieces_of(whole), deadline_after(timeout_ns), report_to, diagnostic);
  });
}

lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns, lsched_report* report_to,
                                lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (const auto why = objection_to_meeting(schedule, true)) return report(diagnostic, *why);
    if (schedule->mean == nullptr)
      return report(diagnostic, {status::unsupported, schedule->it->label + ": made without averages_weights"});
    if (weights == nullptr && contribution_of(*schedule).count > 0)
      return report(diagnostic, {status::argument, "weights is null"});
    if (const auto why = objection_to_report(report_to)) return report(diagnostic, *why);
    return average(*schedule, weights, deadline_after(timeout_ns), report_to, diagnostic);
  });
}

lsched_status lsched_leave(lsched_schedule* schedule) {
  if (!is_partial(schedule)) return refuse(schedule);
  for (instance* it : {schedule->it, schedule->agreement, schedule->mean}) {
    if (it == nullptr) continue;
    it->leaving.store(true);  // before the call, so that the round the call starts sees it
    it->called.store(k_last_round);
    schedule->runtime->driver().poke(*it);
  }
  return LSCHED_OK;
}

}  // extern "C"
