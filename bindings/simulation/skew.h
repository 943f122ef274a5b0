// Skew and noise: when ranks begin, and what their CPUs and the wire lose meanwhile.
//
// Every draw is a hash of (seed, rank, instance, op), so that no result depends on an engine, a thread or the order of
// events, and any rank can be recomputed by itself.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libsched/simulate/simulated_round.h"
#include "ops/status.h"

namespace lsched {

enum class skew_kind : std::uint8_t {
  none,
  linear,      ///< rank r begins at r * scale
  uniform,     ///< up to scale
  lognormal,   ///< median scale, sigma
  stragglers,  ///< `count` ranks, drawn anew for each instance, begin at scale
  empirical,   ///< one of the samples
  fixed,       ///< the ranks of a set, the same ones in each instance, begin at scale
  rotating,    ///< linear, and with each instance each rank takes the place of the next
  listed,      ///< rank r begins at samples[r]
};

struct start_skew {
  skew_kind kind = skew_kind::none;
  picoseconds scale = 1'000'000'000;
  double sigma = 0.5;
  rank count = 1;
  picoseconds shift = 0;               ///< added to uniform, lognormal and rotating starts
  picoseconds most = 0;                ///< larger ones are cut to this; 0: none are
  std::vector<picoseconds> samples{};  ///< empirical; listed: one for each rank
  std::vector<rank> ranks{};           ///< of a fixed set, ascending
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
  std::int64_t turns_;  ///< of rotating
  std::uint64_t stream_;
  std::vector<rank> stragglers_;  ///< ascending
};

enum class noise_kind : std::uint8_t {
  none,
  periodic,     ///< the CPU is away for `scale` every `period`; each rank has a phase of its own
  exponential,  ///< every CPU charge is longer by an exponential draw of mean `scale`
  pareto,       ///< every CPU charge is longer by scale * (pareto(alpha) - 1)
  trace,        ///< the CPU is away as a list says, over and over; each rank begins at a point of its own
};

/// When a CPU is away; repeated with the end of the last gap as its period, so that the list begins anew there.
struct noise_trace {
  struct gap {
    picoseconds begin = 0, length = 0;
  };
  std::vector<gap> gaps{};            ///< ascending, disjoint
  std::vector<picoseconds> worked{};  ///< of each gap: the work that is done before it begins
  picoseconds period = 0, work = 0;   ///< time and work of one pass

  /// Failures: ARGUMENT (no gaps; negative, overlapping or unordered ones; no work between them).
  static result<noise_trace> from(std::vector<gap> gaps);
  /// How long a CPU is away that has `cost` of work from `begin` on.
  picoseconds away(picoseconds begin, picoseconds cost) const;
};

/// Ranks that are always slower, or faster, than others: all that their CPUs do takes pace_of times as long.
struct cpu_pace {
  double cv = 0;           ///< of a normal distribution around 1, cut to [1/2, 3/2]
  double slow_share = 0;   ///< of the ranks, drawn one by one, also are
  double slow_factor = 1;  ///< so many times slower; at least 1
  bool is_even() const { return cv == 0 && (slow_share == 0 || slow_factor == 1); }
};

struct cpu_noise {
  noise_kind kind = noise_kind::none;
  picoseconds scale = 25'000'000;
  picoseconds period = 1'000'000'000;
  double alpha = 2;
  picoseconds jitter = 0;  ///< mean of an exponential draw added to every message's latency
  noise_trace trace{};
  bool is_cosched = false;  ///< trace: all ranks begin at the same point of it
  cpu_pace pace{};
  std::uint64_t seed = 1;

  bool is_silent() const { return kind == noise_kind::none && jitter == 0 && pace.is_even(); }
};

/// LogGOPSim's noise trace: lines of start and duration in ns, with '#' before remarks. Failures name the line.
result<noise_trace> parse_noise_trace(std::string_view text);

/// How many times longer than others a rank's CPU takes for everything; the same in all instances.
double pace_of(const cpu_noise& noise, rank r);

/// What the pace adds to a CPU charge; below 0 for fast ranks.
picoseconds drag_of(const cpu_noise& noise, rank r, picoseconds cost);

/// What a CPU charge of `cost` that begins at `begin` is lengthened by, its pace aside; never negative. `op` counts the
/// charges of the rank's program.
picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost);

/// What the message that `from` sends as its step `op` is late by; never negative.
picoseconds jitter_of(const cpu_noise& noise, rank from, round_no instance, std::uint64_t op);

/// Pace and noise together: what a CPU charge takes longer than its cost.
picoseconds delay_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost);

/// Of the send that is step `op` of rank `r`'s program.
disturbance disturbance_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                           const message_cost& cost);

std::string_view name_of(skew_kind kind);
std::string_view name_of(noise_kind kind);

}  // namespace lsched
