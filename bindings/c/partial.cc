// Partial collectives of the C interface: creation, offers, collect calls, and the calls that all ranks make together
// (libsched/session/session.h).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/requests/partial_request.h"
#include "offload/open/growth.h"
#include "ops/counted.h"

namespace lsched {
namespace {

// --- creation ----------------------------------------------------------------------------------------------

/// Reads the activation. Returns UNSUPPORTED if the activation needs a progress thread that this process cannot have.
result<activation> read_start(const lsched_world& world, const lsched_partial_desc& desc) {
  const auto starts = read_activation(desc.activation, desc.seed);
  if (starts && starts->is_woken() && world.process.wants_thread() && !world.process.has_thread())
    return failure{status::unsupported, words_for(*starts) +
                                            " needs a progress thread that calls MPI, which requires "
                                            "MPI_THREAD_MULTIPLE. Initialise MPI with this level, "
                                            "or set progress to LSCHED_PROGRESS_CALLER and call lsched_progress often"};
  return starts;
}

result<lag_policy> read_lag(lsched_lag lag) {
  if (!is_within(lag, LSCHED_LATEST, LSCHED_HISTORY))
    return argument("lag is not an lsched_lag: use LSCHED_LATEST, LSCHED_ACCUMULATE or LSCHED_HISTORY");
  return static_cast<lag_policy>(lag);
}

result<divisor> read_partial_divisor(lsched_divisor by) {
  if (!is_within(by, LSCHED_DIVIDE_BY_NONE, LSCHED_DIVIDE_BY_OFFERS))
    return argument("divisor is not an lsched_divisor: use LSCHED_DIVIDE_BY_NONE, _RANKS, _CONTRIBUTORS or _OFFERS");
  return static_cast<divisor>(by);
}

result<age_rule> read_age(const lsched_partial_desc& desc) {
  if (!is_within(desc.age, LSCHED_AGE_NONE, LSCHED_AGE_INVERSE))
    return argument("age is not an lsched_age: use LSCHED_AGE_NONE, LSCHED_AGE_TABLE or LSCHED_AGE_INVERSE");
  const bool is_table = desc.age == LSCHED_AGE_TABLE;
  if (is_table != (desc.age_count > 0) || is_table != (desc.age_factors != nullptr))
    return argument(
        "LSCHED_AGE_TABLE needs age_factors and age_count, and other ages have no table: set all of these "
        "three members, or leave age_factors null and age_count 0");
  age_rule read{.is_inverse = desc.age == LSCHED_AGE_INVERSE};
  if (!is_table) return read;
  read.factors.assign(desc.age_factors, desc.age_factors + desc.age_count);
  if (read.factors.front() != 1)
    return argument("age_factors[0] is " + std::to_string(read.factors.front()) +
                    ", but a contribution of age 0 is not scaled: set age_factors[0] to 1");
  const auto is_bad = [](double factor) { return !(std::isfinite(factor) && factor >= 0); };
  if (const auto bad = std::ranges::find_if(read.factors, is_bad); bad != read.factors.end())
    return argument("age_factors[" + std::to_string(bad - read.factors.begin()) + "] is " + std::to_string(*bad) +
                    ": give factors that are finite and not negative");
  return read;
}

/// Reads the desc. Returns ARGUMENT if an array of the desc is in device memory.
result<partial_request> read_request(const lsched_world& world, const lsched_partial_desc& desc) {
  if (auto why =
          first_on_device({{"buckets", desc.buckets}, {"tensors", desc.tensors}, {"age_factors", desc.age_factors}}))
    return *why;
  return partial_request{.what = {.collective = view_of(desc.collective),
                                  .algorithm = view_of(desc.algorithm),
                                  .count = desc.count,
                                  .type = read_dtype(desc.dtype),
                                  .reduction = read_optional_reduction(desc.reduction),
                                  .tensors = read_tensors(desc.tensors, desc.tensor_count),
                                  .buckets = read_buckets(desc.buckets, desc.bucket_count),
                                  .starts = read_start(world, desc),
                                  .elements = view_of(desc.elements)},
                         .lag = read_lag(desc.lag),
                         .history = desc.history,
                         .divided_by = read_partial_divisor(desc.divisor),
                         .averages_weights = desc.averages_weights,
                         .age = read_age(desc),
                         .fragments = desc.fragments};
}

creation creation_of(planned_partial made, lag_rule lag) {
  return {.request = {.agreement = std::move(made.agreement),
                      .program = std::move(made.program),
                      .options = {.lag = lag},
                      .companions = std::move(made.companions)}};
}

result<creation> creation_of(const partial_plan& valid, result<planned_partial> made) {
  if (!made) return made.error();
  creation all = creation_of(std::move(*made), valid.lag);
  all.request.options.tensors = valid.data.tensors;
  all.request.options.age = valid.age;
  all.request.options.fragments = valid.fragments;
  return all;
}

/// If `joins` is true, describes the schedule that the other ranks carry to the world.
result<creation> describe_dense(lsched_world& world, const partial_request& request, bool joins) {
  const auto valid = validate(request);
  if (!valid) return valid.error();
  schedule_cache& schedules = world.schedules_made;
  auto made = creation_of(*valid, joins ? valid->make_for_survivors(schedules) : valid->make(schedules));
  if (made) made->extras.has_weights = valid->data.what == kernel::sum && !valid->kind->adapts;
  if (made && valid->survives_ranks())
    made->extras.anew = [valid = *valid](lsched_world& survivors) {
      return creation_of(valid, valid.make_for_survivors(survivors.schedules_made));
    };
  return made;
}

result<creation> describe_sparse(lsched_world& world, const partial_request& request, const lsched_sparse_desc* desc) {
  const auto known = read_struct(desc);
  if (!known) return known.error();
  const auto sparse = read_sparse(world.place(), *known);
  if (!sparse) return sparse.error();
  planned_sparse choice;
  auto made = plan(request, *sparse, world.schedules_made, &choice);
  if (!made) return made.error();
  creation all = creation_of(std::move(*made), lag_of(request));
  all.request.options.local = std::move(choice.steps);
  all.extras.residual = std::move(choice.state);
  return all;
}

/// Describes the data schedule of replica groups, in which every rank takes part in each round.
result<creation> describe_in_groups(lsched_world& world, const partial_request& request,
                                    const lsched_partial_desc& desc) {
  auto valid = validate(request);
  if (!valid) return valid.error();
  const auto groups = read_groups(world, desc, valid->starts);
  if (!groups) return groups.error();
  valid->starts = {.policy = activation_policy::full};
  valid->lag = lag_policy::latest;
  auto made = creation_of(*valid, valid->make(world.schedules_made));
  if (!made) return made.error();
  made->extras.has_weights = valid->data.what == kernel::sum;
  made->groups = *groups;
  made->session = session_choice{*request.divided_by, *request.what.buckets};
  return made;
}

result<creation> describe(lsched_world& world, const lsched_partial_desc& desc, bool joins = false) {
  const auto request = read_request(world, desc);
  if (!request) return request.error();
  if (desc.groups != nullptr) return describe_in_groups(world, *request, desc);
  auto made =
      desc.sparse != nullptr ? describe_sparse(world, *request, desc.sparse) : describe_dense(world, *request, joins);
  if (made) made->session = session_choice{*request->divided_by, *request->what.buckets};
  return made;
}

lsched_status create_partial(lsched_world* world, const result<lsched_partial_desc>& desc, lsched_schedule** schedule,
                             lsched_diagnostic* diagnostic) {
  look_for_gpu();
  if (world != nullptr && desc && desc->groups != nullptr)
    if (const auto groups = read_struct(desc->groups); groups && groups->all != nullptr)
      return commit_groups(*world, *groups->all, describe(*world, *desc), schedule, diagnostic);
  return create(world, schedule, diagnostic,
                [&](lsched_world& w) { return desc ? describe(w, *desc) : result<creation>(desc.error()); });
}

/// Joins the schedule that the other members carry to the world. If the desc is invalid, the call fails on all ranks.
lsched_status join_partial(lsched_world& world, const result<lsched_partial_desc>& desc, lsched_schedule** schedule,
                           lsched_diagnostic* diagnostic) {
  look_for_gpu();
  auto made = desc ? describe(world, *desc, true) : result<creation>(desc.error());
  if (desc && desc->groups != nullptr)
    made = failure{status::unsupported, "no rank can join a schedule with replica groups: leave groups null"};
  if (made && made->extras.anew == nullptr)
    made = failure{status::unsupported,
                   "lsched_carry moves only allreduce and adasum, so no rank can join another schedule: create the "
                   "schedule on all ranks"};
  if (schedule == nullptr) made = argument("schedule is null");
  if (made) made->request.proof = proof_of(world, *made);
  auto handle = std::make_unique<lsched_schedule>();
  queued_commit queued;
  const auto ranks = world.joined.join(made ? result<commit_request>(made->request) : made.error(), &queued);
  if (!ranks) return report(diagnostic, with_details_of_rank(world, ranks.error()));
  fill(*handle, world, queued, *made, *ranks);
  *schedule = handle.release();
  return LSCHED_OK;
}

// --- calls -------------------------------------------------------------------------------------------------

bool is_partial(const lsched_schedule* schedule) { return schedule != nullptr && schedule->is_partial(); }

constexpr const char k_no_ticket[] = "the ticket is not from a partial schedule: pass a ticket from lsched_offer";
constexpr const char k_no_schedule[] =
    "the schedule is not partial: this call needs a schedule from lsched_partial_create";

lsched_report report_of(const collect_report& report, const void* in_place) {
  const delivered& result = report.what;
  return {.last = {.round = result.to,
                   .contributors = result.contributors,
                   .offers = result.last_offers,
                   .ranks = result.ranks},
          .from = result.from,
          .to = result.to,
          .round = report.round,
          .offers = result.offers,
          .mine = result.mine,
          .staleness = result.staleness,
          .has_result = result.null ? 0 : 1,
          .result = in_place,
          .age_factor = result.age_factor,
          .groups = result.groups,
          .fragment = report.fragment};
}

/// Decides a pending cast of the growth of the schedule's world. All ranks must take part in a common call, so this
/// rank must not be admitted to a larger world meanwhile. Subtracts the time of the wait from *timeout_ns.
lsched_status decide_growth(lsched_schedule* schedule, std::uint64_t* timeout_ns, lsched_diagnostic* diagnostic) {
  if (!is_partial(schedule) || schedule->world->growing == nullptr) return LSCHED_OK;
  return guarded(diagnostic, [&] {
    const auto begin = driver::clock::now();
    const auto why = schedule->world->growing->decide(deadline_after(*timeout_ns));
    const auto taken = static_cast<std::uint64_t>((driver::clock::now() - begin) / std::chrono::nanoseconds(1));
    if (*timeout_ns != LSCHED_FOREVER) *timeout_ns -= std::min(*timeout_ns, taken);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

/// Repeats `call` on the schedule's session until the call is done, and fills in *report_to unless `report_to` is null.
/// `call` sets a pointer for lsched_report::result, or leaves the pointer null. `wanted` is the error text for a
/// schedule that has no session.
template <class Call>
lsched_status call_session(lsched_schedule* schedule, const char* wanted, std::uint64_t timeout_ns,
                           lsched_report* report_to, lsched_diagnostic* diagnostic, const Call& call) {
  if (!is_partial(schedule)) return report(diagnostic, {static_cast<status>(refuse(schedule)), wanted});
  if (report_to != nullptr && !is_there(report_to)) return report(diagnostic, refusal_of(report_to));
  return guarded(diagnostic, [&] {
    collect_report report;
    const void* in_place = nullptr;
    const auto once = [&] { return call(*schedule->session, &report, &in_place); };
    if (const lsched_status why = complete(*schedule, timeout_ns, diagnostic, once); why != LSCHED_OK) return why;
    if (report_to != nullptr) write_struct(report_to, report_of(report, in_place));
    return LSCHED_OK;
  });
}

/// Reports that schedules with replica groups do not support a call.
lsched_status refuse_in_groups(const lsched_schedule& schedule, const char* call) {
  return report(kept_diagnostic(), {status::unsupported, schedule.instance->label + ": replica groups do not support " +
                                                             call + ": call lsched_flush instead"});
}

/// Reports the failure `answer` of an offer to lsched_last_failure(), and returns the status of that failure.
lsched_status explain_offer(const lsched_schedule& schedule, status answer) {
  if (answer == status::busy)
    return report(kept_diagnostic(),
                  {answer, schedule.instance->label + ": as many offers as groups.staged were not collected: collect a "
                                                      "ticket before the next offer, or set a larger groups.staged"});
  if (answer == status::state) return refuse(&schedule, schedule.session->why_no_offer(), kept_diagnostic());
  return explain_start(schedule, *schedule.instance, answer);
}

lsched_status refuse_offer(const lsched_schedule* schedule) {
  return refuse(schedule, "only partial schedules accept offers: create the schedule with lsched_partial_create",
                kept_diagnostic());
}

lsched_status refuse_weight(const lsched_schedule& schedule, std::uint64_t weight) {
  return report(kept_diagnostic(),
                {status::unsupported, schedule.instance->label + " cannot take the weight " + std::to_string(weight) +
                                          ", because only LSCHED_SUM of dense vectors has weights: "
                                          "give the weight 1, or create an allreduce"});
}

lsched_status deposit(lsched_schedule& schedule, const session::weighted& one, lsched_ticket* ticket) {
  if (one.weight > 1 && !schedule.extras.has_weights) return refuse_weight(schedule, one.weight);
  round_no round = 0;
  const status answer = offer(schedule.world->process.driver(), *schedule.session, one, &round);
  if (answer == status::ok) *ticket = {&schedule, round};
  return explain_offer(schedule, answer);
}

/// The error text for device memory, which is refused because the host copies contributions and results.
constexpr const char k_on_device[] = "a partial schedule's data cannot be in device memory: pass host memory";
constexpr const char k_no_bucket[] =
    "the pointer to a bucket is null, but the bucket has elements: pass the bucket's memory";

/// Returns whether any bucket is in device memory. Returns false if `buckets` is null, or the schedule is not partial.
bool is_any_bucket_on_device(const lsched_schedule* schedule, const void* const* buckets) {
  return is_partial(schedule) && is_any_on_device(buckets, schedule->session->number_of_parts());
}

/// Offers a contribution to a fragment; without a number, to the fragment of the next round.
lsched_status offer_to(lsched_schedule* schedule, std::optional<std::uint32_t> fragment, const void* const* buckets,
                       std::uint64_t weight, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (ticket == nullptr) return report(kept_diagnostic(), argument("ticket is null"));
  if (is_any_bucket_on_device(schedule, buckets)) return report(kept_diagnostic(), {status::unsupported, k_on_device});
  std::span<const source_part> parts;
  if (buckets != nullptr && schedule->session->parts_of(buckets, &parts) != status::ok)
    return report(kept_diagnostic(), argument(k_no_bucket));
  return deposit(*schedule, {parts, weight, fragment}, ticket);
}

/// Runs `call` on the session, and passes the caller's memory for the buckets of a result. Without memory, the call
/// drops the result. Returns UNSUPPORTED for device memory.
template <class Call>
lsched_status call_over(lsched_schedule* schedule, const char* wanted, void* const* buckets, std::uint64_t timeout_ns,
                        lsched_report* report_to, lsched_diagnostic* diagnostic, const Call& call) {
  if (is_any_bucket_on_device(schedule, buckets)) return report(diagnostic, {status::unsupported, k_on_device});
  return call_session(schedule, wanted, timeout_ns, report_to, diagnostic,
                      [&](session& one, collect_report* into, const void**) -> call_progress {
                        std::span<const target_part> parts;
                        if (buckets != nullptr && one.parts_of(buckets, &parts) != status::ok)
                          return {.answer = status::argument, .reason = k_no_bucket};
                        return call(one, parts, into);
                      });
}

/// Collects a result without a copy. During an incomplete flush or model_sync, drops the result.
call_progress collect_in_place(session& one, round_no round, const void** result, collect_report* into) {
  if (one.is_in_common_call()) return one.collect(round, {}, into);
  const std::byte* data = nullptr;
  const call_progress made = one.collect_view(round, &data, into);
  *result = data;
  return made;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_partial_create(lsched_world* world, const lsched_partial_desc* desc, lsched_schedule** schedule,
                                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] { return create_partial(world, read_struct(desc), schedule, diagnostic); });
}

lsched_status lsched_partial_join(lsched_world* world, const lsched_partial_desc* desc, lsched_schedule** schedule,
                                  lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, argument("world is null"));
    return join_partial(*world, read_struct(desc), schedule, diagnostic);
  });
}

lsched_status lsched_offer(lsched_schedule* schedule, const void* const* buckets, lsched_ticket* ticket) {
  return lsched_offer_weighted(schedule, buckets, 1, ticket);
}

lsched_status lsched_offer_weighted(lsched_schedule* schedule, const void* const* buckets, uint64_t weight,
                                    lsched_ticket* ticket) {
  return offer_to(schedule, std::nullopt, buckets, weight, ticket);
}

lsched_status lsched_offer_fragment(lsched_schedule* schedule, uint32_t fragment, const void* const* buckets,
                                    uint64_t weight, lsched_ticket* ticket) {
  if (is_partial(schedule) && fragment >= schedule->session->number_of_fragments())
    return report(kept_diagnostic(),
                  argument("fragment " + std::to_string(fragment) + " does not exist: the schedule has " +
                           counted(schedule->session->number_of_fragments(), "fragment") + ", numbered from 0"));
  return offer_to(schedule, fragment, buckets, weight, ticket);
}

lsched_status lsched_offer_bucket(lsched_schedule* schedule, uint32_t index, const void* bucket) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (is_on_device(bucket)) return report(kept_diagnostic(), {status::unsupported, k_on_device});
  const status answer = schedule->session->prepare(index, bucket);
  if (answer != status::argument) return explain_offer(*schedule, answer);
  return report(
      kept_diagnostic(),
      argument("bucket " + std::to_string(index) + " does not exist, or its memory is null: the schedule has " +
               counted(schedule->session->number_of_parts(), "bucket") + ", numbered from 0"));
}

lsched_status lsched_offer_end(lsched_schedule* schedule, lsched_ticket* ticket) {
  return lsched_offer_end_weighted(schedule, 1, ticket);
}

lsched_status lsched_offer_end_weighted(lsched_schedule* schedule, uint64_t weight, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (ticket == nullptr) return report(kept_diagnostic(), argument("ticket is null"));
  session& one = *schedule->session;
  if (weight > 1 && !schedule->extras.has_weights) return refuse_weight(*schedule, weight);
  round_no round = 0;
  const std::uint64_t copied = weight > 1 ? one.contribution_buffer().bytes() : 0;
  const status answer = offer_by(schedule->world->process.driver(), copied,
                                 [&](bool* is_posted) { return one.offer_prepared(weight, &round, is_posted); });
  if (answer == status::ok) *ticket = {schedule, round};
  return explain_offer(*schedule, answer);
}

lsched_status lsched_skip(lsched_schedule* schedule, uint64_t last, uint64_t* skipped) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  std::uint64_t rounds = 0;
  const status answer = schedule->session->skip(last, &rounds);
  if (answer == status::ok && skipped != nullptr) *skipped = rounds;
  return explain_offer(*schedule, answer);
}

lsched_status lsched_pending_load(lsched_schedule* schedule, const void* image, size_t bytes) {
  if (image == nullptr)
    return fail(status::argument, "image is null: pass an image that lsched_schedule_save has written");
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (schedule->has_groups()) return refuse_in_groups(*schedule, "images of pending offers");
  return guarded(kept_diagnostic(), [&] {
    const auto why = schedule->session->load_pending({static_cast<const std::byte*>(image), bytes});
    return why ? report(kept_diagnostic(), *why) : LSCHED_OK;
  });
}

lsched_status lsched_collect(lsched_ticket ticket, void* const* buckets, uint64_t timeout_ns, lsched_report* report_to,
                             lsched_diagnostic* diagnostic) {
  if (buckets == nullptr && report_to != nullptr)
    return call_session(ticket.schedule, k_no_ticket, timeout_ns, report_to, diagnostic,
                        [&](session& one, collect_report* into, const void** result) {
                          return collect_in_place(one, ticket.round, result, into);
                        });
  return call_over(ticket.schedule, k_no_ticket, buckets, timeout_ns, report_to, diagnostic,
                   [&](session& one, std::span<const target_part> parts, collect_report* into) {
                     return one.collect(ticket.round, parts, into);
                   });
}

lsched_status lsched_withdraw(lsched_schedule* schedule, uint64_t* offers) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (schedule->has_groups()) return refuse_in_groups(*schedule, "lsched_withdraw");
  std::uint64_t taken = 0;
  const status answer = schedule->session->withdraw(&taken);
  if (answer == status::ok && offers != nullptr) *offers = taken;
  return explain_offer(*schedule, answer);
}

lsched_status lsched_flush(lsched_schedule* schedule, void* const* buckets, uint64_t timeout_ns,
                           lsched_report* report_to, lsched_diagnostic* diagnostic) {
  if (const lsched_status why = decide_growth(schedule, &timeout_ns, diagnostic); why != LSCHED_OK) return why;
  return call_over(
      schedule, k_no_schedule, buckets, timeout_ns, report_to, diagnostic,
      [](session& one, std::span<const target_part> parts, collect_report* into) { return one.flush(parts, into); });
}

lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns, lsched_report* report_to,
                                lsched_diagnostic* diagnostic) {
  if (is_partial(schedule) && is_on_device(weights)) return report(diagnostic, {status::unsupported, k_on_device});
  if (const lsched_status why = decide_growth(schedule, &timeout_ns, diagnostic); why != LSCHED_OK) return why;
  return call_session(schedule, k_no_schedule, timeout_ns, report_to, diagnostic,
                      [&](session& one, collect_report* into, const void**) -> call_progress {
                        const bool may_be_null = !one.averages_weights() || one.contribution_buffer().count == 0;
                        if (weights == nullptr && !may_be_null)
                          return {.answer = status::argument, .reason = "weights is null"};
                        return one.model_sync(weights, into);
                      });
}

lsched_status lsched_leave(lsched_schedule* schedule) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (schedule->has_groups()) return refuse_in_groups(*schedule, "lsched_leave");
  leave(schedule->world->process.driver(), *schedule->session);
  return LSCHED_OK;
}

}  // extern "C"
