// Segments: the parts into which the ops of a schedule divide a buffer. A segment is null (without a contribution) as a
// whole or not at all.
//
// If all operands of an op are null, the result is null. An op may use only a part of a buffer. A segment is a maximal
// range of a buffer that every op uses as a whole or not at all. For each segment the engine stores a flag for null,
// and the contributor count. verify() proves that all segments of an operand hold contributions of the same ranks. So
// the engine needs to read only the flag and the count of the operand's first segment. An empty operand has no segment
// and is null. An empty buffer has one segment. Outputs of functions and lists are never null (functions.h).
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// The consecutive segments [first, end).
struct segment_range {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - first; }
  friend bool operator==(const segment_range&, const segment_range&) = default;
};

/// The segments of each region of an op. The range of an absent region is empty.
struct op_segments {
  segment_range a, b, c, s;
};

/// All segments of a schedule. Segments are numbered in the order of buffers, and within a buffer in the order of
/// elements.
class segment_map {
 public:
  segment_map() = default;
  explicit segment_map(const schedule& program);

  std::uint32_t count() const { return static_cast<std::uint32_t>(begin_.size()); }
  const op_segments& of(op_id id) const { return ops_[id]; }
  /// Returns the first segment that begins at `element` or behind `element`.
  std::uint32_t at(std::uint16_t buffer, std::uint64_t element) const;
  segment_range of_buffer(std::uint16_t buffer) const { return {first_[buffer], first_[buffer + std::size_t{1}]}; }

 private:
  void cut(const schedule& program);
  segment_range segments_of(const schedule& program, const operand& part) const;

  std::vector<std::uint64_t> begin_;  ///< first element of each segment
  std::vector<std::uint32_t> first_;  ///< first segment of each buffer, and the end
  std::vector<op_segments> ops_;
};

}  // namespace lsched
