// LogGOPS: what a message costs, in exact integers.
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
// and, where nothing is in its way, takes T(m) = 2o + L + (m-1) max(G, O). Above S it is announced and asked for first
// (rendezvous), and the NICs move it: 3o + 3L + (m-1) max(G, O). m = 0 costs what m = 1 costs.
//
// Times are whole picoseconds in 64 bits, up to k_forever: sums and products stay there instead of wrapping around, and
// what takes so long is refused (simulation.h, checked). G, O and the arithmetic are whole femtoseconds per byte, so
// 400 GB/s is exact; a message's bytes are rounded to a picosecond once.
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

/// 26 days: nothing is later, and the sum of three of these still has room in 64 bits.
inline constexpr picoseconds k_forever = picoseconds{1} << 61;

/// k_forever if there is no such time.
inline picoseconds rounded(double time) {
  return time < static_cast<double>(k_forever) ? std::llround(time) : k_forever;
}

/// Of times up to k_forever each.
constexpr picoseconds sum(picoseconds x, picoseconds y) { return std::min(x + y, k_forever); }

/// n times `each`; neither is negative.
constexpr picoseconds product(std::int64_t n, picoseconds each) {
  picoseconds all = 0;
  return __builtin_mul_overflow(n, each, &all) ? k_forever : std::min(all, k_forever);
}

/// The letters are the papers'.
struct loggops {
  picoseconds L = 2'500'000;   ///< latency of the wire
  picoseconds o = 1'500'000;   ///< CPU time of a message, at either end
  picoseconds g = 1'000'000;   ///< gap between messages at a NIC
  femtoseconds G = 6'000'000;  ///< gap per byte: 1 / bandwidth
  femtoseconds O = 0;          ///< CPU time per byte
  friend bool operator==(const loggops&, const loggops&) = default;
};

/// A level of the machine: ranks of one group of `ranks` neighbours talk at this cost, unless a smaller group has both.
struct machine_level {
  rank ranks = std::numeric_limits<rank>::max();
  loggops cost{};
  bool shares_nic = false;  ///< a group talks to ranks outside through one NIC; inside, each rank has its own
};

/// Where a schedule is simulated. The default's numbers are LogGOPSim's.
struct machine {
  std::vector<machine_level> levels{1};  ///< innermost first; the last holds every rank
  std::uint64_t S = 65'535;              ///< largest eager message, bytes
  femtoseconds compute = 0;              ///< per byte of a reduction or copy

  std::size_t level_of(rank x, rank y) const {
    std::size_t level = 0;
    while (level + 1 < levels.size() && x / levels[level].ranks != y / levels[level].ranks) ++level;
    return level;
  }

  /// The outermost level whose groups share a NIC; levels.size() if none does.
  std::size_t sharing_level() const {
    std::size_t found = levels.size();
    for (std::size_t level = 0; level < levels.size(); ++level)
      if (levels[level].shares_nic) found = level;
    return found;
  }
  bool shares_nics() const { return sharing_level() < levels.size(); }
};

/// bytes * rate, rounded to a picosecond.
constexpr picoseconds time_of(std::uint64_t bytes, femtoseconds rate) {
  const auto thousands = static_cast<std::int64_t>(bytes / 1000), rest = static_cast<std::int64_t>(bytes % 1000);
  return sum(product(thousands, rate), rest * (rate / 1000) + (rest * (rate % 1000) + 500) / 1000);
}

/// What a time is made of. A sum of these along a path is the path's derivative by each parameter.
struct path_parts {
  std::int64_t L = 0, o = 0, g = 0;       ///< how often
  std::int64_t G_bytes = 0, O_bytes = 0;  ///< bytes
  std::int64_t compute_bytes = 0;         ///< bytes
  picoseconds noise = 0;                  ///< noise and jitter
  picoseconds start = 0;                  ///< when the path's first rank began
  friend bool operator==(const path_parts&, const path_parts&) = default;

  path_parts& operator+=(const path_parts& more) {
    L += more.L, o += more.o, g += more.g;
    G_bytes += more.G_bytes, O_bytes += more.O_bytes, compute_bytes += more.compute_bytes;
    noise += more.noise, start += more.start;
    return *this;
  }
};

/// A duration and what it is made of.
struct charge {
  picoseconds time = 0;
  path_parts parts{};
};

/// The pieces of one message's cost at one level.
struct message_cost {
  charge overhead;     ///< o
  charge sender;       ///< o + (m-1) O, of the sender's CPU
  charge latency;      ///< L
  charge gap;          ///< g + (m-1) G, of either NIC
  charge tail;         ///< from the head's arrival until the receiver's CPU can begin
  charge receiver;     ///< of the receiver's CPU
  charge combination;  ///< of these bytes with others
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

/// An instant that knows the longest path to it: what was waited for, and nothing else.
struct traced_time {
  picoseconds at = 0;
  path_parts parts{};
};

// The engines are written once for plain instants and for traced ones.
inline picoseconds instant_of(picoseconds time) { return time; }
inline picoseconds instant_of(const traced_time& time) { return time.at; }
inline picoseconds operator+(picoseconds time, const charge& cost) { return sum(time, cost.time); }
inline traced_time operator+(traced_time time, const charge& cost) {
  if (time.at == k_forever) return time;
  time.at = sum(time.at, cost.time);
  time.parts += cost.parts;
  return time;
}
/// The first of two equal ones.
template <class Time>
const Time& later(const Time& x, const Time& y) {
  return instant_of(x) >= instant_of(y) ? x : y;
}

}  // namespace lsched
