#include "offload/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "libsched/trace/trace.h"
#include "offload/cores.h"
#include "libsched/transport/file_size_limit.h"

namespace lsched {
namespace {

failure trace_failure(status code, const std::string& path, const std::string& reason) {
  return {code, "the trace file " + path + " " + reason};
}

/// A progress thread with its own core takes no core from a caller.
idle_policy idle_policy_of(const runtime_options& options, const neighbourhood& around) {
  idle_policy policy = make_idle_policy(options.idle, around.ranks, around.cores);
  policy.are_cores_taken = policy.are_cores_taken && !options.core;
  return policy;
}

}  // namespace

runtime::runtime(std::unique_ptr<endpoint> net, runtime_options options, const neighbourhood& around)
    : options_(std::move(options)),
      description_(around.description),
      hosts_(around.hosts),
      local_ranks_(around.ranks),
      net_(std::move(net)),
      lane_(make_lane(options_.arithmetic, around.ranks, around.cores, net_->bell())),
      engine_(*net_, lane_.get()),
      driver_(engine_, idle_policy_of(options_, around)) {
  if (options_.wants_thread && around.may_have_thread)
    thread_.emplace(driver_, options_.core ? options_.core : core_near_caller(around.ranks));
}

runtime::~runtime() {
  thread_.reset();
  if (is_in_its_process()) driver_.with_engine([this] { engine_.end_adopted(); });
  net_->close();
}

std::optional<failure> runtime::attach(gpu_choice which) {
  const std::lock_guard lock(attaching_);
  if (device_ != nullptr)
    return failure{status::state,
                   "the device " + device_->name() + " is attached already, and a rank can attach only one device"};
  which.local_rank = static_cast<std::uint32_t>(net_->place().self) % std::max(local_ranks_, 1u);
  auto opened = open_gpu(which, *net_);
  if (!opened) return opened.error();
  device_ = std::move(*opened);
  driver_.attach(*device_);
  gpu_.store(device_.get());
  return std::nullopt;
}

std::byte* runtime::allocate_on_device(std::uint64_t bytes) {
  std::byte* made = nullptr;
  driver_.with_engine([&] { made = device_->memory().lend(bytes); });
  return made;
}

bool runtime::deallocate_on_device(std::byte* memory) {
  bool was_lent = false;
  driver_.with_engine([&] { was_lent = device_->memory().take_back(memory); });
  return was_lent;
}

status runtime::copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  status answer = status::ok;
  driver_.with_engine([&] { answer = device_->copy_at_once(to, from, bytes); });
  return answer;
}

std::string runtime::describe(const world& place) const {
  std::string text = "rank " + std::to_string(place.self) + " of " + std::to_string(place.size) + " over " +
                     std::string(net_->name()) + ", ";
  text += thread_ ? "progress thread" : "driven by callers";
  if (lane_ != nullptr)
    text += ", arithmetic from " + std::to_string(lane_->least_bytes() >> 10) + " KiB on with " + lane_->name();
  else
    text += ", arithmetic inline: " + std::string(why_inline(options_.arithmetic));
  if (const device* const used = gpu()) text += ", device memory of " + used->name();
  if (!description_.empty()) text += "; " + description_;
  return text;
}

engine_counters runtime::counters() {
  engine_counters now;
  driver_.with_engine([&] { now = engine_.counters(); });
  return now;
}

status runtime::health() {
  status now = status::ok;
  if (is_in_its_process()) driver_.with_engine([&] { now = net_->liveness().health(); });
  return now;
}

void runtime::start_trace(std::uint64_t events) {
  auto buffer = std::make_unique<trace_buffer>(events);
  driver_.with_engine([&] { engine_.record(buffer.get()); });
  trace_ = std::move(buffer);
}

std::optional<failure> runtime::write_trace(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr)
    return trace_failure(status::argument, path, std::string("cannot be created: ") + std::strerror(errno));
  driver_.with_engine([&] { engine_.record(nullptr); });
  const std::unique_ptr<trace_buffer> buffer = std::move(trace_);
  const std::string text = to_trace_json(buffer->events(), buffer->context());
  if (text.size() > file_size_limit()) {
    std::fclose(file);
    return trace_failure(status::transport, path,
                         "is empty, because the trace exceeds the file size limit: raise `ulimit -f`");
  }
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int error = errno;
  if (std::fclose(file) == 0 && is_written) return std::nullopt;
  return trace_failure(status::transport, path,
                       std::string("is incomplete: ") + std::strerror(is_written ? errno : error));
}

}  // namespace lsched
