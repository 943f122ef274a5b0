#include "offload/runtime.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "libsched/trace/trace.h"
#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"

namespace lsched {
namespace {

/// Of a trace that the options ask for: 48 MiB of address space, used as it fills.
constexpr std::uint64_t k_traced_events = 1 << 20;

struct file_closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

runtime::runtime(std::unique_ptr<endpoint> net, runtime_options options, const neighbourhood& around)
    : options_(std::move(options)),
      remark_(around.remark),
      net_(std::move(net)),
      lane_(make_lane(options_.arithmetic, around.ranks, around.cores, net_->bell())),
      engine_(*net_, lane_.get()),
      driver_(engine_, make_idle_policy(options_.idle, around.ranks, around.cores)) {
  if (!options_.trace_prefix.empty()) start_trace(k_traced_events);
  if (!options_.wants_thread || !around.may_have_thread) return;
  thread_.emplace(driver_, options_.core ? options_.core : core_near_caller(around.ranks));
}

runtime::~runtime() {
  thread_.reset();
  if (!options_.trace_prefix.empty() && is_traced()) {
    try {
      (void)write_trace(options_.trace_prefix + "." + std::to_string(net_->place().self) + ".json");
    } catch (const std::exception&) {  // there is nobody left to tell
    }
  }
  net_->close();
}

std::string runtime::describe() const {
  const world place = net_->place();
  std::string text = "rank " + std::to_string(place.self) + " of " + std::to_string(place.size) + " over " +
                     std::string(net_->name()) + ", ";
  text += thread_ ? "progress thread" : "driven by callers";
  if (lane_ != nullptr)
    text += ", arithmetic from " + std::to_string(lane_->least_bytes() >> 10) + " KiB on with " + lane_->name();
  else
    text += ", arithmetic inline: " + std::string(why_inline(options_.arithmetic));
  if (!remark_.empty()) text += "; " + remark_;
  return text;
}

engine_counters runtime::counters() {
  engine_counters now;
  driver_.with_engine([&] { now = engine_.counters(); });
  return now;
}

void runtime::start_trace(std::uint64_t events) {
  auto buffer = std::make_unique<trace_buffer>(events);
  driver_.with_engine([&] { engine_.record(buffer.get()); });
  trace_ = std::move(buffer);
}

std::optional<failure> runtime::write_trace(const std::string& path) {
  const std::unique_ptr<std::FILE, file_closer> file(std::fopen(path.c_str(), "w"));
  if (file == nullptr) return failure{status::argument, path + ": " + std::strerror(errno)};
  driver_.with_engine([&] { engine_.record(nullptr); });
  const std::unique_ptr<trace_buffer> buffer = std::move(trace_);
  const std::string text = to_trace_json(buffer->events(), buffer->context());
  if (std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() && std::fflush(file.get()) == 0)
    return std::nullopt;
  return failure{status::transport, path + ": " + std::strerror(errno)};
}

// --- schedules -----------------------------------------------------------------------------------------------

result<instance*> runtime::commit(const commit_request& request) {
  const std::lock_guard lock(commit_guard_);
  for (std::size_t tried = 0; tried < shm_page::k_ids; ++tried) {
    auto answer = commit_once(request);
    if (answer || answer.error().code != status::busy) return answer;
  }
  return failure{status::no_memory, "too many schedules exist at once"};
}

/// Under the next number. BUSY: an older schedule has its place.
result<instance*> runtime::commit_once(const commit_request& request) {
  if (is_out_of_step_)
    return failure{status::state, "an earlier commit timed out; this runtime cannot commit any more, only close"};
  const auto deadline = lsched::driver::clock::now() + options_.commit_timeout;
  std::optional<commitment> step;
  driver_.with_engine([&] { step.emplace(engine_, request); });
  for (auto nap = std::chrono::microseconds(0);;
       nap = std::min(nap + std::chrono::microseconds(10), std::chrono::microseconds(500))) {
    status answer = status::pending;
    rank dead = k_no_rank;
    driver_.with_engine([&] {
      answer = step->advance();
      if (answer == status::pending && nap.count() % 100 == 0) dead = net_->find_dead_peer();
    });
    if (answer == status::ok) {
      ++instances_;
      return step->committed();
    }
    if (answer != status::pending) return step->why();
    if (dead == k_no_rank && lsched::driver::clock::now() < deadline) {
      std::this_thread::sleep_for(nap);
      continue;
    }
    is_out_of_step_ = true;
    driver_.with_engine([&] {
      step->abandon();
      if (dead != k_no_rank) engine_.fail_all(status::peer, dead);
    });
    if (dead == k_no_rank) return step->why();
    return failure{status::peer, "rank " + std::to_string(dead) + " died or closed its runtime before it committed",
                   dead};
  }
}

status runtime::remove(std::span<instance** const> gone) {
  status answer = status::ok;
  driver_.with_engine([&] {
    (void)engine_.step();  // the mailbox may still hold one of them
    for (instance** one : gone) {
      if (*one == nullptr) continue;
      if (answer = engine_.remove(**one); answer != status::ok) return;
      *one = nullptr;
      --instances_;
    }
  });
  return answer;
}

}  // namespace lsched
