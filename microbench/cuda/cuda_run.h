// A run of one part of `lsched bench cuda`: its GPU, its time limit, and its output.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "microbench/cuda/gpu.h"
#include "microbench/report.h"

namespace lsched::bench {

/// The distribution of samples, in µs or any other unit.
struct tails {
  std::size_t samples = 0;
  double min = 0, median = 0, p99 = 0, max = 0;
};
/// Returns the distribution of the samples. With fewer than 100 samples, p99 is the slowest sample.
inline tails tails_of(std::vector<double> all) {
  if (all.empty()) return {};
  std::ranges::sort(all);
  const auto at = [&all](double share) {
    return all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))];
  };
  return {all.size(), all.front(), at(0.5), at(0.99), all.back()};
}

/// A variant of a cell. `sample` measures the variant once, and returns the measured number.
struct way {
  std::function<double()> sample;
  std::vector<double> samples{};
};

class cuda_run {
 public:
  cuda_run(const cuda_options& options, const gpu& on, reporter& out)
      : options_(options),
        on_(on),
        out_(out),
        end_(clock::now() +
             std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(options.seconds))) {}

  const cuda_options& options() const { return options_; }
  const gpu& on() const { return on_; }
  reporter& out() { return out_; }
  bool is_quick() const { return options_.quick; }
  bool is_over() const { return clock::now() >= end_; }
  double seconds_left() const { return std::chrono::duration<double>(end_ - clock::now()).count(); }

  /// Returns `full`, or `quick` if the run only tests the program (option `quick`).
  std::uint64_t choose(std::uint64_t full, std::uint64_t quick) const { return is_quick() ? quick : full; }

  /// Reports that the measurement `what` was left out, with the reason.
  void leave_out(const std::string& what, const std::string& why) {
    out_.say("left out: %s (%s)", what.c_str(), why.c_str());
    write({{"kind", "left_out"}, {"part", options_.part}, {"what", what}, {"why", why}});
  }

  /// Runs a job. If the time limit has passed or memory does not suffice, reports that the job was left out.
  template <class Job>
  void try_to(const std::string& what, const Job& job) {
    if (is_over()) return leave_out(what, "no time");
    try {
      job();
    } catch (const no_gpu_memory& why) {
      leave_out(what, why.what());
    }
  }

  /// Writes a JSON line, and adds the line to the next table.
  void add(const result& line) {
    write(line);
    rows_.push_back(line);
  }

  void print(std::initializer_list<column> columns) {
    out_.print(table_of(rows_, columns));
    rows_.clear();
  }

  /// Adds a cost in µs, with the distribution of its samples. Samples are divided by `per`.
  void add_cost(const std::string& what, std::vector<double> us, double per = 1) {
    const tails it = tails_of(std::move(us));
    if (it.samples == 0) return leave_out(what, "no time");
    add({{"kind", "cost"},
         {"what", what},
         {"us", it.median / per},
         {"us_min", it.min / per},
         {"us_p99", it.p99 / per},
         {"us_max", it.max / per},
         {"samples", it.samples}});
  }

  /// Adds the median, the lowest and the highest rate in GB/s to a JSON line.
  static void put_rate(result& line, std::vector<double> gb_per_s) {
    const tails it = tails_of(std::move(gb_per_s));
    line["gb_per_s"] = it.median;
    line["gb_per_s_min"] = it.min;
    line["gb_per_s_max"] = it.max;
    line["samples"] = it.samples;
  }

  /// Runs a job three times as a warm-up. Then runs the job `number` times, or fewer if the cell's time is over, and
  /// returns the job's results.
  template <class Job>
  std::vector<double> sample(std::size_t number, double cell_seconds, const Job& job) const {
    const auto cell_end = cell_end_of(cell_seconds);
    std::vector<double> all;
    for (int i = 0; i < 3 && clock::now() < cell_end; ++i) job();
    while (all.size() < number && clock::now() < cell_end) all.push_back(job());
    return all;
  }

  /// Samples all variants in turn, at least once each, so that a slow phase of the machine affects all of them.
  void take_turns(std::vector<way>& ways, std::size_t number, double cell_seconds) const {
    const auto cell_end = cell_end_of(cell_seconds);
    do {
      for (way& each : ways) each.samples.push_back(each.sample());
    } while (ways.front().samples.size() < number && clock::now() < cell_end);
  }

 private:
  void write(result line) {
    if (on_.is_fake()) line["driver_is"] = "fake";
    out_.add(std::move(line));
  }
  clock::time_point cell_end_of(double seconds) const {
    return std::min(end_, clock::now() + std::chrono::duration_cast<clock::duration>(
                                             std::chrono::duration<double>(is_quick() ? 0.2 : seconds)));
  }

  const cuda_options& options_;
  const gpu& on_;
  reporter& out_;
  const clock::time_point end_;
  std::vector<result> rows_;
};

inline double rate_of(std::uint64_t bytes, double us) { return static_cast<double>(bytes) / us / 1e3; }

// The parts. Each part prints its table.
void measure_machine(cuda_run& run);
void measure_costs(cuda_run& run);
void measure_kernels(cuda_run& run);
void measure_selections(cuda_run& run);

}  // namespace lsched::bench
