// The two ends of an eager message, as every engine counts them.
#pragma once

#include "libsched/loggops.h"

namespace lsched {

/// What noise adds to a charge, or jitter to a message.
constexpr charge lost(picoseconds time) { return {time, {.noise = time}}; }

/// The sender's CPU hands a message to its NIC. Answers when the receiver's CPU could begin.
template <class Time>
Time send_eagerly(Time& cpu, Time& nic, const message_cost& cost, const charge& noise, const charge& jitter) {
  const Time begin = cpu;
  cpu = begin + cost.sender + noise;
  const Time leaves = later(begin + cost.overhead + noise, nic);
  nic = leaves + cost.gap;
  return leaves + cost.latency + jitter + cost.tail;
}

/// LogGOPSim: CPU and NIC have to be free at once.
template <class Time>
Time send_blocking(Time& cpu, Time& nic, const message_cost& cost, const charge& noise, const charge& jitter) {
  const Time begin = later(cpu, nic);
  cpu = begin + cost.sender + noise;
  nic = begin + cost.gap;
  return begin + cost.overhead + noise + cost.latency + jitter;
}

}  // namespace lsched
