// `cuda_exam` examines a machine with a GPU. The machine needs only the CUDA driver. Results are JSON lines on standard
// output, and messages for people go to standard error. Each part runs in a separate process, so that a crash or a hang
// does not affect the results of other parts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "microbench/cuda/gpu.h"

namespace lsched::exam {

using bench::gpu;
using bench::gpu_event;
using bench::gpu_memory;
using bench::gpu_place;
using bench::gpu_stream;
using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

inline constexpr int k_exit_no_gpu = 77;

/// The thoroughness of an examination.
struct effort {
  bool is_quick = false;  ///< whether to do only enough to check that the program works
  std::uint64_t choose(std::uint64_t full, std::uint64_t quick) const { return is_quick ? quick : full; }
};

/// Writes a JSON line. The line is marked if the driver is the fake driver.
void answer(const gpu& on, std::string_view part, json line);

/// A function that examines the driver. The process must not have used the driver before. Throws if the examination is
/// impossible. Returns false if a computed result is wrong.
using question = bool (*)(const effort& how);
struct part {
  std::string_view name;
  question ask;
  double limit_s;  ///< time limit, at which the part is killed
};
std::span<const part> parts();

// The examinations. A file tests/offload/cuda/exam/*.cc defines each of them.
bool examine_kernels(const effort& how);
bool examine_selections(const effort& how);
bool ask_two_processes(const effort& how);
bool ask_stream_writes(const effort& how);
bool ask_canary(const effort& how);
bool ask_unloaded_kernel(const effort& how);
bool ask_registrations(const effort& how);
bool ask_host_function_tails(const effort& how);
bool ask_managed_memory(const effort& how);

/// Options of fuzz(). This function runs random collectives in the world of this rank (`lsched run`). It returns the
/// exit status.
struct fuzz_options {
  double seconds = 20;
  std::uint64_t seed = 1;
  std::uint64_t rounds = 1ull << 40;  ///< maximum number of rounds
  std::uint64_t most_elements = 1 << 20;
};
int fuzz(const fuzz_options& options);

// ---- shared by the parts

/// Returns the distribution of samples in µs: median, p99 and so on.
json distribution(std::vector<double> us);

/// Reads a word that a device writes.
std::uint64_t seen_at(const std::uint64_t* word);
/// Writes a word that a device waits for.
void show_at(std::uint64_t* word, std::uint64_t value);

/// Returns the µs until the condition holds, or a negative number if it does not hold within `limit`.
double us_until(const std::function<bool()>& holds, std::chrono::milliseconds limit);

/// Anonymous memory that forked processes share, like the library's staging memory.
class shared_memory {
 public:
  explicit shared_memory(std::uint64_t bytes);
  ~shared_memory();
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;

  std::byte* data() const { return begin_; }
  std::uint64_t* word(std::size_t line) const { return reinterpret_cast<std::uint64_t*>(begin_) + 8 * line; }
  std::uint64_t bytes() const { return bytes_; }
  int file() const { return file_; }

 private:
  int file_;
  std::uint64_t bytes_;
  std::byte* begin_;
};

/// Registers host memory with the driver. The destructor removes the registration.
class registration {
 public:
  registration(const gpu& on, std::byte* begin, std::uint64_t bytes);
  ~registration();
  registration(const registration&) = delete;
  registration& operator=(const registration&) = delete;

 private:
  const gpu& on_;
  std::byte* begin_;
};

/// Attaches the first device on every rank, because the parts of the examination also use this device directly.
lsched_status attach_first_device(lsched_world* world, lsched_diagnostic* why);

/// Launches a kernel without work.
void launch_nothing(const gpu& on, CUstream in);

/// Runs a job in a forked process. Must be constructed before this process uses the driver.
class forked {
 public:
  explicit forked(const std::function<bool()>& job);
  ~forked();
  forked(const forked&) = delete;
  forked& operator=(const forked&) = delete;

  /// Waits at most `limit_s` seconds for the process. Returns whether the job has returned true. If the job has thrown
  /// `no_gpu`, this function throws it, too.
  bool ends_well(double limit_s);

 private:
  int process_;  ///< process id, or 0 after the process has ended
};

/// Writes a value to a word after a delay. release() and the destructor write the value at once, so that no stream
/// waits for the word for ever.
class timed_release {
 public:
  timed_release(std::uint64_t* word, std::uint64_t value, std::chrono::milliseconds after);
  ~timed_release();
  timed_release(const timed_release&) = delete;
  timed_release& operator=(const timed_release&) = delete;

  /// Writes the value now, even before the delay is over.
  void release();
  bool was_late() const { return was_late_; }

 private:
  std::uint64_t* word_;
  std::uint64_t value_;
  std::atomic<bool> is_released_{false}, was_late_{false};
  std::jthread thread_;
};

}  // namespace lsched::exam
