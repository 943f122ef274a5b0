// `cuda_exam`: what a machine with a GPU is asked, by a program that needs nothing but the driver. Answers are JSON
// lines; text for people goes to standard error. Each part is a process of its own, so that one that crashes or hangs
// leaves the others their answers.
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

/// How much is asked.
struct effort {
  bool is_quick = false;  ///< so little that it says whether the program works
  std::uint64_t choose(std::uint64_t full, std::uint64_t quick) const { return is_quick ? quick : full; }
};

/// Writes a line. Of the tests' driver it says so.
void answer(const gpu& on, std::string_view part, json line);

/// A question to the driver: begins with one that this process has not used. Throws what it cannot ask; answers false
/// if an answer is wrong, where there is a right one.
using question = bool (*)(const effort& how);
struct part {
  std::string_view name;
  question ask;
  double limit_s;  ///< then it is killed
};
std::span<const part> parts();

// tests/offload/cuda/exam/*.cc, each with what its name says.
bool examine_kernels(const effort& how);
bool examine_selections(const effort& how);
bool ask_two_processes(const effort& how);
bool ask_stream_writes(const effort& how);
bool ask_canary(const effort& how);
bool ask_unloaded_kernel(const effort& how);
bool ask_registrations(const effort& how);
bool ask_host_function_tails(const effort& how);
bool ask_managed_memory(const effort& how);

/// Random collectives in the world that this process is a rank of (`lsched run`). Answers the exit status.
struct fuzz_options {
  double seconds = 20;
  std::uint64_t seed = 1;
  std::uint64_t rounds = 1ull << 40;  ///< at most
  std::uint64_t most_elements = 1 << 20;
};
int fuzz(const fuzz_options& options);

// ---- what parts have in common

/// Samples in µs: median, p99 and so on.
json distribution(std::vector<double> us);

/// Reads a word that a device writes.
std::uint64_t seen_at(const std::uint64_t* word);
/// And writes one that a device waits for.
void show_at(std::uint64_t* word, std::uint64_t value);

/// µs until the condition holds; negative if it does not in that time.
double us_until(const std::function<bool()>& holds, std::chrono::milliseconds limit);

/// Shared anonymous memory, as staging memory is: of this process and of those that it forks.
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

/// Host memory that is registered while this lives.
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

/// The first device, whichever rank this is: parts use it themselves.
lsched_status attach_first_device(lsched_world* world, lsched_diagnostic* why);

/// A kernel in which there is nothing to do.
void launch_nothing(const gpu& on, CUstream in);

/// A job in a process that is forked before this one has used the driver.
class forked {
 public:
  explicit forked(const std::function<bool()>& job);
  ~forked();
  forked(const forked&) = delete;
  forked& operator=(const forked&) = delete;

  /// Waits for so long. Whether the job has answered true. Throws `no_gpu` where it has.
  bool ends_well(double limit_s);

 private:
  int process_;  ///< 0: it has ended
};

/// Shows a value at a word after a while, unless it ends before: what waits for it for good is let go.
class timed_release {
 public:
  timed_release(std::uint64_t* word, std::uint64_t value, std::chrono::milliseconds after);
  ~timed_release();
  timed_release(const timed_release&) = delete;
  timed_release& operator=(const timed_release&) = delete;

  /// Before its time.
  void release();
  bool was_late() const { return was_late_; }

 private:
  std::uint64_t* word_;
  std::uint64_t value_;
  std::atomic<bool> is_released_{false}, was_late_{false};
  std::jthread thread_;
};

}  // namespace lsched::exam
