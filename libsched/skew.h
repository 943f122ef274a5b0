// Skew and noise: when ranks begin, and what their CPUs and the wire lose meanwhile.
//
// Every draw is a hash of (seed, rank, instance, op), so that no result depends on an engine, a thread or the order of
// events, and any rank can be recomputed by itself.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libsched/loggops.h"

namespace lsched {

enum class skew_kind : std::uint8_t {
  none,
  linear,      ///< rank r begins at r * scale
  uniform,     ///< up to scale
  lognormal,   ///< median scale, sigma
  stragglers,  ///< `count` ranks, drawn anew for each instance, begin at scale
  empirical,   ///< one of the samples
};

struct start_skew {
  skew_kind kind = skew_kind::none;
  picoseconds scale = 1'000'000'000;
  double sigma = 0.5;
  rank count = 1;
  picoseconds shift = 0;                     ///< added to every draw of uniform and lognormal
  picoseconds most = 0;                      ///< larger ones are cut to this; 0: none are
  std::vector<picoseconds> samples{};
  std::uint64_t seed = 1;
};

/// The starts of one instance of a collective. Cheap to call, one rank at a time.
class start_times {
 public:
  start_times(start_skew skew, rank size, round_no instance = 1);
  picoseconds operator()(rank r) const;

 private:
  void draw_stragglers();
  picoseconds drawn(rank r) const;

  start_skew skew_;
  rank size_;
  std::uint64_t stream_;
  std::vector<rank> stragglers_;  ///< ascending
};

enum class noise_kind : std::uint8_t {
  none,
  periodic,     ///< the CPU is away for `scale` every `period`; each rank has a phase of its own
  exponential,  ///< every CPU charge is longer by an exponential draw of mean `scale`
  pareto,       ///< every CPU charge is longer by scale * (pareto(alpha) - 1)
};

struct cpu_noise {
  noise_kind kind = noise_kind::none;
  picoseconds scale = 25'000'000;
  picoseconds period = 1'000'000'000;
  double alpha = 2;
  picoseconds jitter = 0;  ///< mean of an exponential draw added to every message's latency
  std::uint64_t seed = 1;

  bool is_silent() const { return kind == noise_kind::none && jitter == 0; }
};

/// What a CPU charge of `cost` that begins at `begin` is lengthened by. `op` counts the charges of the rank's program.
picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost);

/// What the message that `from` sends as its step `op` is late by; never negative.
picoseconds jitter_of(const cpu_noise& noise, rank from, round_no instance, std::uint64_t op);

std::string_view name_of(skew_kind kind);
std::string_view name_of(noise_kind kind);

}  // namespace lsched
