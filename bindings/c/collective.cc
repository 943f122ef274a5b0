// The ready-made schedules of the C interface: check, describe, commit.
#include "bindings/c/request.h"
#include "bindings/c/sized.h"
#include "bindings/c/sparse.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/algorithm/algorithm.h"

namespace lsched {
namespace {

std::string text_of(const shape& data) {
  return std::string(name_of(data.what)) + " " + std::string(name_of(data.type)) + " count " +
         std::to_string(data.count);
}

/// What commits, and how the handle finds out whether other memory is in place, too.
struct described {
  commit_request request;
  memory_layout layout{};
  std::vector<tensor> tensors{};
  bool looks_at_tensors = true;
  std::string remark{};  ///< for the caller, though all is well
};

std::vector<tensor> tensors_of(const collective_request& asked) {
  if (!asked.of->adapts) return {};
  return asked.data.tensors.empty() ? std::vector<tensor>{{0, asked.data.count}} : asked.data.tensors;
}

/// Whether this rank's memory is such that peers can read it.
void look_around(lsched_world* world, collective_request& asked, const extents& buffers) {
  if (!asked.of->moves_data) return;
  const auto is_visible = [&](const std::byte* place, std::optional<std::uint64_t> count) {
    const std::uint64_t bytes = count.value_or(0) * size_of(asked.data.type);
    return bytes == 0 || world->process.net().sends_from(place, bytes);
  };
  asked.data.is_visible = is_visible(asked.input, buffers.input) && is_visible(asked.output, buffers.output);
}

described describe(lsched_world* world, const lsched_collective_desc& desc) {
  auto asked = read_request(world->joined.place(), world->nodes(), desc);
  if (!asked) return {{"a collective with bad arguments", asked.error()}};
  const extents buffers = asked->of->extents_of(world->joined.place(), asked->data);
  look_around(world, *asked, buffers);
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const auto made = world->schedules_made.get(asked->of->name, wanted, asked->data);
  if (!made) return {{agreement_of(*asked, wanted), made.error()}};
  asked->data.segment = made->chosen.data.segment;
  asked->data.radix = made->chosen.data.radix;
  const std::string_view remark = node_warning(*made->chosen.how, world->joined.place().size, asked->data);
  binding memory;
  if (buffers.input) memory.inputs.push_back(asked->input);
  if (buffers.output) memory.outputs.push_back(asked->output);
  return {{agreement_of(*asked, made->chosen.how->name), made->program, std::move(memory), {.user = asked->user}},
          {asked->data.in_place, asked->aliasing_bytes},
          tensors_of(*asked),
          world->joined.place().size > 1 && remark.empty(),
          std::string(remark)};
}

lsched_status create(lsched_world* world, const result<lsched_collective_desc>& desc, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic) {
  if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
  described all = desc ? describe(world, *desc) : described{{"a collective with bad arguments", desc.error()}};
  const lsched_status answer = commit(world, std::move(all.request), schedule, diagnostic);
  if (answer != LSCHED_OK) return answer;
  (*schedule)->layout = all.layout;
  (*schedule)->tensors = std::move(all.tensors);
  (*schedule)->looks_at_tensors = all.looks_at_tensors;
  if (!all.remark.empty()) (void)report(diagnostic, {status::ok, all.remark});
  return answer;
}

/// What a partial collective is without its activation.
std::string_view collective_of(const lsched_partial_desc& desc) {
  return desc.collective == nullptr ? k_allreduce.name : desc.collective;
}

std::string partial_name(const lsched_partial_desc& desc) { return "partial_" + std::string(collective_of(desc)); }

result<activation> read_start(const lsched_world& world, const lsched_partial_desc& desc) {
  const auto starts = read_activation(desc.activation, desc.seed);
  if (!starts) return starts.error();
  if (desc.lag < LSCHED_LATEST || desc.lag > LSCHED_HISTORY)
    return failure{status::argument, "lag is not an lsched_lag"};
  if (desc.lag == LSCHED_HISTORY ? desc.history < 1 || desc.history > lag_rule::k_most : desc.history != 0)
    return failure{status::argument, desc.lag == LSCHED_HISTORY ? "history is not from 1 to 60"
                                                                : "only LSCHED_HISTORY has a history: leave it 0"};
  if (desc.divisor < LSCHED_DIVIDE_BY_NONE || desc.divisor > LSCHED_DIVIDE_BY_OFFERS)
    return failure{status::argument, "divisor is not an lsched_divisor"};
  if (desc.divisor != LSCHED_DIVIDE_BY_NONE && desc.reduction != LSCHED_SUM)
    return failure{status::argument, "only sums are divided: leave divisor 0"};
  if (desc.divisor == LSCHED_DIVIDE_BY_CONTRIBUTORS && desc.lag != LSCHED_LATEST)
    return failure{status::argument,
                   "with another lag than LSCHED_LATEST a result may be of several rounds, which have contributors of "
                   "their own: divide by ranks or by offers"};
  if (collective_of(desc) == k_allgather.name && desc.lag != LSCHED_LATEST && desc.reduction != LSCHED_SUM)
    return failure{status::argument,
                   "results of an allgather, zero where a rank was absent, can only be added up: LSCHED_SUM, or "
                   "LSCHED_LATEST"};
  if (starts->is_woken() && world.process.wants_thread() && !world.process.has_thread())
    return failure{status::unsupported,
                   words_for(*starts) +
                       " needs a progress thread, which has to call MPI, and that needs "
                       "MPI_THREAD_MULTIPLE; or ask for LSCHED_PROGRESS_CALLER to drive them by your own calls"};
  return starts;
}

result<shape> read_partial_shape(const lsched_partial_desc& desc) {
  if (find_collective(partial_name(desc)) == nullptr)
    return failure{status::argument, "\"" + std::string(collective_of(desc)) +
                                         "\" is not partial: choose allreduce, reduce_scatter_block, allgather, "
                                         "adasum, or sparse_allreduce with a desc of its own"};
  const bool merges_by_adasum = collective_of(desc) == k_adasum.name && static_cast<int>(desc.reduction) == 0;
  auto data =
      merges_by_adasum ? read_shape(desc.count, desc.dtype) : read_shape(desc.count, desc.dtype, desc.reduction);
  if (!data) return data;
  if (merges_by_adasum) data->what = kernel::adasum;
  if ((desc.tensors == nullptr) != (desc.tensor_count == 0))
    return failure{status::argument, "tensors and tensor_count: one of them is missing"};
  for (std::uint64_t i = 0; i < desc.tensor_count; ++i)
    data->tensors.push_back({desc.tensors[i].begin, desc.tensors[i].count});
  if ((desc.buckets == nullptr) != (desc.bucket_count == 0))
    return failure{status::argument, "buckets and bucket_count: one of them is missing"};
  data->buckets.assign(desc.buckets, desc.buckets + desc.bucket_count);
  const bool is_float = desc.dtype == LSCHED_F32 || desc.dtype == LSCHED_F64;
  if (desc.averages_weights != 0 && (desc.averages_weights != 1 || !is_float || desc.reduction != LSCHED_SUM))
    return failure{status::argument, "averages_weights is 0 or 1, and 1 for sums of f32 and f64 alone"};
  if (desc.divisor != LSCHED_DIVIDE_BY_NONE && collective_of(desc) == k_adasum.name)
    return failure{status::argument, "an adaptive sum is not divided: leave divisor 0"};
  if (desc.averages_weights != 0 && collective_of(desc) != k_allreduce.name)
    return failure{status::argument, "averages_weights: only an allreduce averages"};
  return data;
}

std::string text_of_buckets(const shape& data) {
  std::string text;
  for (const std::uint64_t count : data.buckets)
    text += (text.empty() ? " in " + std::to_string(data.buckets.size()) + " buckets " : "+") + std::to_string(count);
  return text;
}

struct described_partial {
  commit_request request;
  std::shared_ptr<sparse_state> state{};  ///< of a sparse one
};

/// Why the rest of the desc does not go with the sparse allreduce in it.
std::optional<failure> validate_sparse(const lsched_partial_desc& desc, const lsched_sparse_desc& sparse) {
  const auto refused = [](std::string why) {
    return failure{status::argument, "a sparse allreduce " + std::move(why)};
  };
  if (desc.collective != nullptr && desc.collective != std::string_view("sparse_allreduce"))
    return failure{status::argument, "sparse: \"" + std::string(desc.collective) + "\" is no sparse_allreduce"};
  if (sparse.count != desc.count || sparse.dtype != desc.dtype) return refused("of another count or dtype");
  if (sparse.gradient != nullptr || sparse.update != nullptr)
    return refused("that is partial owns its memory: leave gradient and update NULL");
  if (desc.algorithm != nullptr) return refused("has its algorithm in its own desc");
  if (desc.reduction != LSCHED_SUM) return refused("is a sum: LSCHED_SUM");
  if (desc.divisor != LSCHED_DIVIDE_BY_NONE) return refused("divides by the ranks itself: leave divisor 0");
  if (desc.buckets != nullptr || desc.bucket_count != 0) return refused("has no buckets");
  if (desc.tensors != nullptr || desc.tensor_count != 0) return refused("has no tensors");
  if (sparse.nans == LSCHED_NAN_ERROR) return refused("that is partial has no rounds to refuse: LSCHED_NAN_ERROR");
  if (desc.averages_weights != 0) return refused("averages no weights: leave averages_weights 0");
  return std::nullopt;
}

lag_rule lag_of(const lsched_partial_desc& desc) {
  return {static_cast<lag_policy>(desc.lag), std::max(desc.history, 1u)};
}

described_partial describe_sparse(lsched_world* world, const lsched_partial_desc& desc) {
  const std::string nothing = "partial sparse allreduce with bad arguments";
  const auto sparse = read_struct(desc.sparse);
  if (!sparse) return {{nothing, sparse.error()}};
  if (auto why = validate_sparse(desc, *sparse)) return {{nothing, *why}};
  const auto starts = read_start(*world, desc);
  if (!starts) return {{nothing, starts.error()}};
  auto asked = read_request(world->joined.place(), *sparse);
  if (!asked) return {{nothing, asked.error()}};
  return {{"partial_" + asked->agreement + " " + words_for(*starts) + " seed " + std::to_string(starts->seed),
           partial_sparse_allreduce(*asked->how, asked->problem, *starts),
           {},
           {.lag = lag_of(desc), .local = std::move(asked->steps)}},
          std::move(asked->state)};
}

commit_request describe_dense(lsched_world* world, const lsched_partial_desc& desc) {
  const auto data = read_partial_shape(desc);
  if (!data) return {"partial collective with bad arguments", data.error()};
  const std::string name = partial_name(desc);
  const std::string what = name + " " + text_of(*data);
  const auto starts = read_start(*world, desc);
  if (!starts) return {what, starts.error()};
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const auto made = world->schedules_made.get(name, wanted, *data, *starts);
  if (!made) return {what, made.error()};
  const std::string agreement = what + " " + std::string(made->chosen.how->name) + " " + words_for(*starts) + " seed " +
                                std::to_string(starts->seed) + (desc.averages_weights != 0 ? " averages" : "") +
                                text_of_buckets(*data) + text_of_tensors(*data);
  return {agreement, made->program, {}, {.lag = lag_of(desc), .tensors = data->tensors}};
}

described_partial describe_partial(lsched_world* world, const result<lsched_partial_desc>& desc) {
  if (!desc) return {{"partial collective with bad arguments", desc.error()}};
  return desc->sparse != nullptr ? describe_sparse(world, *desc) : described_partial{describe_dense(world, *desc)};
}

/// How long ranks serve each other where a partial schedule could not be completed.
constexpr std::uint64_t k_farewell_ns = 10'000'000'000;

/// A schedule beside a partial one, which waits for every rank that has not left.
result<instance*> commit_companion(lsched_schedule& schedule, const char* purpose, const shape& data) {
  lsched_world& world = *schedule.world;
  const auto made = world.schedules_made.get("partial_allreduce", "auto", data, {.policy = activation_policy::full});
  const std::string name = purpose + std::string(" of ") + schedule.instance->label;
  commit_request request{name, made ? made->program : result<schedule_ptr>(made.error())};
  const auto committed = world.joined.commit(request);
  if (committed) world.process.driver().with_engine([&] { (*committed)->label = name; });
  return committed;
}

/// The instances by which ranks agree on a round, and through which they average weights. A failed one: `all` has those
/// before it.
std::optional<failure> commit_companions(lsched_schedule& schedule, const lsched_partial_desc& desc,
                                         session_instances& all) {
  const auto agreement = commit_companion(schedule, "agreement", {.count = 1, .type = dtype::u64, .what = kernel::max});
  if (!agreement) return agreement.error();
  all.agreement = *agreement;
  if (desc.averages_weights == 0) return std::nullopt;
  const auto mean = commit_companion(schedule, "mean", *read_shape(desc.count, desc.dtype, desc.reduction));
  if (!mean) return mean.error();
  all.mean = *mean;
  return std::nullopt;
}

/// Makes the session of a schedule that has been committed.
lsched_status complete_partial(lsched_schedule& schedule, const lsched_partial_desc& desc,
                               lsched_diagnostic* diagnostic) {
  session_instances all{.rounds = schedule.instance};
  const auto why = commit_companions(schedule, desc, all);
  schedule.session.emplace(schedule.world->process.engine(), all, static_cast<divisor>(desc.divisor),
                           std::span(desc.buckets, desc.bucket_count));
  return why ? report(diagnostic, *why) : LSCHED_OK;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_barrier_create(lsched_world* world, lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  const lsched_collective_desc barrier{.collective = "barrier"};
  return guarded(diagnostic, [&] { return create(world, barrier, schedule, diagnostic); });
}

lsched_status lsched_allreduce_create(lsched_world* world, const lsched_allreduce_desc* desc,
                                      lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    const auto asked = read_struct(desc);
    if (!asked) return create(world, asked.error(), schedule, diagnostic);
    const lsched_collective_desc same{.collective = "allreduce",
                                      .input = asked->input,
                                      .output = asked->output,
                                      .count = asked->count,
                                      .dtype = asked->dtype,
                                      .reduction = asked->reduction,
                                      .algorithm = asked->algorithm};
    return create(world, same, schedule, diagnostic);
  });
}

lsched_status lsched_collective_create(lsched_world* world, const lsched_collective_desc* desc,
                                       lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] { return create(world, read_struct(desc), schedule, diagnostic); });
}

lsched_status lsched_partial_create(lsched_world* world, const lsched_partial_desc* desc, lsched_schedule** schedule,
                                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    const auto asked = read_struct(desc);
    described_partial all = describe_partial(world, asked);
    lsched_schedule* made = nullptr;
    if (schedule == nullptr) all.request.program = failure{status::argument, "schedule is null"};
    lsched_status answer = commit(world, std::move(all.request), &made, diagnostic);
    if (answer == LSCHED_OK) answer = complete_partial(*made, *asked, diagnostic);
    if (answer != LSCHED_OK) (void)lsched_schedule_destroy(made, k_farewell_ns, nullptr);
    if (answer != LSCHED_OK) return answer;
    made->residual = std::move(all.state);
    *schedule = made;
    return answer;
  });
}

}  // extern "C"
