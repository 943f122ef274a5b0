// The two ends of an eager message, as every engine counts them.
#pragma once

#include "libsched/loggops.h"

namespace lsched {

/// What noise adds to a charge, or jitter to a message.
constexpr charge lost(picoseconds time) { return {time, {.noise = time}}; }

/// The sender's CPU hands a message to its NIC. Answers when the receiver's CPU could begin.
template <class Time>
Time send_eagerly(Time& cpu, Time& nic, const message_cost& cost, picoseconds noise, picoseconds jitter) {
  const Time begin = cpu + lost(noise);
  cpu = begin + cost.sender;
  const Time leaves = later(begin + cost.overhead, nic);
  nic = leaves + cost.gap;
  return leaves + cost.latency + cost.tail + lost(jitter);
}

/// LogGOPSim: CPU and NIC have to be free at once.
template <class Time>
Time send_blocking(Time& cpu, Time& nic, const message_cost& cost, picoseconds noise, picoseconds jitter) {
  const Time begin = later(cpu, nic) + lost(noise);
  cpu = begin + cost.sender;
  nic = begin + cost.gap;
  return begin + cost.overhead + cost.latency + lost(jitter);
}

}  // namespace lsched
