// The parts of `lsched bench cuda` that have ranks. A rank is a process or a thread.
#pragma once

#include <vector>

#include "microbench/cuda/cuda_run.h"

namespace lsched::bench {

/// Attaches the first device to the world. Throws `no_gpu` if the device cannot be attached.
void attach_device(lsched_world* world);

/// Runs variants in turn on all ranks. A sample is the time of the slowest rank. The clock of rank 0 determines when
/// the time is over. take() is collective.
class shared_turns {
 public:
  struct way {
    result keys;                   ///< keys of the JSON line
    std::function<void()> round;   ///< collective
    std::function<void()> open{};  ///< called before each round, not timed
    std::vector<double> us{};      ///< times of this rank by round; after take(): times of the slowest rank
    double cpu_ms = 0;             ///< processor time of this process; after take(): of all ranks, per round
    std::uint64_t wrong = 0;       ///< number of ranks with wrong results
  };
  shared_turns(cuda_run& run, team& ranks) : run_(run), ranks_(ranks) {}

  /// Runs `rounds` rounds of each variant, or fewer if time is over, but at least three.
  void take(std::vector<way>& ways, std::size_t rounds, double cell_seconds);

 private:
  void take_once(way& each);

  cuda_run& run_;
  team& ranks_;
};

// The parts with ranks. These functions are collective.
void measure_allreduce(cuda_run& run, team& ranks);
void measure_streams(cuda_run& run, team& ranks);
void measure_idle(cuda_run& run, team& ranks);

}  // namespace lsched::bench
