// LogGOPS: a model of the cost of a message, computed with exact integers.
//
// The model is by Hoefler, Schneider and Lumsdaine (LogGOPSim, 2010). It extends LogP (Culler et al., 1993) and LogGP
// (Alexandrov et al., 1995). A rank has a CPU and a network interface (NIC). A message of m bytes, with m <= S, costs
//
//   sender's CPU      o + (m-1) O
//   sender's NIC      g + (m-1) G      before the next message can leave
//   wire              L
//   receiver's NIC    g + (m-1) G      before the next message can come in
//   receiver's CPU    o + (m-1) O      when the receive is matched
//
// and, without contention, the time is T(m) = 2o + L + (m-1) max(G, O). If m > S, a message is sent by rendezvous: the
// sender announces the message, the receiver replies with a grant, and then the NICs move the data. This takes 3o + 3L
// + (m-1) max(G, O). A message of 0 bytes costs as much as a message of 1 byte.
//
// Times are whole picoseconds in 64 bits. Sums and products saturate at k_forever, and a simulation with such a result
// fails. G, O and the cost of reductions are whole femtoseconds per byte, so 400 GB/s (2.5 ps per byte) is exact. The
// time for all bytes of a message is rounded to picoseconds only once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/base.h"

namespace lsched {

using picoseconds = std::int64_t;
using femtoseconds = std::int64_t;

/// The maximum time, about 26 days. The sum of three such times fits in 64 bits.
inline constexpr picoseconds k_forever = picoseconds{1} << 61;

/// Returns the time in whole picoseconds. Returns k_forever if `time` is too large or NaN.
inline picoseconds rounded(double time) {
  return time < static_cast<double>(k_forever) ? std::llround(time) : k_forever;
}

/// Returns the sum of two times, at most k_forever. Both times must be at most k_forever.
constexpr picoseconds sum(picoseconds x, picoseconds y) { return std::min(x + y, k_forever); }

/// Returns n * each, at most k_forever. Neither `n` nor `each` may be negative.
constexpr picoseconds product(std::int64_t n, picoseconds each) {
  picoseconds all = 0;
  return __builtin_mul_overflow(n, each, &all) ? k_forever : std::min(all, k_forever);
}

/// The parameters of the model. The names are those of the papers.
struct loggops {
  picoseconds L = 2'500'000;   ///< latency of the wire
  picoseconds o = 1'500'000;   ///< CPU time of a message, at either end
  picoseconds g = 1'000'000;   ///< gap between messages at a NIC
  femtoseconds G = 6'000'000;  ///< gap per byte: 1 / bandwidth
  femtoseconds O = 0;          ///< CPU time per byte
  friend bool operator==(const loggops&, const loggops&) = default;
};

/// A level of the machine. A level divides the ranks into groups of `ranks` consecutive ranks. A message has the cost
/// of the innermost level at which both ranks are in the same group.
struct machine_level {
  rank ranks = std::numeric_limits<rank>::max();
  loggops cost{};
  bool shares_nic = false;  ///< a group shares a NIC for messages to other groups, but not for messages in the group
};

/// Description of the machine on which a schedule is simulated. The default numbers are those of LogGOPSim.
struct machine {
  std::vector<machine_level> levels{1};  ///< from the innermost outwards; the last level is one group of all ranks
  std::uint64_t S = 65'535;              ///< largest eager message, in bytes
  femtoseconds compute = 0;              ///< time per byte of a reduction or copy

  std::size_t level_of(rank x, rank y) const {
    std::size_t level = 0;
    while (level + 1 < levels.size() && x / levels[level].ranks != y / levels[level].ranks) ++level;
    return level;
  }

  /// Returns the outermost level whose groups share a NIC. Returns levels.size() if there is no such level.
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

/// The composition of a time: how often the time contains each parameter of the model. So each member is the derivative
/// of the time with respect to the parameter of the same name.
struct path_parts {
  std::int64_t L = 0, o = 0, g = 0;       ///< number of terms L, o and g
  std::int64_t G_bytes = 0, O_bytes = 0;  ///< bytes that cost G, and bytes that cost O
  std::int64_t compute_bytes = 0;         ///< number of bytes that are reduced or copied
  picoseconds noise = 0;                  ///< noise of CPUs
  picoseconds start = 0;                  ///< time when the path's first rank began
  friend bool operator==(const path_parts&, const path_parts&) = default;

  path_parts& operator+=(const path_parts& more) {
    L += more.L, o += more.o, g += more.g;
    G_bytes += more.G_bytes, O_bytes += more.O_bytes, compute_bytes += more.compute_bytes;
    noise += more.noise, start += more.start;
    return *this;
  }
};

struct charge {
  picoseconds time = 0;
  path_parts parts{};
};

/// The components of the cost of a message at one level of the machine.
struct message_cost {
  charge overhead;     ///< o
  charge sender;       ///< o + (m-1) O, the time of the sender's CPU
  charge latency;      ///< L
  charge gap;          ///< g + (m-1) G, the time of each NIC
  charge tail;         ///< time from the arrival of the first byte until the receiver's CPU can begin
  charge receiver;     ///< o + (m-1) O, the time of the receiver's CPU
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

/// Value of traced_time::last_op if the path has no op.
inline constexpr std::size_t k_no_recorded_op = std::numeric_limits<std::size_t>::max();

/// A point in time (instant), with the longest path that leads to this instant.
struct traced_time {
  picoseconds at = 0;
  path_parts parts{};
  std::size_t last_op = k_no_recorded_op;  ///< index, in the record of the round, of the last op on the path
};

// The simulator is a template over the type of instants, which is picoseconds or traced_time.
inline picoseconds instant_of(picoseconds time) { return time; }
inline picoseconds instant_of(const traced_time& time) { return time.at; }
inline std::size_t last_op_of(picoseconds) { return k_no_recorded_op; }
inline std::size_t last_op_of(const traced_time& time) { return time.last_op; }
inline void set_last_op(picoseconds&, std::size_t) {}
inline void set_last_op(traced_time& time, std::size_t op) { time.last_op = op; }
inline picoseconds operator+(picoseconds time, const charge& cost) { return sum(time, cost.time); }
inline traced_time operator+(traced_time time, const charge& cost) {
  if (time.at == k_forever) return time;
  time.at = sum(time.at, cost.time);
  time.parts += cost.parts;
  return time;
}
/// Returns the later instant. If both are equal, returns `x`.
template <class Time>
const Time& later(const Time& x, const Time& y) {
  return instant_of(x) >= instant_of(y) ? x : y;
}

}  // namespace lsched
