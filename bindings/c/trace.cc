// Recording a runtime and writing the file.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bindings/c/runtime.h"

namespace lsched {
namespace {

struct file_closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace
}  // namespace lsched

using namespace lsched;

void lsched_runtime::start_trace(std::uint64_t events) {
  auto buffer = std::make_unique<trace_buffer>(events);
  driver_.with_engine([&] { engine_.record(buffer.get()); });
  trace_ = std::move(buffer);
}

std::optional<failure> lsched_runtime::write_trace(const std::string& path) {
  const std::unique_ptr<std::FILE, file_closer> file(std::fopen(path.c_str(), "w"));
  if (file == nullptr) return failure{status::argument, path + ": " + std::strerror(errno)};
  driver_.with_engine([&] { engine_.record(nullptr); });
  const std::unique_ptr<trace_buffer> buffer = std::move(trace_);
  const std::string text = to_trace_json(buffer->events(), buffer->context());
  if (std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() && std::fflush(file.get()) == 0)
    return std::nullopt;
  return failure{status::transport, path + ": " + std::strerror(errno)};
}

extern "C" {

lsched_status lsched_trace_start(lsched_runtime* runtime, uint64_t events) {
  constexpr std::uint64_t k_most = std::uint64_t{1} << 40;
  if (runtime == nullptr || events == 0 || events > k_most) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    if (runtime->is_traced()) return LSCHED_ERR_STATE;
    runtime->start_trace(events);
    return LSCHED_OK;
  });
}

lsched_status lsched_trace_write(lsched_runtime* runtime, const char* path, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (runtime == nullptr || path == nullptr) return report(diagnostic, {status::argument, "runtime or path is null"});
    if (!runtime->is_traced())
      return report(diagnostic, {status::state, "nothing is being recorded: call lsched_trace_start first"});
    const auto why = runtime->write_trace(path);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
