// What every benchmark shares: calls of the library, the ranks as a team, clocks, summaries of samples, text.
//
// A benchmark is a function that every rank of a world calls. Ranks start a measurement together (the library's own
// barrier), keep their samples to themselves while it runs, and combine them afterwards with an ordinary allreduce. A
// call of the library that fails throws `failed`; the command turns that into one line and an exit code.
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

/// Microseconds that a job takes.
template <class Job>
double us_of(const Job& job) {
  const auto before = clock::now();
  job();
  return ns_between(before, clock::now()) / 1e3;
}

/// Why a benchmark cannot go on.
struct failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The same on every rank, for one reason and with the world intact: what() is empty where another rank says why.
struct agreed : failed {
  using failed::failed;
};

/// Longest wait for other ranks before a benchmark gives up.
inline constexpr std::uint64_t k_patience_ns = 120'000'000'000;

lsched_diagnostic fresh_diagnostic();
/// Throws `failed`, naming the call, unless the answer is OK.
void expect_ok(lsched_status answer, const char* call, const lsched_diagnostic& why = fresh_diagnostic());

struct schedule_closer {
  void operator()(lsched_schedule* schedule) const;
};
/// Owns a schedule; the deleter is for early exits. The normal end is `close`, which waits and reports.
using schedule_handle = std::unique_ptr<lsched_schedule, schedule_closer>;
void close(schedule_handle schedule);

/// The schedule that `create`, called `name`, makes of `arguments`. Throws `failed`.
template <class Create, class... Arguments>
schedule_handle created(const char* name, Create create, const Arguments&... arguments) {
  lsched_schedule* made = nullptr;
  lsched_diagnostic why = fresh_diagnostic();
  expect_ok(create(arguments..., &made, &why), name, why);
  return schedule_handle(made);
}

/// An allreduce of sums (of f64: any reduction).
schedule_handle make_allreduce(lsched_world* runtime, const float* input, float* output, std::uint64_t count);
schedule_handle make_allreduce(lsched_world* runtime, const double* input, double* output, std::uint64_t count,
                               lsched_reduction reduction = LSCHED_SUM);

/// One round, by lsched_run.
void run(lsched_schedule* schedule);
/// One round, by lsched_start and lsched_wait.
void start_and_wait(lsched_schedule* schedule);

/// "tree" of "allreduce/tree": what "auto" has come to, by the printed schedule's name.
std::string algorithm_of(const lsched_schedule* schedule);

struct memory_closer {
  lsched_world* runtime;
  void operator()(float* memory) const { (void)lsched_free(runtime, memory); }
};
/// Floats from lsched_alloc.
using shared_floats = std::unique_ptr<float[], memory_closer>;
shared_floats allocate_shared(lsched_world* runtime, std::size_t count);

/// The ranks of a runtime, in step. Every member function but the plain questions is collective.
class team {
 public:
  explicit team(lsched_world* runtime);

  lsched_world* runtime() const { return runtime_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  /// Ranks on this machine.
  int local_ranks() const { return local_ranks_; }
  /// How many cores the ranks of this machine could use together when the team was made, and which.
  int cores() const { return cores_; }
  const std::vector<unsigned>& core_list() const { return core_list_; }
  /// True when ranks have to share cores, so that a peer that spins while it waits is punished by the scheduler.
  bool is_oversubscribed() const { return local_ranks_ > cores_; }

  /// Returns when every rank has called it.
  void barrier();

  /// Elementwise over all ranks; `values` has the same length everywhere.
  std::vector<double> combine(const std::vector<double>& values, lsched_reduction reduction);
  double combine(double value, lsched_reduction reduction);

  /// Rank 0's value, on every rank. Cheap enough to stand between two iterations.
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
  std::unique_ptr<double> word_;  ///< the buffer of agree_
  schedule_handle agree_;
};

/// Does a job on rank 0. If it throws `failed`, every rank throws `agreed`. Collective.
void on_root(team& ranks, const std::function<void()>& job);

struct summary {
  std::size_t samples = 0;
  double mean = 0, min = 0, median = 0, p95 = 0, max = 0;
};
/// Percentiles by nearest rank. All zero for no samples.
summary summarise(std::vector<double> samples);
/// 0 for no values.
double mean_of(const std::vector<double>& values);
/// Positions in which the ranks' values are not all the same. Collective.
std::uint64_t count_disagreements(team& ranks, const std::vector<double>& values);

/// Prevents the compiler from moving work across a clock read, or dropping a result nobody reads.
inline void keep(const void* result) { asm volatile("" : : "r"(result) : "memory"); }

/// Computing of an application: arithmetic in registers, with a result that no compiler can predict. Only threads that
/// take the core away prolong it.
void compute(std::uint64_t steps);
/// Steps of compute() that take `us` on the slowest rank while all of them compute. Collective.
std::uint64_t steps_for(team& ranks, double us);

/// A core for a rank's application thread, of the first half of those that this process may use, and one for its
/// progress thread, of the others. Nothing where there is one core.
struct cores_apart {
  unsigned application, progress;
  int applications;  ///< cores of the first half
};
std::optional<cores_apart> find_cores_apart(int rank);
/// Binds the calling thread. Throws `failed`.
void bind_caller(unsigned core);

/// Milliseconds this process has used the processor, all threads, user and system.
double cpu_ms();

/// What the library's own threads have used of the processor.
struct engine_time {
  double ns = 0;            ///< on a core, user and system
  std::uint64_t turns = 0;  ///< times it was put on one: wake-ups, and comebacks of those who had to make way
};

/// Of all progress threads of this process since they were made; nothing where the system keeps no account.
std::optional<engine_time> read_engine_time();

/// Median one-way latency in ns of a flag between two threads of this process, on the first two of `cores`: tells a
/// slow mode of the machine from a slow library. Takes about 20 ms. More than 1 µs means a single core, or a busy
/// machine.
double spin_probe_ns(const std::vector<unsigned>& cores);

/// "64", "4K", "1M" …
std::string size_text(std::uint64_t bytes);
/// The reverse, with suffix K, M or G (binary). Throws `failed` for anything else.
std::uint64_t parse_size(std::string_view text);

/// `count` in so many parts, the first of which have one more where it cannot be divided.
std::vector<std::uint64_t> equal_parts(std::uint64_t count, std::uint32_t parts);

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

}  // namespace lsched::bench
