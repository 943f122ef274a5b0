// A rank of the parts of `lsched bench cuda` that have ranks: a process, or a thread.
#pragma once

#include <vector>

#include "microbench/cuda/cuda_run.h"

namespace lsched::bench {

/// Attaches the first device. Throws `no_gpu` where that is unsupported.
void attach_device(lsched_world* world);

/// Takes turns of ways that all ranks take part in: a sample is the time of the slowest rank. Rank 0's clock decides.
/// Collective.
class shared_turns {
 public:
  struct way {
    result keys;                   ///< of its line
    std::function<void()> round;   ///< collective
    std::function<void()> open{};  ///< before it, not timed
    std::vector<double> us{};      ///< by round, this rank's; of all ranks, the slowest's, in the end
    double cpu_ms = 0;             ///< of this process, in all rounds
    std::uint64_t wrong = 0;       ///< ranks with wrong results
  };
  shared_turns(cuda_run& run, team& ranks) : run_(run), ranks_(ranks) {}

  /// So many rounds of each, fewer if time is over, but three.
  void take(std::vector<way>& ways, std::size_t rounds, double cell_seconds);

 private:
  void take_once(way& each);

  cuda_run& run_;
  team& ranks_;
};

// The parts, by each rank. Collective.
void measure_allreduce(cuda_run& run, team& ranks);
void measure_streams(cuda_run& run, team& ranks);
void measure_idle(cuda_run& run, team& ranks);

}  // namespace lsched::bench
