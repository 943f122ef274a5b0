// Common parts of the benchmarks: calls of the library, the ranks as a team, clocks, summaries of samples, and text.
//
// A benchmark is a function that every rank of a world calls. The ranks start a measurement together, by a barrier of
// the library. Each rank keeps its samples until the end. Then an ordinary allreduce combines the samples. If a call of
// the library fails, the benchmark throws `failed`. The command then prints the text of the exception, and exits with
// an error.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"

namespace lsched::bench {

using clock = std::chrono::steady_clock;

double ms_between(clock::time_point from, clock::time_point to);
double ns_between(clock::time_point from, clock::time_point to);

/// Returns the duration of a job in microseconds.
template <class Job>
double us_of(const Job& job) {
  const auto before = clock::now();
  job();
  return ns_between(before, clock::now()) / 1e3;
}

struct failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An exception that every rank throws for the same reason. The world stays usable. what() is empty on ranks that need
/// not print the text, because another rank prints it.
struct agreed : failed {
  using failed::failed;
};

/// Timeout of a benchmark that waits for other ranks.
inline constexpr std::uint64_t k_patience_ns = 120'000'000'000;

lsched_diagnostic fresh_diagnostic();
/// Throws `failed` with the name of the call unless the status is OK.
void expect_ok(lsched_status answer, const char* call, const lsched_diagnostic& why = fresh_diagnostic());

struct schedule_closer {
  void operator()(lsched_schedule* schedule) const;
};
/// Owns a schedule. The deleter is for early exits. Normally close() destroys the schedule: it waits for the schedule's
/// rounds, and throws `failed` for errors.
using schedule_handle = std::unique_ptr<lsched_schedule, schedule_closer>;
void close(schedule_handle schedule);

/// Calls `create` and returns the new schedule. `name` is the name of the function. Throws `failed`.
template <class Create, class... Arguments>
schedule_handle created(const char* name, Create create, const Arguments&... arguments) {
  lsched_schedule* made = nullptr;
  lsched_diagnostic why = fresh_diagnostic();
  expect_ok(create(arguments..., &made, &why), name, why);
  return schedule_handle(made);
}

/// Create an allreduce: a sum of f32, or any reduction of f64.
schedule_handle make_allreduce(lsched_world* runtime, const float* input, float* output, std::uint64_t count);
schedule_handle make_allreduce(lsched_world* runtime, const double* input, double* output, std::uint64_t count,
                               lsched_reduction reduction = LSCHED_SUM);

/// Runs one round by lsched_run.
void run(lsched_schedule* schedule);
/// Runs one round by lsched_start and lsched_wait.
void start_and_wait(lsched_schedule* schedule);

/// Returns the algorithm that "auto" has selected, such as "tree" for a schedule with the name "allreduce/tree".
std::string algorithm_of(const lsched_schedule* schedule);

struct memory_closer {
  lsched_world* runtime;
  void operator()(float* memory) const { (void)lsched_free(runtime, memory); }
};
/// Floats from lsched_alloc.
using shared_floats = std::unique_ptr<float[], memory_closer>;
shared_floats allocate_shared(lsched_world* runtime, std::size_t count);

/// The ranks of a runtime. All member functions except plain getters are collective.
class team {
 public:
  explicit team(lsched_world* runtime);

  lsched_world* runtime() const { return runtime_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  /// Returns the number of ranks on this machine.
  int local_ranks() const { return local_ranks_; }
  /// Returns the number of cores on which ranks of this machine could run when the team was created.
  int cores() const { return cores_; }
  /// Returns the ids of the cores that cores() counts.
  const std::vector<unsigned>& core_list() const { return core_list_; }
  /// Returns true if ranks share cores. In this case, a rank that spins takes the core away from its peers.
  bool is_oversubscribed() const { return local_ranks_ > cores_; }

  /// Returns when every rank has called this function.
  void barrier();

  /// Combines values elementwise over all ranks. `values` has the same length on every rank.
  std::vector<double> combine(const std::vector<double>& values, lsched_reduction reduction);
  double combine(double value, lsched_reduction reduction);

  /// Returns, on every rank, the `value` of rank 0. The function is fast enough for a call between two iterations.
  bool root_says(bool value);

 private:
  void find_machine();

  lsched_world* runtime_;
  int rank_;
  int size_;
  int cores_ = 1;
  int local_ranks_ = 0;
  std::vector<unsigned> core_list_;
  schedule_handle barrier_;
  std::unique_ptr<double> word_;  ///< buffer of agree_
  schedule_handle agree_;
};

/// Runs a job on rank 0. If the job throws `failed`, every rank throws `agreed`. This function is collective.
void on_root(team& ranks, const std::function<void()>& job);

struct summary {
  std::size_t samples = 0;
  double mean = 0, min = 0, median = 0, p95 = 0, max = 0;
};
/// Returns a summary of the samples, with percentiles by the nearest-rank method. Without samples all numbers are zero.
summary summarise(std::vector<double> samples);
double mean_of(const std::vector<double>& values);
/// Returns the number of positions at which `values` differs between ranks. This function is collective.
std::uint64_t count_disagreements(team& ranks, const std::vector<double>& values);

/// Prevents the compiler from moving work across a clock read, and from dropping a result that is not used.
inline void keep(const void* result) { asm volatile("" : : "r"(result) : "memory"); }

/// Computes in registers, as a substitute for an application. The compiler cannot predict the result. The duration is
/// constant unless other threads use the core.
void compute(std::uint64_t steps);
/// Returns the number of steps of compute() that take `us` on the slowest rank while all ranks compute. This function
/// is collective.
std::uint64_t steps_for(team& ranks, double us);

/// Separate cores for the application thread and the progress thread of a rank. The application thread gets a core in
/// the first half of this process's permitted cores. The progress thread gets a core in the second half.
struct cores_apart {
  unsigned application, progress;
  int applications;  ///< number of cores in the first half
};
std::optional<cores_apart> find_cores_apart(int rank);
/// Binds the calling thread to a core. Throws `failed`.
void bind_caller(unsigned core);

/// Returns the processor time of all threads of this process in milliseconds, user and system.
double cpu_ms();

/// The processor time of the library's own threads.
struct engine_time {
  double ns = 0;            ///< time on a core, user and system
  std::uint64_t turns = 0;  ///< number of times that a thread was scheduled: wake-ups, and returns after preemption
};

/// Returns the total of all progress threads of this process since their start. Returns nothing if the system does not
/// account for threads.
std::optional<engine_time> read_engine_time();

/// Returns the median one-way latency in ns of a flag between two threads of this process, on the first two of `cores`.
/// The latency shows whether the machine or the library is slow. More than 1 µs means a single core, or a busy machine.
/// The probe takes about 20 ms.
double spin_probe_ns(const std::vector<unsigned>& cores);

/// Returns a size as text: "64", "4K", "1M" …
std::string size_text(std::uint64_t bytes);
/// Parses a size with suffix K, M or G (binary). Throws `failed` for any other text.
std::uint64_t parse_size(std::string_view text);

/// Divides `count` elements into `parts` parts. If `count` is not divisible, the first parts have one more element.
std::vector<std::uint64_t> equal_parts(std::uint64_t count, std::uint32_t parts);

/// Formats a string as printf does.
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

}  // namespace lsched::bench
