// The ready-made schedules of the C interface: check, describe, commit.
#include "bindings/c/runtime.h"
#include "bindings/c/words.h"

namespace lsched {
namespace {

std::string text_of(const shape& data) {
  return std::string(name_of(data.what)) + " " + std::string(name_of(data.type)) + " count " + std::to_string(data.count);
}

/// Buffers of an allreduce: usable, and either the same or disjoint.
result<shape> read_buffers(const lsched_allreduce_desc& desc) {
  auto data = read_shape(desc.count, desc.dtype, desc.reduction);
  if (!data) return data;
  if (desc.count > 0 && (desc.input == nullptr || desc.output == nullptr))
    return failure{status::argument, "input or output is null but count is " + std::to_string(desc.count)};
  const auto input = reinterpret_cast<std::uintptr_t>(desc.input);
  const auto output = reinterpret_cast<std::uintptr_t>(desc.output);
  const std::uint64_t bytes = desc.count * size_of(data->type);
  data->in_place = desc.count > 0 && input == output;
  if (!data->in_place && input < output + bytes && output < input + bytes)
    return failure{status::argument, "input and output overlap without being the same"};
  return data;
}

commit_request describe_allreduce(lsched_runtime* runtime, const lsched_allreduce_desc& desc, bool* in_place) {
  const auto data = desc.struct_size == sizeof desc
                        ? read_buffers(desc)
                        : result<shape>(failure{status::argument, "struct_size is not sizeof(lsched_allreduce_desc)"});
  if (!data) return {"allreduce with bad arguments", data.error()};
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const auto how = choose("allreduce", wanted, runtime->place(), *data, {}, runtime->is_crowded());
  if (!how) return {"allreduce " + text_of(*data), how.error()};
  *in_place = data->in_place;
  return {"allreduce " + std::string((*how)->name) + " " + text_of(*data),
          (*how)->generate(runtime->place(), *data, {}),
          {{static_cast<const std::byte*>(desc.input)}, {static_cast<std::byte*>(desc.output)}}};
}

result<activation> read_start(const lsched_runtime& runtime, const lsched_partial_desc& desc) {
  const auto policy = read_activation(desc.activation);
  if (!policy) return policy.error();
  if (desc.lag != LSCHED_LATEST && desc.lag != LSCHED_ACCUMULATE) return failure{status::argument, "lag is not an lsched_lag"};
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
  const auto how = choose("partial_allreduce", wanted, runtime->place(), *data, *starts, runtime->is_crowded());
  if (!how) return {"partial allreduce " + text_of(*data), how.error()};
  const std::string agreement = "partial allreduce " + std::string((*how)->name) + " " + std::string(name_of(starts->policy)) +
                                " seed " + std::to_string(starts->seed) + " " + text_of(*data);
  return {agreement,
          (*how)->generate(runtime->place(), *data, *starts),
          {},
          {static_cast<lag_policy>(desc.lag)}};
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_barrier_create(lsched_runtime* runtime, lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr) return report(diagnostic, {status::argument, "runtime is null"});
    return commit(runtime, {"barrier", generate("barrier", "auto", runtime->place(), {})}, false, schedule, diagnostic);
  });
}

lsched_status lsched_allreduce_create(lsched_runtime* runtime, const lsched_allreduce_desc* desc,
                                      lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr) return report(diagnostic, {status::argument, "runtime is null"});
    bool in_place = false;
    commit_request request = desc == nullptr
                                 ? commit_request{"allreduce with bad arguments", failure{status::argument, "desc is null"}}
                                 : describe_allreduce(runtime, *desc, &in_place);
    return commit(runtime, std::move(request), in_place, schedule, diagnostic);
  });
}

lsched_status lsched_partial_allreduce_create(lsched_runtime* runtime, const lsched_partial_desc* desc,
                                              lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr) return report(diagnostic, {status::argument, "runtime is null"});
    commit_request request =
        desc == nullptr ? commit_request{"partial allreduce with bad arguments", failure{status::argument, "desc is null"}}
                        : describe_partial(runtime, *desc);
    return commit(runtime, std::move(request), false, schedule, diagnostic);
  });
}

}  // extern "C"
