// LogGOPS: the cost of a message, in exact integers.
//
// The model of Hoefler, Schneider and Lumsdaine (LogGOPSim, 2010), after LogP (Culler et al., 1993) and LogGP
// (Alexandrov et al., 1995). A rank has a CPU and a network interface (NIC). A message of m bytes up to S costs
//
//   sender's CPU      o + (m-1) O
//   sender's NIC      g + (m-1) G      before the next message may leave
//   wire              L
//   receiver's NIC    g + (m-1) G      before the next message may come in
//   receiver's CPU    o + (m-1) O      when the receive is matched
//
// and, without contention, takes T(m) = 2o + L + (m-1) max(G, O). Above S a message is announced and granted first
// (rendezvous), and then moved by the NICs: 3o + 3L + (m-1) max(G, O). m = 0 costs the same as m = 1.
//
// Times are whole picoseconds in 64 bits, up to k_forever. Sums and products saturate there instead of wrapping around,
// and a result that large is refused. G, O and the arithmetic are whole femtoseconds per byte, so 400 GB/s is exact.
// The bytes of a message are rounded to a picosecond once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/base.h"

namespace lsched {

using picoseconds = std::int64_t;
using femtoseconds = std::int64_t;

/// 26 days, the latest time. The sum of three such times fits in 64 bits.
inline constexpr picoseconds k_forever = picoseconds{1} << 61;

/// Returns the time in whole picoseconds, or k_forever if it is too large or no number.
inline picoseconds rounded(double time) {
  return time < static_cast<double>(k_forever) ? std::llround(time) : k_forever;
}

/// Returns the sum of two times up to k_forever.
constexpr picoseconds sum(picoseconds x, picoseconds y) { return std::min(x + y, k_forever); }

/// Returns n times `each`. Neither may be negative.
constexpr picoseconds product(std::int64_t n, picoseconds each) {
  picoseconds all = 0;
  return __builtin_mul_overflow(n, each, &all) ? k_forever : std::min(all, k_forever);
}

/// The parameters of the model, with the letters of the papers.
struct loggops {
  picoseconds L = 2'500'000;   ///< latency of the wire
  picoseconds o = 1'500'000;   ///< CPU time of a message, at either end
  picoseconds g = 1'000'000;   ///< gap between messages at a NIC
  femtoseconds G = 6'000'000;  ///< gap per byte: 1 / bandwidth
  femtoseconds O = 0;          ///< CPU time per byte
  friend bool operator==(const loggops&, const loggops&) = default;
};

/// A level of the machine: groups of `ranks` neighbours. Two ranks communicate at the cost of the smallest group that
/// has both.
struct machine_level {
  rank ranks = std::numeric_limits<rank>::max();
  loggops cost{};
  bool shares_nic = false;  ///< a group has one NIC for ranks outside; inside, each rank has its own
};

/// The machine on which a schedule is simulated. The default numbers are those of LogGOPSim.
struct machine {
  std::vector<machine_level> levels{1};  ///< innermost first; the last holds every rank
  std::uint64_t S = 65'535;              ///< largest eager message, in bytes
  femtoseconds compute = 0;              ///< per byte of a reduction or copy

  std::size_t level_of(rank x, rank y) const {
    std::size_t level = 0;
    while (level + 1 < levels.size() && x / levels[level].ranks != y / levels[level].ranks) ++level;
    return level;
  }

  /// Returns the outermost level whose groups share a NIC; levels.size() if no level does.
  std::size_t sharing_level() const {
    std::size_t found = levels.size();
    for (std::size_t level = 0; level < levels.size(); ++level)
      if (levels[level].shares_nic) found = level;
    return found;
  }
  bool shares_nics() const { return sharing_level() < levels.size(); }
};

/// Returns bytes * rate, rounded to a picosecond.
constexpr picoseconds time_of(std::uint64_t bytes, femtoseconds rate) {
  const auto thousands = static_cast<std::int64_t>(bytes / 1000), rest = static_cast<std::int64_t>(bytes % 1000);
  return sum(product(thousands, rate), rest * (rate / 1000) + (rest * (rate % 1000) + 500) / 1000);
}

/// The parts of a time. Their sum along a path is the path's derivative by each parameter.
struct path_parts {
  std::int64_t L = 0, o = 0, g = 0;       ///< number of terms
  std::int64_t G_bytes = 0, O_bytes = 0;  ///< bytes
  std::int64_t compute_bytes = 0;         ///< bytes
  picoseconds noise = 0;                  ///< noise and jitter
  picoseconds start = 0;                  ///< time when the path's first rank began
  friend bool operator==(const path_parts&, const path_parts&) = default;

  path_parts& operator+=(const path_parts& more) {
    L += more.L, o += more.o, g += more.g;
    G_bytes += more.G_bytes, O_bytes += more.O_bytes, compute_bytes += more.compute_bytes;
    noise += more.noise, start += more.start;
    return *this;
  }
};

/// A duration and its parts.
struct charge {
  picoseconds time = 0;
  path_parts parts{};
};

/// The pieces of one message's cost at one level.
struct message_cost {
  charge overhead;     ///< o
  charge sender;       ///< o + (m-1) O, of the sender's CPU
  charge latency;      ///< L
  charge gap;          ///< g + (m-1) G, of each NIC
  charge tail;         ///< from the head's arrival until the receiver's CPU can begin
  charge receiver;     ///< o + (m-1) O, of the receiver's CPU
  charge combination;  ///< reduction or copy of the bytes
  bool is_eager = true;
};

inline message_cost cost_of(const machine& where, std::size_t level, std::uint64_t bytes) {
  const loggops& p = where.levels[level].cost;
  const std::uint64_t more = std::max<std::uint64_t>(bytes, 1) - 1;
  const auto n = static_cast<std::int64_t>(more);
  const picoseconds wire = time_of(more, p.G), touch = time_of(more, p.O);
  const std::int64_t slower_G = p.G > p.O ? n : 0;

  message_cost cost;
  cost.overhead = {p.o, {.o = 1}};
  cost.sender = {sum(p.o, touch), {.o = 1, .O_bytes = n}};
  cost.latency = {p.L, {.L = 1}};
  cost.gap = {sum(p.g, wire), {.g = 1, .G_bytes = n}};
  cost.tail = {std::max(wire, touch) - touch, {.G_bytes = slower_G, .O_bytes = -slower_G}};
  cost.receiver = cost.sender;
  cost.combination = {time_of(bytes, where.compute), {.compute_bytes = static_cast<std::int64_t>(bytes)}};
  cost.is_eager = bytes <= where.S;
  return cost;
}

/// An instant with the longest path to it. The path has only the costs that were waited for.
struct traced_time {
  picoseconds at = 0;
  path_parts parts{};
};

// The engine is written once for plain instants and for traced instants.
inline picoseconds instant_of(picoseconds time) { return time; }
inline picoseconds instant_of(const traced_time& time) { return time.at; }
inline picoseconds operator+(picoseconds time, const charge& cost) { return sum(time, cost.time); }
inline traced_time operator+(traced_time time, const charge& cost) {
  if (time.at == k_forever) return time;
  time.at = sum(time.at, cost.time);
  time.parts += cost.parts;
  return time;
}
/// Returns the later instant; the first if both are equal.
template <class Time>
const Time& later(const Time& x, const Time& y) {
  return instant_of(x) >= instant_of(y) ? x : y;
}

}  // namespace lsched
