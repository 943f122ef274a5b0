// Skew defines the times at which ranks begin. Noise defines the random delays of the ranks' CPUs. A charge is the CPU
// time of one step of a rank.
//
// Every draw is a hash of (seed, rank, instance, op). So no result depends on an engine, a thread or the order of
// events, and the draws of a rank can be recomputed separately.
#pragma once

#include <cstdint>
#include <string_view>

#include "libsched/simulate/loggops.h"
#include "ops/base.h"

namespace lsched {

enum class skew_kind : std::uint8_t {
  none,
  linear,     ///< rank r begins at r * `scale`
  rotating,   ///< as linear, but in each instance every rank takes the place of the next rank
  lognormal,  ///< start times are lognormal: median `scale`, shape parameter `sigma`
  straggler,  ///< one rank, drawn anew for each instance, begins at `scale`, the other ranks at 0
};

struct start_skew {
  skew_kind kind = skew_kind::none;
  picoseconds scale = 1'000'000'000;
  double sigma = 0.5;
  picoseconds shift = 0;  ///< added to lognormal and rotating starts
  picoseconds most = 0;   ///< upper limit of starts; 0: no limit
  std::uint64_t seed = 1;
};

/// The start times of the ranks in one instance of a collective. operator() cheaply computes the start time of one
/// rank.
class start_times {
 public:
  start_times(start_skew skew, rank size, round_no instance = 1);
  picoseconds operator()(rank r) const;

 private:
  picoseconds drawn(rank r) const;

  start_skew skew_;
  rank size_;
  std::int64_t turns_;  ///< for `rotating`: number of places that each rank has advanced
  std::uint64_t stream_;
};

/// CPU noise: every charge takes longer by a random time with an exponential distribution.
struct cpu_noise {
  picoseconds mean = 0;  ///< mean of the random times; 0: no noise
  std::uint64_t seed = 1;
};

/// Returns the time that noise adds to a charge. `op` is the index of the charge in the rank's program.
picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op);

std::string_view name_of(skew_kind kind);

}  // namespace lsched
