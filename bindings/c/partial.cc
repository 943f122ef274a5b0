// Partial collectives of the C interface: creation, offers, collect calls, and the calls that all ranks make together
// (libsched/session/session.h).
#include <algorithm>
#include <span>
#include <vector>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

// --- creation ----------------------------------------------------------------------------------------------

/// Returns the name of the collective, without its activation.
std::string_view collective_of(const lsched_partial_desc& desc) {
  return desc.collective == nullptr ? k_allreduce.name : desc.collective;
}

bool is_divided(const lsched_partial_desc& desc) { return desc.divisor != LSCHED_DIVIDE_BY_NONE; }

lag_rule lag_of(const lsched_partial_desc& desc) {
  return {static_cast<lag_policy>(desc.lag), std::max(desc.history, 1u)};
}

std::optional<failure> validate_lag(const lsched_partial_desc& desc) {
  const bool is_history = desc.lag == LSCHED_HISTORY;
  const bool is_latest = desc.lag == LSCHED_LATEST;
  const bool is_sum = desc.reduction == LSCHED_SUM;
  return first_broken(
      {{!is_within(desc.lag, LSCHED_LATEST, LSCHED_HISTORY), "lag is not an lsched_lag"},
       {is_history && (desc.history < 1 || desc.history > lag_rule::k_most), "history is not from 1 to 60"},
       {!is_history && desc.history != 0, "only LSCHED_HISTORY has a history: leave it 0"},
       {!is_within(desc.divisor, LSCHED_DIVIDE_BY_NONE, LSCHED_DIVIDE_BY_OFFERS), "divisor is not an lsched_divisor"},
       {is_divided(desc) && !is_sum, "only sums are divided: leave divisor 0"},
       {desc.divisor == LSCHED_DIVIDE_BY_CONTRIBUTORS && !is_latest,
        "with a lag other than LSCHED_LATEST, a result may be of several rounds with different contributors: "
        "divide by ranks or by offers"},
       {collective_of(desc) == k_allgather.name && !is_latest && !is_sum,
        "results of an allgather, zero for absent ranks, can only be added up: use LSCHED_SUM or LSCHED_LATEST"}});
}

result<activation> read_start(const lsched_world& world, const lsched_partial_desc& desc) {
  const auto starts = read_activation(desc.activation, desc.seed);
  if (!starts) return starts.error();
  if (auto why = validate_lag(desc)) return *why;
  if (starts->is_woken() && world.process.wants_thread() && !world.process.has_thread())
    return failure{status::unsupported,
                   words_for(*starts) +
                       " needs a progress thread that calls MPI, which requires MPI_THREAD_MULTIPLE; "
                       "or set progress to LSCHED_PROGRESS_CALLER and drive the rounds by your own calls"};
  return starts;
}

std::string text_of(const activation& starts) {
  return " " + words_for(starts) + " seed " + std::to_string(starts.seed);
}

result<shape> read_partial_shape(const collective& kind, const lsched_partial_desc& desc) {
  auto data = read_shape(kind, desc.count, desc.dtype, desc.reduction);
  if (!data) return data;
  const bool averages = desc.averages_weights != 0;
  const bool is_float_sum = (desc.dtype == LSCHED_F32 || desc.dtype == LSCHED_F64) && desc.reduction == LSCHED_SUM;
  if (auto why = first_broken(
          {{(desc.tensors == nullptr) != (desc.tensor_count == 0), "tensors and tensor_count: set both, or none"},
           {(desc.buckets == nullptr) != (desc.bucket_count == 0), "buckets and bucket_count: set both, or none"},
           {averages && (desc.averages_weights != 1 || !is_float_sum),
            "averages_weights must be 0, or 1 for sums of f32 or f64"},
           {is_divided(desc) && kind.adapts, "an adaptive sum cannot be divided: leave divisor 0"},
           {averages && &kind != &k_partial_allreduce, "averages_weights: only an allreduce can average weights"}}))
    return *why;
  if (auto why = first_on_device({{"buckets", desc.buckets}, {"tensors", desc.tensors}})) return *why;
  for (const lsched_tensor& one : std::span(desc.tensors, desc.tensor_count))
    data->tensors.push_back({one.begin, one.count});
  data->buckets.assign(desc.buckets, desc.buckets + desc.bucket_count);
  return data;
}

std::string text_of_buckets(const shape& data) {
  std::string text;
  for (const std::uint64_t count : data.buckets)
    text += (text.empty() ? " in " + std::to_string(data.buckets.size()) + " buckets " : "+") + std::to_string(count);
  return text;
}

/// Adds a companion to a partial schedule: a schedule that waits for every rank that has not left. The agreement text
/// names its purpose and its algorithm.
std::optional<failure> add_companion(lsched_world& world, creation& to, const char* purpose, const shape& data) {
  const auto made = world.schedules_made.get("partial_allreduce", "auto", data, {.policy = activation_policy::full});
  if (!made) return made.error();
  to.request.companions.push_back({purpose, made->program});
  to.request.agreement += std::string(" with ") + purpose + " by " + std::string(made->chosen.how->name);
  return std::nullopt;
}

/// Adds the companions of a session: a schedule by which ranks agree on a round, and, if `weights` is given, a schedule
/// that averages weights of that shape.
std::optional<failure> add_companions(lsched_world& world, creation& to, const std::optional<shape>& weights) {
  auto why = add_companion(world, to, "agreement", {.count = 1, .type = dtype::u64, .what = kernel::max});
  if (!why && weights) why = add_companion(world, to, "mean", *weights);
  return why;
}

std::optional<shape> weights_of(const lsched_partial_desc& desc) {
  if (desc.averages_weights == 0) return std::nullopt;
  return *read_shape(desc.count, desc.dtype, desc.reduction);
}

/// The request of a partial schedule that is not sparse, independent of a world.
struct dense_request {
  const collective* kind;
  std::string algorithm;
  shape data;
  activation starts;
  lag_rule lag;
  std::optional<shape> weights;  ///< shape of the weights that lsched_model_sync averages; not set: lsched_model_sync
                                 ///< is not allowed
  std::string elements;          ///< text of lsched_partial_desc::elements

  result<creation> make(lsched_world& world) const;
  result<creation> make_for_survivors(lsched_world& world) const;
  /// Returns whether the schedule can be carried to survivors: all ranks have the same result, and its length does not
  /// depend on the number of ranks.
  bool survives_ranks() const { return kind == &k_partial_allreduce || kind == &k_partial_adasum; }
};

result<creation> dense_request::make(lsched_world& world) const {
  const auto made = world.schedules_made.get(kind->name, algorithm, data, starts);
  if (!made) return made.error();
  creation all{{agreement_of(*kind, data, made->chosen.how->name, elements) + text_of(starts) +
                    (weights ? " averages" : "") + text_of_buckets(data),
                made->program,
                {},
                {.lag = lag, .tensors = data.tensors}}};
  if (auto why = add_companions(world, all, weights)) return std::move(*why);
  return all;
}

result<creation> dense_request::make_for_survivors(lsched_world& world) const {
  dense_request of_fewer = *this;
  of_fewer.starts = among(starts, world.place().size);
  return of_fewer.make(world);
}

result<creation> describe_dense(lsched_world& world, const lsched_partial_desc& desc) {
  const std::string name = "partial_" + std::string(collective_of(desc));
  const collective* const kind = find_collective(name);
  if (kind == nullptr)
    return argument(
        "\"" + std::string(collective_of(desc)) +
        "\" has no partial form: choose allreduce, reduce_scatter_block, allgather, adasum, or sparse_allreduce "
        "with a desc of its own");
  const auto data = read_partial_shape(*kind, desc);
  if (!data) return data.error();
  const auto starts = read_start(world, desc);
  if (!starts) return starts.error();
  const dense_request request{kind,
                              desc.algorithm == nullptr ? "auto" : desc.algorithm,
                              *data,
                              *starts,
                              lag_of(desc),
                              weights_of(desc),
                              desc.elements == nullptr ? "" : desc.elements};
  auto made = request.make(world);
  if (made && request.survives_ranks())
    made->extras.anew = [request](lsched_world& survivors) { return request.make_for_survivors(survivors); };
  return made;
}

/// Returns ARGUMENT if another member of the desc contradicts its member `sparse`.
std::optional<failure> validate_sparse(const lsched_partial_desc& desc, const lsched_sparse_desc& sparse) {
  if (desc.collective != nullptr && desc.collective != std::string_view("sparse_allreduce"))
    return argument("sparse: \"" + std::string(desc.collective) + "\" is not sparse_allreduce");
  return first_broken(
      {{sparse.count != desc.count || sparse.dtype != desc.dtype, "needs the count and dtype of the partial desc"},
       {sparse.gradient != nullptr || sparse.update != nullptr,
        "that is partial owns its memory: leave gradient and update NULL"},
       {desc.algorithm != nullptr, "takes its algorithm from its own desc: leave algorithm NULL"},
       {desc.reduction != LSCHED_SUM, "is a sum: set reduction to LSCHED_SUM"},
       {is_divided(desc), "divides by the ranks itself: leave divisor 0"},
       {desc.buckets != nullptr || desc.bucket_count != 0, "has no buckets"},
       {desc.tensors != nullptr || desc.tensor_count != 0, "has no tensors"},
       {sparse.nans == LSCHED_NAN_ERROR, "that is partial cannot refuse rounds: do not set LSCHED_NAN_ERROR"},
       {desc.averages_weights != 0, "averages no weights: leave averages_weights 0"},
       {desc.elements != nullptr && *desc.elements != 0, "is of real numbers: leave elements NULL"}},
      "a sparse allreduce ");
}

result<creation> describe_sparse(lsched_world& world, const lsched_partial_desc& desc) {
  const auto sparse = read_struct(desc.sparse);
  if (!sparse) return sparse.error();
  if (auto why = validate_sparse(desc, *sparse)) return *why;
  const auto starts = read_start(world, desc);
  if (!starts) return starts.error();
  auto request = read_request(world.place(), *sparse);
  if (!request) return request.error();
  creation made{{"partial_" + request->agreement + text_of(*starts),
                 partial_sparse_allreduce(*request->how, request->problem, *starts),
                 {},
                 {.lag = lag_of(desc), .local = std::move(request->steps)}},
                {.residual = std::move(request->state)}};
  if (!made.request.program) return made;
  if (auto why = add_companions(world, made, std::nullopt)) return std::move(*why);
  return made;
}

result<creation> describe(lsched_world& world, const lsched_partial_desc& desc) {
  auto made = desc.sparse != nullptr ? describe_sparse(world, desc) : describe_dense(world, desc);
  if (made)
    made->session =
        session_choice{static_cast<divisor>(desc.divisor), {desc.buckets, desc.buckets + desc.bucket_count}};
  return made;
}

lsched_status create_partial(lsched_world* world, const result<lsched_partial_desc>& desc, lsched_schedule** schedule,
                             lsched_diagnostic* diagnostic) {
  look_for_gpu();
  return create(world, schedule, diagnostic,
                [&](lsched_world& w) { return desc ? describe(w, *desc) : result<creation>(desc.error()); });
}

// --- calls -------------------------------------------------------------------------------------------------

bool is_partial(const lsched_schedule* schedule) { return schedule != nullptr && schedule->is_partial(); }

constexpr const char k_no_ticket[] = "the ticket is not from a partial schedule";
constexpr const char k_no_schedule[] = "the schedule is not partial";

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
          .result = in_place};
}

/// Makes a call of the schedule's session, waits until the call is done, and fills in the report if the caller wants
/// one. The call sets a pointer for lsched_report::result, or leaves it null. `wanted` is the error text for a schedule
/// without session.
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

/// Reports a failed offer to lsched_last_failure(), and returns its status.
lsched_status explain_offer(const lsched_schedule& schedule, status answer) {
  if (answer == status::state) return refuse(&schedule, schedule.session->why_no_offer(), kept_diagnostic());
  return explain_start(schedule, *schedule.instance, answer);
}

lsched_status refuse_offer(const lsched_schedule* schedule) {
  return refuse(schedule, "only partial schedules accept offers", kept_diagnostic());
}

lsched_status deposit(lsched_schedule& schedule, std::span<const source_part> contribution, lsched_ticket* ticket) {
  round_no round = 0;
  const status answer = offer(schedule.world->process.driver(), *schedule.session, contribution, &round);
  if (answer == status::ok) *ticket = {&schedule, round};
  return explain_offer(schedule, answer);
}

/// The error text for device memory, which is refused because the host copies contributions and results.
constexpr const char k_on_device[] = "a partial schedule's data cannot be in device memory";
constexpr const char k_no_bucket[] = "the pointer to a bucket with elements is null";

/// Returns whether any bucket is in device memory. False if `buckets` is null, or the schedule is not partial.
bool is_any_bucket_on_device(const lsched_schedule* schedule, const void* const* buckets) {
  return is_partial(schedule) && is_any_on_device(buckets, schedule->session->number_of_parts());
}

/// Makes a session's call, with the caller's memory for the buckets of a result. Without memory, the call drops the
/// result. Returns UNSUPPORTED for device memory.
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

lsched_status lsched_offer(lsched_schedule* schedule, const void* const* buckets, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (ticket == nullptr) return report(kept_diagnostic(), argument("ticket is null"));
  if (is_any_bucket_on_device(schedule, buckets)) return report(kept_diagnostic(), {status::unsupported, k_on_device});
  std::span<const source_part> parts;
  if (buckets != nullptr && schedule->session->parts_of(buckets, &parts) != status::ok)
    return report(kept_diagnostic(), argument(k_no_bucket));
  return deposit(*schedule, parts, ticket);
}

lsched_status lsched_offer_bucket(lsched_schedule* schedule, uint32_t index, const void* bucket) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (is_on_device(bucket)) return report(kept_diagnostic(), {status::unsupported, k_on_device});
  const status answer = schedule->session->prepare(index, bucket);
  if (answer != status::argument) return explain_offer(*schedule, answer);
  return report(kept_diagnostic(),
                argument("bucket " + std::to_string(index) + " does not exist, or its memory is null"));
}

lsched_status lsched_offer_end(lsched_schedule* schedule, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse_offer(schedule);
  if (ticket == nullptr) return report(kept_diagnostic(), argument("ticket is null"));
  round_no round = 0;
  const status answer = offer_by(schedule->world->process.driver(), 0,
                                 [&](bool* is_posted) { return schedule->session->offer_prepared(&round, is_posted); });
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
  if (image == nullptr) return fail(status::argument, "image is null");
  if (!is_partial(schedule)) return refuse_offer(schedule);
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
  std::uint64_t taken = 0;
  const status answer = schedule->session->withdraw(&taken);
  if (answer == status::ok && offers != nullptr) *offers = taken;
  return explain_offer(*schedule, answer);
}

lsched_status lsched_flush(lsched_schedule* schedule, void* const* buckets, uint64_t timeout_ns,
                           lsched_report* report_to, lsched_diagnostic* diagnostic) {
  return call_over(
      schedule, k_no_schedule, buckets, timeout_ns, report_to, diagnostic,
      [](session& one, std::span<const target_part> parts, collect_report* into) { return one.flush(parts, into); });
}

lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns, lsched_report* report_to,
                                lsched_diagnostic* diagnostic) {
  if (is_partial(schedule) && is_on_device(weights)) return report(diagnostic, {status::unsupported, k_on_device});
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
  leave(schedule->world->process.driver(), *schedule->session);
  return LSCHED_OK;
}

}  // extern "C"
