#include "collectives/requests/partial_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "collectives/requests/agreement.h"
#include "ops/rules.h"

namespace lsched {
namespace {

/// Returns the name of the collective, without "partial_".
std::string_view collective_of(const partial_request& request) {
  return request.what.collective.data() == nullptr ? k_allreduce.name : request.what.collective;
}

bool is_sum(const collective_request& what) { return what.reduction && *what.reduction == kernel::sum; }
bool is_divided(const partial_request& request) { return !request.divided_by || *request.divided_by != divisor::none; }

constexpr std::uint32_t k_most_fragments = 1024;

std::optional<failure> validate_lag(const partial_request& request) {
  if (!request.lag) return request.lag.error();
  const bool is_history = *request.lag == lag_policy::history;
  const bool is_latest = *request.lag == lag_policy::latest;
  if (auto why = first_broken(
          {{is_history && (request.history < 1 || request.history > lag_rule::k_most), "history is not from 1 to 60"},
           {!is_history && request.history != 0, "only LSCHED_HISTORY has a history: leave history 0"}}))
    return why;
  if (!request.divided_by) return request.divided_by.error();
  return first_broken(
      {{is_divided(request) && !is_sum(request.what),
        "only sums are divided: set reduction to LSCHED_SUM, or leave divisor 0"},
       {*request.divided_by == divisor::contributors && !is_latest,
        "LSCHED_DIVIDE_BY_CONTRIBUTORS needs lag LSCHED_LATEST, because other results may cover several rounds: "
        "divide by ranks or by offers"},
       {collective_of(request) == k_allgather.name && !is_latest && !is_sum(request.what),
        "an allgather has zeros for absent ranks, so this lag can combine its results only by addition: use "
        "LSCHED_SUM, or lag LSCHED_LATEST"}});
}

result<activation> read_start(const partial_request& request) {
  if (!*request.what.starts) return *request.what.starts;
  if (auto why = validate_lag(request)) return *why;
  return *request.what.starts;
}

result<shape> read_partial_shape(const collective& kind, const partial_request& request) {
  const collective_request& what = request.what;
  auto data = read_shape(kind, what);
  if (!data) return data;
  if (!what.tensors) return what.tensors.error();
  if (!what.buckets) return what.buckets.error();
  if (!request.age) return request.age.error();
  const bool averages = request.averages_weights != 0;
  const bool is_float_sum = (data->type == dtype::f32 || data->type == dtype::f64) && is_sum(what);
  if (auto why = first_broken(
          {{averages && (request.averages_weights != 1 || !is_float_sum),
            "averages_weights must be 0, or 1 if the reduction is a sum of f32 or f64"},
           {is_divided(request) && kind.adapts, "an adaptive sum cannot be divided: leave divisor 0"},
           {request.age->exists() && (kind.adapts || !is_sum(what) || !is_floating(data->type)),
            "only sums of floating elements are scaled by their age: leave age 0"},
           {averages && &kind != &k_partial_allreduce, "averages_weights: only an allreduce can average weights"},
           {request.fragments > k_most_fragments, "fragments is above 1024: give a number from 0 to 1024"},
           {averages && request.fragments > 1,
            "a schedule with fragments averages no weights: leave averages_weights or fragments 0"}}))
    return *why;
  data->tensors = *what.tensors;
  data->buckets = *what.buckets;
  return data;
}

/// Returns the factors as hexadecimal numbers, which have all bits.
std::string text_of(const age_rule& age) {
  if (age.is_inverse) return " aged by 1/(1+age)";
  std::string text;
  for (const double factor : age.factors) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.begin(), digits.end(), factor, std::chars_format::hex).ptr;
    text += (text.empty() ? " aged by " : ",") + std::string(digits.begin(), end);
  }
  return text;
}

std::string text_of_fragments(std::uint32_t fragments) {
  return fragments == 1 ? "" : " in " + std::to_string(fragments) + " fragments";
}

std::string text_of_buckets(const shape& data) {
  std::string text;
  for (const std::uint64_t count : data.buckets)
    text += (text.empty() ? " in " + std::to_string(data.buckets.size()) + " buckets " : "+") + std::to_string(count);
  return text;
}

/// Adds a companion to a partial schedule. The companion is a schedule that waits for every rank that has not left.
/// Adds the companion's purpose and algorithm to the agreement text.
std::optional<failure> add_companion(schedule_cache& schedules, planned_partial& to, const char* purpose,
                                     const shape& data) {
  const auto made = schedules.get("partial_allreduce", "auto", data, {.policy = activation_policy::full});
  if (!made) return made.error();
  to.companions.push_back({purpose, made->program});
  to.agreement += std::string(" with ") + purpose + " by " + std::string(made->chosen.how->name);
  return std::nullopt;
}

/// Adds the companions of a session. The first is a schedule by which ranks agree on a round. If `weights` is given,
/// the second is a schedule that averages weights of that shape.
std::optional<failure> add_companions(schedule_cache& schedules, planned_partial& to,
                                      const std::optional<shape>& weights) {
  auto why = add_companion(schedules, to, "agreement", {.count = 1, .type = dtype::u64, .what = kernel::max});
  if (!why && weights) why = add_companion(schedules, to, "mean", *weights);
  return why;
}

/// Returns ARGUMENT if a member of the partial request contradicts the sparse request.
std::optional<failure> validate_sparse(const partial_request& request, const sparse_request& sparse) {
  const collective_request& what = request.what;
  if (what.collective.data() != nullptr && what.collective != "sparse_allreduce")
    return argument("sparse is set, but collective is \"" + std::string(what.collective) +
                    "\": set collective to sparse_allreduce, or leave sparse null");
  const bool is_of_same_data = sparse.problem.count == what.count && what.type && *what.type == sparse.problem.type;
  return first_broken(
      {{!is_of_same_data, "needs the count and dtype of the partial desc: set the same values in both"},
       {sparse.gradient != nullptr || sparse.update != nullptr,
        "that is partial owns its memory: leave gradient and update NULL"},
       {what.algorithm.data() != nullptr, "takes its algorithm from its own desc: leave algorithm NULL"},
       {!is_sum(what), "is a sum: set reduction to LSCHED_SUM"},
       {is_divided(request), "already divides by the number of ranks: leave divisor 0"},
       {!what.buckets || !what.buckets->empty(), "has no buckets: leave buckets null"},
       {!what.tensors || !what.tensors->empty(), "has no tensors: leave tensors null"},
       {sparse.problem.nans == nan_policy::error, "that is partial cannot refuse rounds: do not set LSCHED_NAN_ERROR"},
       {request.averages_weights != 0, "averages no weights: leave averages_weights 0"},
       {!request.age || request.age->exists(), "is not scaled by age: leave age 0"},
       {request.fragments > 1, "has no fragments: leave fragments 0"},
       {!what.elements.empty(), "has only real elements: leave elements NULL"}},
      "a sparse allreduce ");
}

}  // namespace

result<planned_partial> partial_plan::make(schedule_cache& made) const {
  const auto chosen = made.get(kind->name, algorithm, data, starts);
  if (!chosen) return chosen.error();
  planned_partial all{agreement_of(*kind, data, chosen->chosen.how->name, elements) + agreement_of(starts) +
                          (weights ? " averages" : "") + text_of(age) + text_of_fragments(fragments) +
                          text_of_buckets(data),
                      chosen->program};
  if (auto why = add_companions(made, all, weights)) return std::move(*why);
  return all;
}

result<planned_partial> partial_plan::make_for_survivors(schedule_cache& made) const {
  partial_plan of_fewer = *this;
  of_fewer.starts = among(starts, made.place().size);
  return of_fewer.make(made);
}

result<partial_plan> validate(const partial_request& request) {
  const std::string name = "partial_" + std::string(collective_of(request));
  const collective* const kind = find_collective(name);
  if (kind == nullptr)
    return argument(
        "\"" + std::string(collective_of(request)) +
        "\" has no partial form: choose allreduce, reduce_scatter_block, allgather, adasum, or sparse_allreduce "
        "with its own desc in `sparse`");
  const auto data = read_partial_shape(*kind, request);
  if (!data) return data.error();
  const auto starts = read_start(request);
  if (!starts) return starts.error();
  partial_plan made{.kind = kind,
                    .algorithm = std::string(algorithm_of(request.what)),
                    .data = *data,
                    .starts = *starts,
                    .lag = lag_of(request),
                    .elements = std::string(request.what.elements),
                    .age = *request.age,
                    .fragments = std::max(request.fragments, 1u)};
  if (request.averages_weights != 0) made.weights = shape{data->count, data->type, data->what};
  return made;
}

result<planned_partial> plan(const partial_request& request, const sparse_request& sparse, schedule_cache& made,
                             planned_sparse* choice) {
  if (auto why = validate_sparse(request, sparse)) return std::move(*why);
  const auto starts = read_start(request);
  if (!starts) return starts.error();
  auto chosen = plan(sparse);
  if (!chosen) return chosen.error();
  planned_partial all{"partial_" + chosen->agreement + agreement_of(*starts),
                      partial_sparse_allreduce(*chosen->how, chosen->problem, *starts)};
  *choice = std::move(*chosen);
  if (!all.program) return all;
  if (auto why = add_companions(made, all, std::nullopt)) return std::move(*why);
  return all;
}

lag_rule lag_of(const partial_request& request) { return {*request.lag, std::max(request.history, 1u)}; }

}  // namespace lsched
