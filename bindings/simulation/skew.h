// Skew and noise: the times at which ranks begin, and the delays of the ranks' CPUs and of the network. A charge is the
// CPU time of one step of a rank.
//
// Every draw is a hash of (seed, rank, instance, op). So no result depends on an engine, a thread or the order of
// events, and the draws of a rank can be recomputed separately.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libsched/simulate/simulated_round.h"
#include "ops/status.h"

namespace lsched {

enum class skew_kind : std::uint8_t {
  none,
  linear,      ///< rank r begins at r * `scale`
  uniform,     ///< start times are uniform in (0, `scale`]
  lognormal,   ///< start times are lognormal with median `scale`, and `sigma`
  stragglers,  ///< `count` ranks, drawn anew for each instance, begin at `scale`; others at 0
  empirical,   ///< each rank begins at a randomly drawn element of `samples`
  fixed,       ///< in each instance, the ranks in `ranks` begin at `scale`; others at 0
  rotating,    ///< as linear, but in each instance every rank takes the place of the next rank
  listed,      ///< rank r begins at `samples[r]`
};

struct start_skew {
  skew_kind kind = skew_kind::none;
  picoseconds scale = 1'000'000'000;
  double sigma = 0.5;
  rank count = 1;
  picoseconds shift = 0;               ///< added to uniform, lognormal and rotating starts
  picoseconds most = 0;                ///< upper limit of starts; 0: no limit
  std::vector<picoseconds> samples{};  ///< start times for `empirical` and `listed`; for `listed`: by rank
  std::vector<rank> ranks{};           ///< ranks for `fixed`, ascending
  std::uint64_t seed = 1;
};

/// The start times of the ranks in one instance of a collective. operator() cheaply computes the start time of one
/// rank.
class start_times {
 public:
  start_times(start_skew skew, rank size, round_no instance = 1);
  picoseconds operator()(rank r) const;

 private:
  void draw_stragglers();
  picoseconds drawn(rank r) const;

  start_skew skew_;
  rank size_;
  std::int64_t turns_;  ///< for `rotating`: number of places that each rank has advanced
  std::uint64_t stream_;
  std::vector<rank> stragglers_;  ///< ascending
};

enum class noise_kind : std::uint8_t {
  none,
  periodic,     ///< the CPU is away (does no work) for `scale` every `period`; each rank has its own phase
  exponential,  ///< every charge is longer by an exponential draw of mean `scale`
  pareto,       ///< every charge is longer by `scale` * (pareto(`alpha`) - 1)
  trace,        ///< the CPU is away in the gaps of a list, which repeats; each rank begins at its own point
};

/// A list of gaps, in which a CPU is away. The list repeats from the end of its last gap on.
struct noise_trace {
  struct gap {
    picoseconds begin = 0, length = 0;
  };
  std::vector<gap> gaps{};            ///< ascending, disjoint
  std::vector<picoseconds> worked{};  ///< work that is done before each gap
  picoseconds period = 0, work = 0;   ///< time and work of one pass through the list

  /// Makes a trace. Returns ARGUMENT if there are no gaps, if gaps are negative, overlapping or unordered, or if there
  /// is no time between them.
  static result<noise_trace> from(std::vector<gap> gaps);
  /// Returns how long a CPU is away during a charge of `cost` that begins at `begin`.
  picoseconds away(picoseconds begin, picoseconds cost) const;
};

/// The speeds of ranks: every charge of a rank takes pace_of() times as long.
struct cpu_pace {
  double cv = 0;           ///< coefficient of variation of a normal distribution around 1, cut to [1/2, 3/2]
  double slow_share = 0;   ///< probability that a rank is slow in addition
  double slow_factor = 1;  ///< additional factor for charges of slow ranks; at least 1
  bool is_even() const { return cv == 0 && (slow_share == 0 || slow_factor == 1); }
};

struct cpu_noise {
  noise_kind kind = noise_kind::none;
  picoseconds scale = 25'000'000;
  picoseconds period = 1'000'000'000;
  double alpha = 2;
  picoseconds jitter = 0;  ///< mean of an exponential draw added to every message's latency
  noise_trace trace{};
  bool is_cosched = false;  ///< all ranks begin at the same point of the trace
  cpu_pace pace{};
  std::uint64_t seed = 1;

  bool is_silent() const { return kind == noise_kind::none && jitter == 0 && pace.is_even(); }
};

/// Parses a noise trace of LogGOPSim: each line contains the start and the duration of a gap, in ns. Lines that begin
/// with '#' are comments. A failure contains the number of the line.
result<noise_trace> parse_noise_trace(std::string_view text);

/// Returns the factor by which every charge of rank `r` is longer. The factor is equal in all instances.
double pace_of(const cpu_noise& noise, rank r);

/// Returns the time that the pace adds to a charge of `cost`. The time is negative for fast ranks.
picoseconds drag_of(const cpu_noise& noise, rank r, picoseconds cost);

/// Returns the time that noise, without the pace, adds to a charge of `cost` that begins at `begin`. The time is never
/// negative. `op` is the number of the charge in the rank's program.
picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost);

/// Returns the delay of the message that rank `from` sends in step `op` of its program. The delay is never negative.
picoseconds jitter_of(const cpu_noise& noise, rank from, round_no instance, std::uint64_t op);

/// Returns the time that pace and noise together add to a charge.
picoseconds delay_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost);

/// Returns the disturbance of the send that is step `op` of rank `r`'s program.
disturbance disturbance_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                           const message_cost& cost);

std::string_view name_of(skew_kind kind);
std::string_view name_of(noise_kind kind);

}  // namespace lsched
