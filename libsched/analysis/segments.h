// Segments: the parts of a buffer that are null together.
//
// An op whose operands are all null has a null result. Ops may use parts of a buffer. A segment is a longest range of a
// buffer that every op uses as a whole or not at all. For each segment the engine stores whether it is null, and its
// contributor count. An op reads an operand as one value. verify() proves that all segments of an operand hold
// contributions of the same ranks, so the first segment represents all. An empty operand has no segment and is null. An
// empty buffer has one segment. Outputs of functions, and lists, are never null (functions.h).
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

/// Segments of an op's regions. The range is empty for a region that does not exist.
struct op_segments {
  segment_range a, b, c, s;
};

/// Segments of a schedule, numbered over all buffers in the order of buffers and of elements.
class segment_map {
 public:
  segment_map() = default;
  explicit segment_map(const schedule& program);

  std::uint32_t count() const { return static_cast<std::uint32_t>(begin_.size()); }
  const op_segments& of(op_id id) const { return ops_[id]; }
  /// Returns the segment that begins at this element, or else the next segment.
  std::uint32_t at(std::uint16_t buffer, std::uint64_t element) const;
  segment_range of_buffer(std::uint16_t buffer) const { return {first_[buffer], first_[buffer + std::size_t{1}]}; }

 private:
  void cut(const schedule& program);
  segment_range segments_of(const schedule& program, const operand& part) const;

  std::vector<std::uint64_t> begin_;  ///< by segment: its first element
  std::vector<std::uint32_t> first_;  ///< by buffer, plus the end: its first segment
  std::vector<op_segments> ops_;
};

}  // namespace lsched
