// The objects that all worlds of a process share: endpoint, engine, driver, lane, progress thread and trace.
// offload/joined_world.h has the objects of each world.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "libsched/engine/engine.h"
#include "libsched/trace/trace_buffer.h"
#include "offload/driver.h"
#include "offload/gpu.h"
#include "offload/lane_choice.h"
#include "offload/neighbourhood.h"
#include "offload/progress_thread.h"

namespace lsched {

struct runtime_options {
  bool wants_thread = true;
  idle_mode idle = idle_mode::automatic;
  std::optional<unsigned> core;  ///< core of the progress thread; empty: core_near_caller() chooses a core
  lane_choice arithmetic = k_lane_auto;
};

class runtime {
 public:
  runtime(std::unique_ptr<endpoint> net, runtime_options options, const neighbourhood& around);

  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  lsched::engine& engine() { return engine_; }
  lsched::driver& driver() { return driver_; }
  endpoint& net() { return *net_; }
  bool has_thread() const { return thread_.has_value(); }
  bool is_in_its_process() const { return getpid() == process_; }
  /// Returns the host of a rank, for error texts. Empty: the rank is on this rank's node.
  std::string host_of(rank home) const {
    return home >= 0 && static_cast<std::size_t>(home) < hosts_.size() ? hosts_[static_cast<std::size_t>(home)] : "";
  }
  bool wants_thread() const { return options_.wants_thread; }

  /// Opens the GPU of this process. Buffers may then be in the GPU's memory. Returns STATE if a GPU was opened before.
  /// Any thread may call this function.
  std::optional<failure> attach(gpu_choice which);
  /// Allocates memory of the attached GPU. Returns null if no memory is left. Any thread may call this function.
  std::byte* allocate_on_device(std::uint64_t bytes);
  /// Frees memory from allocate_on_device(). Returns false for all other memory. Any thread may call this function.
  bool deallocate_on_device(std::byte* memory);
  /// Copies to or from the GPU's memory and waits for the copy. Any thread may call this function.
  status copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes);
  /// Returns the attached GPU, or null. Any thread may call this function.
  device* gpu() const { return gpu_.load(); }

  /// Returns one line for logs, which describes this process and its rank in the world.
  std::string describe(const world& place) const;

  engine_counters counters();

  /// Returns the health of the endpoint, or OK in a forked child, which has no endpoint. Any thread may call this
  /// function.
  status health();

  // Recording of events. One thread at a time may call these three functions. write_trace() ends the recording that
  // start_trace() has begun. If write_trace() fails after it has created the file, the file is incomplete.
  void start_trace(std::uint64_t events);
  bool is_traced() const { return trace_ != nullptr; }
  std::optional<failure> write_trace(const std::string& path);

 private:
  const runtime_options options_;
  const std::string description_;
  const std::vector<std::string> hosts_;
  const std::uint32_t local_ranks_;
  const int process_ = getpid();
  std::unique_ptr<endpoint> net_;
  std::unique_ptr<lane> lane_;
  std::mutex attaching_;
  std::unique_ptr<device> device_;
  std::atomic<device*> gpu_{nullptr};
  lsched::engine engine_;
  lsched::driver driver_;
  std::unique_ptr<trace_buffer> trace_;
  std::optional<progress_thread> thread_;
};

}  // namespace lsched
