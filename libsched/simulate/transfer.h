// The costs of messages, and the times at which CPUs and NICs of sender and receiver handle messages.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "libsched/simulate/packed_world.h"
#include "libsched/simulate/simulated_round.h"

namespace lsched {

/// The costs of messages, by message size and level of the machine. If there are at most k_most_costs costs, all are
/// computed in advance. Otherwise each cost is computed on demand.
class cost_table {
 public:
  cost_table(const packed_world& world, const machine& where) : world_(world), where_(where) {
    const std::size_t levels = where.levels.size();
    if (world.size_count() * levels > k_most_costs) return;
    for (std::uint32_t size = 0; size < world.size_count(); ++size)
      for (std::size_t level = 0; level < levels; ++level)
        costs_.push_back(cost_of(where, level, world.bytes_of(size)));
  }

  /// Returns the cost of a message. The reference is valid until the next call of cost().
  const message_cost& cost(std::uint32_t size_number, std::size_t level) {
    if (!costs_.empty()) return costs_[size_number * where_.levels.size() + level];
    return last_cost_ = cost_of(where_, level, world_.bytes_of(size_number));
  }

  std::size_t memory() const { return costs_.capacity() * sizeof(message_cost); }

 private:
  static constexpr std::size_t k_most_costs = 1024;

  const packed_world& world_;
  const machine& where_;
  std::vector<message_cost> costs_;  ///< indexed by size, then by level
  message_cost last_cost_;
};

/// Returns the charge for the noise of a CPU.
constexpr charge lost(picoseconds time) { return {time, {.noise = time}}; }

/// Initial value for the last use of a NIC, earlier than all events.
inline constexpr picoseconds k_long_ago = std::numeric_limits<picoseconds>::min() / 4;

/// Returns the instant `time`, at which a path begins.
template <class Time>
Time at_instant(picoseconds time) {
  if constexpr (std::is_same_v<Time, traced_time>)
    return {.at = time, .parts = {.start = time}};
  else
    return time;
}

/// The times from which a NIC can send and receive the next message.
template <class Time>
struct nic_times {
  Time sends_from = at_instant<Time>(0);         ///< time from which the NIC can send the next message
  Time received = at_instant<Time>(k_long_ago);  ///< time at which the last message was completely received
};

/// Returns the lookahead: the minimum time between an event and any event that it causes at another rank. `bytes` is
/// the length of the longest message.
inline picoseconds lookahead(const machine& where, std::uint64_t bytes) {
  picoseconds least = std::numeric_limits<picoseconds>::max();
  const bool has_rendezvous = bytes > where.S;
  for (const machine_level& level : where.levels)
    least = std::min(least, level.cost.L + (has_rendezvous ? 0 : level.cost.o));
  return least;
}

/// Eager protocol: the sender's CPU passes the message to the NIC. Returns the earliest time at which the receiver's
/// CPU can begin to process the message.
template <class Time>
Time send_eagerly(Time& cpu, Time& nic, const message_cost& cost, picoseconds noise) {
  const Time begin = cpu + lost(noise);
  cpu = begin + cost.sender;
  const Time leaves = later(begin + cost.overhead, nic);
  nic = leaves + cost.gap;
  return leaves + cost.latency + cost.tail;
}

/// The receiver's NIC receives a message after the previous message. Returns the time at which the message has been
/// received.
template <class Time>
Time take_in(Time& nic, const Time& arrives, const message_cost& cost) {
  return nic = later(arrives, nic + cost.gap);
}

/// Rendezvous: the sender's CPU announces a message. Returns the time at which the announcement reaches the receiver.
template <class Time>
Time announce(Time& cpu, const message_cost& cost, picoseconds noise) {
  cpu = cpu + cost.overhead + lost(noise);
  return cpu + cost.latency;
}

/// Rendezvous: the receiver's CPU sends the grant. Returns the time at which the grant reaches the sender.
template <class Time>
Time grant(Time& cpu, const message_cost& cost) {
  cpu = cpu + cost.overhead;
  return cpu + cost.latency;
}

/// Rendezvous: the sender's NIC moves the data. The send buffer can be reused when the NIC is free again. Returns the
/// earliest time at which the receiver's CPU can begin to process the message.
template <class Time>
Time move_data(Time& nic, const Time& granted, const message_cost& cost) {
  const Time leaves = later(granted, nic);
  nic = leaves + cost.gap;
  return leaves + cost.latency + cost.tail;
}

/// The rendezvous sends whose bytes are leaving the sender. Each rank has a linked list of its sends, sorted by end
/// time, and stores the head of this list. All lists share one pool of entries.
template <class Time>
class departures {
 public:
  using head = std::uint32_t;
  static constexpr head k_none = ~0u;

  struct departure {
    Time end{};
    op_id send = k_no_op;
    head next = k_none;  ///< next entry in the list of the rank, or in the list of free entries
  };

  void add(head& first, const Time& end, op_id send) {
    head entry = free_;
    if (entry == k_none) {
      entry = static_cast<head>(pool_.size());
      pool_.emplace_back();
    } else {
      free_ = pool_[entry].next;
    }
    head* before = &first;
    while (*before != k_none && instant_of(pool_[*before].end) <= instant_of(end)) before = &pool_[*before].next;
    pool_[entry] = {end, send, *before};
    *before = entry;
  }

  bool has_ended(head first, picoseconds now) const { return first != k_none && instant_of(pool_[first].end) <= now; }

  departure take(head& first) {
    const departure taken = pool_[first];
    pool_[first].next = free_;
    free_ = std::exchange(first, taken.next);
    return taken;
  }

  std::size_t memory() const { return pool_.capacity() * sizeof(departure); }

 private:
  std::vector<departure> pool_;
  head free_ = k_none;
};

}  // namespace lsched
