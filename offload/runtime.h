// What a world is made of in one process: endpoint, engine, driver, lane, progress thread and trace, built from the
// bottom up and torn down in reverse; the sequence of its commits, and how its schedules end.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "libsched/engine/commit.h"
#include "libsched/trace/trace_buffer.h"
#include "offload/driver.h"
#include "offload/lane_choice.h"
#include "offload/neighbourhood.h"
#include "offload/progress_thread.h"

namespace lsched {

struct runtime_options {
  bool wants_thread = true;
  idle_mode idle = idle_mode::automatic;
  std::optional<unsigned> core;  ///< of the progress thread; nothing: chosen
  lane_choice arithmetic = k_lane_auto;
  std::chrono::nanoseconds commit_timeout{};
  std::string trace_prefix{};  ///< where to write a trace of everything; empty: nowhere
};

class runtime {
 public:
  runtime(std::unique_ptr<endpoint> net, runtime_options options, const neighbourhood& around);

  /// Stops the thread, writes the trace that the options ask for, and closes the endpoint.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  lsched::engine& engine() { return engine_; }
  lsched::driver& driver() { return driver_; }
  endpoint& net() { return *net_; }
  bool has_thread() const { return thread_.has_value(); }
  bool wants_thread() const { return options_.wants_thread; }

  world place() const { return net_->place(); }

  /// Commits, waiting for all ranks up to the timeout. A number whose place an older schedule has at some rank's
  /// endpoint is passed over, by all ranks alike. STATE after a commit that timed out: no later one can match. Any
  /// thread, one after the other.
  result<instance*> commit(const commit_request& request);

  /// Removes instances one after the other and makes each pointer null; null ones are passed over. The first status
  /// that is not OK ends it: BUSY, a round is outstanding. Any thread.
  status remove(std::span<instance** const> gone);

  /// That were committed and not removed. Asks neither engine nor transport: MPI may be finalised by now. Any thread.
  std::uint64_t instances() const { return instances_.load(); }

  /// One line for people.
  std::string describe() const;

  engine_counters counters();

  // Recording; one thread at a time. write_trace ends what start_trace has begun.
  void start_trace(std::uint64_t events);
  bool is_traced() const { return trace_ != nullptr; }
  std::optional<failure> write_trace(const std::string& path);

 private:
  result<instance*> commit_once(const commit_request& request);

  const runtime_options options_;
  const std::string remark_;
  std::unique_ptr<endpoint> net_;
  std::unique_ptr<lane> lane_;
  lsched::engine engine_;
  lsched::driver driver_;
  std::unique_ptr<trace_buffer> trace_;
  std::optional<progress_thread> thread_;
  std::atomic<std::uint64_t> instances_{0};
  std::mutex commit_guard_;
  bool is_out_of_step_ = false;  ///< a commit timed out
};

}  // namespace lsched
