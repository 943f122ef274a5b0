// Recording a runtime and writing the file.
#include "bindings/c/runtime.h"

using namespace lsched;

extern "C" {

lsched_status lsched_trace_start(lsched_runtime* runtime, uint64_t events) {
  constexpr std::uint64_t k_most = std::uint64_t{1} << 40;
  if (runtime == nullptr || events == 0 || events > k_most) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    if (runtime->process.is_traced()) return LSCHED_ERR_STATE;
    runtime->process.start_trace(events);
    return LSCHED_OK;
  });
}

lsched_status lsched_trace_write(lsched_runtime* runtime, const char* path, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr || path == nullptr) return report(diagnostic, {status::argument, "runtime or path is null"});
    if (!runtime->process.is_traced())
      return report(diagnostic, {status::state, "nothing is being recorded: call lsched_trace_start first"});
    const auto why = runtime->process.write_trace(path);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
