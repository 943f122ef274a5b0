#include "libsched/session/session.h"

#include <algorithm>

#include "libsched/trace/trace_buffer.h"
#include "ops/kernel.h"
#include "ops/saturating.h"

namespace lsched {
namespace {

template <class Part, class Pointers>
status point_parts(std::vector<Part>& parts, Pointers buckets) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].data = static_cast<decltype(parts[i].data)>(buckets[i]);
    if (parts[i].data == nullptr && parts[i].count > 0) return status::argument;
  }
  return status::ok;
}

// Round numbers in this file are those of the application (counted() in instance.h).
round_no finished_of(const instance& one) { return counted(one, one.finished.load()); }
bool is_over(const instance& one, round_no round) { return finished_of(one) >= round; }

}  // namespace

session::session(engine& runs, const session_instances& all, divisor by, std::span<const std::uint64_t> buckets,
                 std::uint64_t ranks)
    : engine_(&runs),
      all_(all),
      divisor_(by),
      ranks_(ranks != 0 ? ranks : static_cast<std::uint64_t>(all.rounds->program->place().size)) {
  for (const std::uint64_t count : buckets) {
    offered_.push_back({nullptr, count});
    collected_.push_back({nullptr, count});
  }
  if (buckets.empty()) {
    offered_.push_back({nullptr, contribution_buffer().count});
    collected_.push_back({nullptr, result_buffer().count});
  }
  prepared_.resize(offered_.size());  // allocated here, because offers must not allocate
  const instance& rounds = *all.rounds;
  collects_ = rounds.partial->number_of_fragment(counted(rounds, 1));
}

status session::parts_of(const void* const* buckets, std::span<const source_part>* parts) {
  *parts = offered_;
  return point_parts(offered_, buckets);
}

status session::parts_of(void* const* buckets, std::span<const target_part>* parts) {
  *parts = collected_;
  return point_parts(collected_, buckets);
}

// --- offers ----------------------------------------------------------------------------------------------------------

contribution& session::next_contributions() const {
  return *all_.rounds->partial->fragment_of(called_of(*all_.rounds) + 1).offers;
}

/// Returns the contributions for which a bucket was prepared, or null.
contribution* session::prepared_contributions() const {
  for (const fragment_queues& one : fragments())
    if (one.offers->is_prepared()) return one.offers.get();
  return nullptr;
}

status session::may_offer() const {
  if (groups_ != nullptr) return groups_->may_offer();
  if (const status verdict = all_.rounds->verdict.load(); verdict != status::ok) return verdict;
  return has_left() || is_in_common_call() ? status::state : status::ok;
}

const char* session::why_no_offer() const {
  if (groups_ != nullptr) return groups_->why_no_offer();
  if (has_left()) return "this rank has left by lsched_leave, so no contribution is accepted: create another schedule";
  if (is_in_common_call())
    return call_ == common_call::flush
               ? "lsched_flush is incomplete on this rank: call lsched_flush again before the next offer"
               : "lsched_model_sync is incomplete on this rank: call lsched_model_sync again before the next offer";
  return "a contribution in buckets is incomplete: give all buckets by lsched_offer_bucket and call lsched_offer_end, "
         "or call lsched_withdraw";
}

// Makes a call for the next round. If that round is not over yet, notifies the engine and returns true.
bool session::call_next(round_no* round) {
  instance& rounds = *all_.rounds;
  *round = called_of(rounds) + 1;
  rounds.partial->stats->calls.note(*round,
                                    trace_buffer::now_ns());  // must precede the call, which may start the round
  call_for(rounds, *round);
  if (is_over(rounds, *round)) return false;
  engine_->post(rounds);
  return true;
}

status session::offer(const weighted& one, round_no* round, bool* is_posted) {
  *is_posted = groups_ != nullptr;
  if (groups_ != nullptr) return groups_->offer(one.contribution, one.weight, round);
  if (const status why = may_offer(); why != status::ok) return why;
  if (prepared_contributions() != nullptr) return status::state;
  contribution& to = one.fragment ? *fragments()[*one.fragment].offers : next_contributions();
  if (!one.contribution.empty() && one.weight != 0) to.offer(one.contribution, called_of(*all_.rounds) + 1, one.weight);
  *is_posted = call_next(round);
  return status::ok;
}

// Does not notify the engine, because the skipped rounds are over. call_times::note is not called, so skipped rounds do
// not affect the median for deadline(auto).
status session::skip(round_no last, std::uint64_t* skipped) {
  *skipped = 0;
  if (const status why = may_offer(); why != status::ok || groups_ != nullptr) return why;
  instance& rounds = *all_.rounds;
  const round_no called = called_of(rounds), up_to = std::max(called, std::min(last, finished_of(rounds)));
  if (up_to > called) call_for(rounds, up_to);
  *skipped = up_to - called;
  return status::ok;
}

status session::prepare(std::uint32_t bucket, const void* data) {
  if (bucket >= offered_.size() || (data == nullptr && offered_[bucket].count > 0)) return status::argument;
  if (const status why = may_offer(); why != status::ok) return why;
  std::uint64_t begin = 0;
  for (std::uint32_t i = 0; i < bucket; ++i) begin += offered_[i].count;
  const source_part one{static_cast<const std::byte*>(data), offered_[bucket].count};
  contribution* const begun = prepared_contributions();
  if (groups_ == nullptr)
    (begun != nullptr ? *begun : next_contributions()).prepare(begin, one);
  else if (const status why = groups_->prepare(begin, one); why != status::ok)
    return why;
  prepared_[bucket] = true;
  return status::ok;
}

status session::offer_prepared(std::uint64_t weight, round_no* round, bool* is_posted) {
  *is_posted = false;
  if (const status why = may_offer(); why != status::ok) return why;
  for (std::size_t i = 0; i < offered_.size(); ++i)
    if (!prepared_[i] && offered_[i].count > 0) return status::state;
  prepared_.assign(offered_.size(), false);
  *is_posted = groups_ != nullptr;
  if (groups_ != nullptr) return groups_->commit(weight, round);
  contribution* const begun = prepared_contributions();
  (begun != nullptr ? *begun : next_contributions()).commit(called_of(*all_.rounds) + 1, weight);
  *is_posted = call_next(round);
  return status::ok;
}

status session::withdraw(std::uint64_t* offers) {
  if (groups_ != nullptr) return status::unsupported;
  if (is_in_common_call() && all_.rounds->verdict.load() == status::ok) return status::state;
  prepared_.assign(offered_.size(), false);
  *offers = 0;
  for (const fragment_queues& one : fragments()) *offers = saturating_sum(*offers, one.offers->withdraw());
  return status::ok;
}

// --- results ---------------------------------------------------------------------------------------------------------

/// Returns the report of a collect. If `got` is empty, no new result was collected, and the report describes the last
/// round that was collected.
collect_report session::report_of(const std::optional<delivered>& got) const {
  const instance& rounds = *all_.rounds;
  const std::size_t last_fragment = (collects_ == 0 ? fragments().size() : collects_) - 1;
  const delivered& last = groups_ != nullptr ? groups_->collected() : fragments()[last_fragment].results->collected();
  const round_no over = groups_ != nullptr ? last.to : finished_of(rounds);
  const std::uint64_t ranks = last.to != 0 ? last.ranks : static_cast<std::uint64_t>(rounds.program->place().size);
  return {got.value_or(delivered{.from = last.to,
                                 .to = last.to,
                                 .contributors = last.contributors,
                                 .last_offers = last.last_offers,
                                 .ranks = ranks,
                                 .groups = last.groups}),
          over == k_last_round ? counted(rounds, rounds.round) : std::max(over, last.to),
          rounds.partial->number_of_fragment(got ? got->to : last.to)};
}

std::uint64_t session::divisor_of(const delivered& got) const {
  if (got.null) return 1;
  switch (divisor_) {
    case divisor::none: break;
    case divisor::ranks: return ranks_;
    case divisor::contributors: return got.in_result;
    case divisor::offers: return got.offers;
  }
  return 1;
}

void session::divide(const delivered& got, std::span<const target_part> result) const {
  const std::uint64_t by = divisor_of(got);
  if (by == 1) return;
  for (const target_part& one : result) find_divide(result_buffer().type)(one.data, one.data, one.count, by);
}

/// Returns the divided result. Unless the divisor is 1, this is a copy, because other ranks may need the original
/// result (docs/reference/shrink.md).
const std::byte* session::divided(const delivery::loan& result) {
  const std::uint64_t by = divisor_of(result.what);
  if (by == 1 || result_buffer().count == 0) return result.data;
  view_.resize(result_buffer().bytes());
  find_divide(result_buffer().type)(result.data, view_.data(), result_buffer().count, by);
  return view_.data();
}

/// Returns the number of the fragment whose result is collected next. The fragments of successive results follow in
/// turn, so results that cover one round each are returned in the order of their rounds.
std::size_t session::next_to_collect() const {
  const std::size_t count = fragments().size();
  const auto find = [&] {
    for (std::size_t i = 0; i < count; ++i)
      if (fragments()[(collects_ + i) % count].results->has_result()) return i;
    return std::size_t{0};
  };
  if (count == 1) return 0;
  const std::size_t first = find();
  // If the engine has published several rounds during the search, the second search finds the earliest of these rounds.
  return (collects_ + (first == 0 ? 0 : find())) % count;
}

/// Calls `take` with the results of the next fragment.
template <class Take>
auto session::take_next(const Take& take) {
  const std::size_t number = next_to_collect();
  auto got = take(*fragments()[number].results);
  if (got) collects_ = number + 1 == fragments().size() ? 0 : number + 1;
  return got;
}

/// Collects and divides the first uncollected result. If `into` is empty, the result is dropped.
std::optional<delivered> session::take(std::span<const target_part> into) {
  const auto got = take_next([&](delivery& from) { return from.collect(into); });
  if (got) divide(*got, into);
  return got;
}

/// Copies to `into` the result that a flush has collected. Later calls report no new result.
collect_report session::hand_out(std::span<const target_part> into) {
  if (!taken_.what.null) fragments().front().results->copy(sum_.data(), into);
  const collect_report report = taken_;
  taken_.what = report_of(std::nullopt).what;
  return report;
}

/// Returns the longest time that this rank waits in the round, or nothing if it waits until all ranks have called. With
/// deadline(auto), the longest wait is a fifth of the median time between two calls. This median includes the wait, so
/// the wait adds at most a quarter to the time of a step.
std::optional<std::uint64_t> session::longest_wait_ns(round_no round) {
  constexpr std::uint64_t k_share = 5;
  const instance& rounds = *all_.rounds;
  const activation& starts = rounds.program->starts();
  if (starts.number != k_auto_deadline) return std::uint64_t{starts.number} * 1000;
  if (auto_round_ != round) {
    auto_round_ = round;
    auto_wait_ns_ = rounds.partial->stats->calls.median_between();
    if (auto_wait_ns_) *auto_wait_ns_ /= k_share;
  }
  return auto_wait_ns_;
}

/// Waits for a round for which this rank has called, but at most until the deadline.
call_progress session::await_own(round_no round) {
  instance& rounds = *all_.rounds;
  call_progress now = await(rounds, round);
  const activation& starts = rounds.program->starts();
  if (now.answer != status::pending || starts.policy != activation_policy::deadline) return now;
  const auto wait_ns = longest_wait_ns(round);
  if (!wait_ns) return now;
  const std::uint64_t due_ns = rounds.partial->stats->calls.of(round).value_or(0) + *wait_ns;
  if (trace_buffer::now_ns() < due_ns) {
    now.again_ns = due_ns;
  } else if (const round_no waited = uncounted(rounds, round); rounds.partial->hurried.load() < waited) {
    rounds.partial->hurried.store(waited);
    engine_->post(rounds);
  }
  return now;
}

call_progress session::progress_of(const group_session::wait& now) const {
  return {now.answer, now.failed == nullptr ? &groups_->control() : now.failed, now.round, now.reason};
}

call_progress session::collect(round_no round, std::span<const target_part> result, collect_report* report) {
  if (groups_ != nullptr) {
    if (const auto now = groups_->await(round); now.answer != status::ok) return progress_of(now);
    const auto got = groups_->collect(round, result);
    if (got) divide(*got, result);
    *report = report_of(got);
    return {};
  }
  if (const call_progress now = await_own(round); now.answer != status::ok) return now;
  const bool has_flushed = call_ == common_call::flush && stage_ == stage::taken && taken_.what.to != taken_.what.from;
  *report = has_flushed ? hand_out(result) : report_of(take(result));
  return {};
}

call_progress session::collect_view(round_no round, const std::byte** result, collect_report* report) {
  if (groups_ != nullptr) {
    view_.resize(result_buffer().bytes());
    const target_part whole{view_.data(), result_buffer().count};
    const call_progress now = collect(round, std::span(&whole, 1), report);
    if (now.answer == status::ok) *result = report->what.null ? nullptr : view_.data();
    return now;
  }
  if (const call_progress now = await_own(round); now.answer != status::ok) return now;
  if (stage_ != stage::none)
    return {.answer = status::state, .reason = "a collective call of this rank is incomplete: complete the call first"};
  const auto got = take_next([](delivery& from) { return from.borrow(); });
  *result = got && !got->what.null ? divided(*got) : nullptr;
  *report = report_of(got ? std::optional(got->what) : std::nullopt);
  return {};
}

// --- collective calls ------------------------------------------------------------------------------------------------

call_progress session::await(const instance& one, round_no round) {
  const status verdict = one.verdict.load();  // must be loaded before is_over(): the instance may fail after the round
  if (is_over(one, round)) return {};
  return {verdict == status::ok ? status::pending : verdict, &one, uncounted(one, round)};
}

void session::call(instance& one, round_no round) {
  one.partial->stats->calls.note(round, trace_buffer::now_ns());
  if (called_of(one) < round) call_for(one, round);
  engine_->post(one);
}

call_progress session::validate(common_call wanted) const {
  if (has_left())
    return {.answer = status::state,
            .reason = "this rank has left the schedule by lsched_leave: create another schedule"};
  if (prepared_contributions() != nullptr)
    return {.answer = status::state,
            .reason = "a contribution in buckets is incomplete: call lsched_offer_end or lsched_withdraw"};
  if (is_in_common_call() && call_ != wanted)
    return {.answer = status::state,
            .reason = "another collective call of this rank is incomplete: complete that call first"};
  return {};
}

/// Contributes a round number to the next round of the instance `agreement`. That round of `agreement` waits for every
/// remaining rank.
void session::say(round_no number) {
  instance& agreement = *all_.agreement;
  const round_no next = called_of(agreement) + 1;
  agreement.partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(&number), next);
  call(agreement, next);
}

/// Once the round of `agreement` is over, sets `largest` to the maximum of all contributed numbers.
call_progress session::hear(round_no& largest) {
  instance& agreement = *all_.agreement;
  const call_progress now = await(agreement, called_of(agreement));
  if (now.answer == status::ok)
    (void)agreement.partial->fragments.front().results->collect(reinterpret_cast<std::byte*>(&largest));
  return now;
}

/// Runs rounds on which all ranks agree, at least one for each fragment. When a rank enters the collective call, no
/// rank has called for these rounds or captured a contribution for them. So all earlier offers are in these rounds or
/// earlier rounds. A rank that leaves meanwhile may start rounds. The first round of each fragment captures its pending
/// offers.
call_progress session::make_common_round() {
  instance& rounds = *all_.rounds;
  if (stage_ == stage::none) {
    say(std::max({called_of(rounds), finished_of(rounds), counted(rounds, rounds.partial->gated.load())}));
    stage_ = stage::asked;
  }
  if (stage_ == stage::asked) {
    round_no furthest = 0;
    if (const call_progress now = hear(furthest); now.answer != status::ok) return now;
    const round_no turn = fragments().size();
    target_ = (furthest + 2 * turn - 1) / turn * turn;  // at least a round of each fragment, and the end of a turn
    call(rounds, target_);
    stage_ = stage::called;
  }
  return stage_ == stage::called ? await(rounds, target_) : call_progress{};
}

/// No rank returns before all ranks have collected the first result. So without fragments, no result of a later round
/// can exist while a rank still has to collect.
call_progress session::flush(std::span<const target_part> result, collect_report* report) {
  if (groups_ != nullptr) {
    if (const auto now = groups_->flush(); now.answer != status::ok) return progress_of(now);
    const delivered got = groups_->end_flush(result);
    divide(got, result);
    *report = report_of(got);
    return {};
  }
  if (const call_progress why = validate(common_call::flush); why.answer != status::ok) return why;
  call_ = common_call::flush;
  if (const call_progress now = make_common_round(); now.answer != status::ok) return now;
  if (stage_ == stage::called) {
    sum_.resize(result_buffer().bytes());
    const target_part whole{sum_.data(), result_buffer().count};
    taken_ = report_of(take(std::span(&whole, 1)));
    taken_.round = std::max(target_, taken_.what.to);
    say(0);
    stage_ = stage::taken;
  }
  round_no nothing = 0;
  if (const call_progress now = hear(nothing); now.answer != status::ok) return now;
  *report = hand_out(result);
  stage_ = stage::none;
  return {};
}

/// The ranks first make a common round. Then each rank drops its uncollected results, and a round of the instance
/// `mean` sums the weights. This round waits for every remaining rank.
call_progress session::model_sync(void* weights, collect_report* report) {
  if (groups_ != nullptr)
    return {.answer = status::unsupported,
            .reason = "replica groups average no weights: call lsched_flush, which gives all groups the same results"};
  if (const call_progress why = validate(common_call::model_sync); why.answer != status::ok) return why;
  if (all_.mean == nullptr)
    return {.answer = status::unsupported,
            .reason = "the schedule was created without averages_weights: set averages_weights to 1 at creation"};
  call_ = common_call::model_sync;
  if (const call_progress now = make_common_round(); now.answer != status::ok) return now;
  instance& mean = *all_.mean;
  if (stage_ == stage::called) {
    while (take({})) continue;
    const round_no next = called_of(mean) + 1;
    mean.partial->fragments.front().offers->offer(static_cast<const std::byte*>(weights), next);
    call(mean, next);
    stage_ = stage::taken;
  }
  if (const call_progress now = await(mean, called_of(mean)); now.answer != status::ok) return now;
  const auto got = mean.partial->fragments.front().results->collect(static_cast<std::byte*>(weights));
  if (!got) return {.answer = status::internal, .awaited = &mean, .reason = "the round has no result"};
  const buffer& data = contribution_buffer();
  find_divide(data.type)(weights, weights, data.count, got->contributors);
  *report = report_of(std::nullopt);
  report->what.contributors = got->contributors;
  stage_ = stage::none;
  return {};
}

// --- the end ---------------------------------------------------------------------------------------------------------

void session::leave() {
  if (groups_ != nullptr) groups_->leave();
  for (instance* one : {all_.rounds, all_.agreement, all_.mean}) {
    if (one == nullptr || (groups_ != nullptr && one == all_.rounds)) continue;
    for (const fragment_queues& each : one->partial->fragments)
      each.offers->leave();  // must precede the call: the round that the call starts must see the departure
    call_for(*one, k_last_round);
    engine_->post(*one);
  }
}

call_progress session::drain() const {
  if (groups_ != nullptr && *groups_->removable_control() != nullptr)
    if (const call_progress now = await(groups_->control(), k_last_round); now.answer == status::pending) return now;
  for (const instance* one : {all_.rounds, all_.agreement, all_.mean}) {
    if (one == nullptr) continue;  // an earlier call has removed the instance, or it was never created
    if (const call_progress now = await(*one, k_last_round); now.answer == status::pending) return now;
  }
  return {};
}

}  // namespace lsched
