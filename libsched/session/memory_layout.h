// How an instance's one input lies to its one output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lsched {

/// A schedule is made for memory in place, or for memory that does not overlap. Memory that is bound later has to have
/// the same layout.
struct memory_layout {
  bool in_place = false;
  std::int64_t aliasing_bytes = 0;  ///< in place, from the output's beginning to the input's

  bool fits(std::span<const std::byte> input, std::span<const std::byte> output) const {
    if (input.empty() || output.empty()) return true;
    if (input.data() == output.data() + aliasing_bytes) return in_place;
    const auto in = reinterpret_cast<std::uintptr_t>(input.data());
    const auto out = reinterpret_cast<std::uintptr_t>(output.data());
    return !in_place && (in >= out + output.size() || out >= in + input.size());
  }
};

}  // namespace lsched
