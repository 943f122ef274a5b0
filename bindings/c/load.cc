// Schedules from files: the C face of schedule_file.h.
#include "bindings/c/runtime.h"
#include "libsched/schedule/schedule_file.h"

namespace lsched {
namespace {

result<schedule_ptr> read(const char* text, std::uint64_t bytes, world place) {
  if (text == nullptr) return failure{status::argument, "text is null"};
  auto program = parse_part({text, bytes}, place);
  if (program && (*program)->is_partial())
    return failure{status::unsupported, "the text is of a partial schedule, and only ordinary ones can be loaded"};
  return program;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_schedule_load(lsched_runtime* runtime, const char* text, uint64_t bytes, const void* const* inputs,
                                   void* const* outputs, lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  if (runtime == nullptr) return report(diagnostic, {status::argument, "runtime is null"});
  return guarded(diagnostic, [&] {
    auto program = read(text, bytes, runtime->world.place());
    const std::string name = program ? (*program)->name() : "that could not be read";
    return commit(runtime, bound("loaded schedule " + name, std::move(program), inputs, outputs), false, schedule,
                  diagnostic);
  });
}

}  // extern "C"
