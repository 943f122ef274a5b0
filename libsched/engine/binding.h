// The user's memory for the inputs and outputs of an ordinary schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lsched {

/// The user's lists in a buffer. Each array has one element per list. The user owns the arrays and must not change them
/// while a round runs.
struct list_binding {
  /// Offsets in items from the buffer's beginning; null: the offsets of the layout
  const std::uint64_t* begins = nullptr;
  /// Inputs: lengths in items; null: all lists are empty. Outputs: capacities in items; null: the capacities of the
  /// layout.
  const std::uint64_t* counts = nullptr;
  std::uint64_t* received = nullptr;  ///< outputs: number of items in each list, set before a round ends; may be null
};

/// User memory for the schedule's inputs and outputs, in the order in which the builder declared them. `input_lists`
/// and `output_lists` have an element for each input or output that holds lists, in the same order. All four vectors
/// are empty for partial schedules, whose instances own the buffers.
struct binding {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<list_binding> input_lists{};
  std::vector<list_binding> output_lists{};
};

}  // namespace lsched
