// The schedule for a validated request: the algorithm, the segments, and the text on which all ranks must agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/requests/collective_request.h"
#include "collectives/schedule_cache.h"

namespace lsched {

/// Properties of memory. Only the transport and the device of a process can determine them.
struct memory_properties {
  using query = std::function<bool(const std::byte* begin, std::uint64_t bytes)>;
  query is_visible;    ///< peers can read the memory
  query is_on_device;  ///< the whole memory is device memory
};

/// Segment size in device memory. With shorter segments, the start of each copy would dominate the time. With longer
/// segments, copies would not overlap with computation. (docs/inside/cuda.md, 11)
inline constexpr std::uint64_t k_device_segment_bytes = std::uint64_t{4} << 20;

/// The schedule of one rank. `data` is the request with the segment and the radix of the chosen algorithm.
struct planned_collective : rank_request {
  schedule_ptr program{};
  std::string agreement{};
  std::string_view warning{};     ///< text of node_warning (collectives/algorithm/algorithm.h)
  std::vector<tensor> tensors{};  ///< tensors of an adaptive sum, at least one; empty for other collectives
  bool combines_tensors = true;   ///< false if an adaptive sum combines no tensors: the result is an input or a mean
};

/// Chooses the algorithm for a validated request and makes its schedule. If the caller has not set a segment size and
/// the buffers are in device memory, the segment size is k_device_segment_bytes. If this segment size does not change
/// the number of messages, it is not used, so that this rank makes the same schedule as ranks with buffers in host
/// memory.
result<cached_schedule> make_schedule(schedule_cache& made, const rank_request& request, std::string_view algorithm,
                                      const memory_properties& memory);

/// Validates a request of the cache's rank, and makes its schedule.
result<planned_collective> plan(schedule_cache& made, const collective_request& request,
                                const memory_properties& memory);

}  // namespace lsched
