// The ready-made schedules of the C interface: check, describe, commit.
#include "bindings/c/request.h"
#include "bindings/c/runtime.h"
#include "bindings/c/words.h"

namespace lsched {
namespace {

std::string text_of(const shape& data) {
  return std::string(name_of(data.what)) + " " + std::string(name_of(data.type)) + " count " +
         std::to_string(data.count);
}

/// What commits, and how the handle finds out whether other memory is in place, too.
struct described {
  commit_request request;
  bool in_place = false;
  std::int64_t overlay_bytes = 0;
};

/// Where the ranks are, and whether their memory is such that peers can read it.
void look_around(lsched_runtime* runtime, collective_request& asked, const extents& buffers) {
  if (!asked.of->moves_data) return;
  asked.data.nodes = runtime->schedules_made().by().around.nodes;
  const auto is_visible = [&](const std::byte* place, std::optional<std::uint64_t> count) {
    const std::uint64_t bytes = count.value_or(0) * size_of(asked.data.type);
    return bytes == 0 || runtime->net().sends_from(place, bytes);
  };
  asked.data.is_visible = is_visible(asked.input, buffers.input) && is_visible(asked.output, buffers.output);
}

described describe(lsched_runtime* runtime, const lsched_collective_desc& desc) {
  auto asked = read_request(runtime->place(), desc);
  if (!asked) return {{"a collective with bad arguments", asked.error()}};
  const extents buffers = asked->of->extents_of(runtime->place(), asked->data);
  look_around(runtime, *asked, buffers);
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const auto made = runtime->schedules_made().get(asked->of->name, wanted, asked->data);
  if (!made) return {{agreement_of(*asked, wanted), made.error()}};
  asked->data.segment = made->chosen.data.segment;
  asked->data.radix = made->chosen.data.radix;
  binding memory;
  if (buffers.input) memory.inputs.push_back(asked->input);
  if (buffers.output) memory.outputs.push_back(asked->output);
  return {{agreement_of(*asked, made->chosen.how->name), made->program, std::move(memory), {.user = asked->user}},
          asked->data.in_place,
          asked->overlay_bytes};
}

lsched_status create(lsched_runtime* runtime, const lsched_collective_desc* desc, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic) {
  described all = desc == nullptr
                      ? described{{"a collective with bad arguments", failure{status::argument, "desc is null"}}}
                      : describe(runtime, *desc);
  const lsched_status answer = commit(runtime, std::move(all.request), all.in_place, schedule, diagnostic);
  if (answer == LSCHED_OK) (*schedule)->overlay_bytes = all.overlay_bytes;
  return answer;
}

result<activation> read_start(const lsched_runtime& runtime, const lsched_partial_desc& desc) {
  const auto policy = read_activation(desc.activation);
  if (!policy) return policy.error();
  if (desc.lag != LSCHED_LATEST && desc.lag != LSCHED_ACCUMULATE)
    return failure{status::argument, "lag is not an lsched_lag"};
  if (desc.activation != LSCHED_FULL && runtime.wants_thread() && !runtime.has_thread())
    return failure{status::unsupported,
                   "solo and majority need a progress thread, which has to call MPI, and that needs "
                   "MPI_THREAD_MULTIPLE; or ask for LSCHED_PROGRESS_CALLER to drive them by your own calls"};
  return activation{*policy, desc.seed};
}

commit_request describe_partial(lsched_runtime* runtime, const lsched_partial_desc& desc) {
  const auto data = desc.struct_size == sizeof desc
                        ? read_shape(desc.count, desc.dtype, desc.reduction)
                        : result<shape>(failure{status::argument, "struct_size is not sizeof(lsched_partial_desc)"});
  if (!data) return {"partial allreduce with bad arguments", data.error()};
  const auto starts = read_start(*runtime, desc);
  if (!starts) return {"partial allreduce " + text_of(*data), starts.error()};
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const auto made = runtime->schedules_made().get("partial_allreduce", wanted, *data, *starts);
  if (!made) return {"partial allreduce " + text_of(*data), made.error()};
  const std::string agreement = "partial allreduce " + std::string(made->chosen.how->name) + " " +
                                std::string(name_of(starts->policy)) + " seed " + std::to_string(starts->seed) + " " +
                                text_of(*data);
  return {agreement, made->program, {}, {static_cast<lag_policy>(desc.lag)}};
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_barrier_create(lsched_runtime* runtime, lsched_schedule** schedule,
                                    lsched_diagnostic* diagnostic) {
  const lsched_collective_desc barrier{.struct_size = sizeof barrier, .collective = "barrier"};
  return lsched_collective_create(runtime, &barrier, schedule, diagnostic);
}

lsched_status lsched_allreduce_create(lsched_runtime* runtime, const lsched_allreduce_desc* desc,
                                      lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  if (desc == nullptr) return lsched_collective_create(runtime, nullptr, schedule, diagnostic);
  const lsched_collective_desc same{.struct_size = desc->struct_size == sizeof *desc ? sizeof same : 0,
                                    .collective = "allreduce",
                                    .input = desc->input,
                                    .output = desc->output,
                                    .count = desc->count,
                                    .dtype = desc->dtype,
                                    .reduction = desc->reduction,
                                    .algorithm = desc->algorithm};
  return lsched_collective_create(runtime, &same, schedule, diagnostic);
}

lsched_status lsched_collective_create(lsched_runtime* runtime, const lsched_collective_desc* desc,
                                       lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr) return report(diagnostic, {status::argument, "runtime is null"});
    return create(runtime, desc, schedule, diagnostic);
  });
}

lsched_status lsched_partial_allreduce_create(lsched_runtime* runtime, const lsched_partial_desc* desc,
                                              lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr) return report(diagnostic, {status::argument, "runtime is null"});
    commit_request request = desc == nullptr ? commit_request{"partial allreduce with bad arguments",
                                                              failure{status::argument, "desc is null"}}
                                             : describe_partial(runtime, *desc);
    return commit(runtime, std::move(request), false, schedule, diagnostic);
  });
}

}  // extern "C"
