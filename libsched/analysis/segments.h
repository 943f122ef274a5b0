// Segments: which parts of a buffer are null together.
//
// An op whose operands are all null has a null result. Ops may use parts of a buffer: a segment is the longest range
// of a buffer that no op uses a part of. The engine keeps, for each segment, whether it is null and its contributor
// count. An op reads its operand as one value: verify() proves that all segments of an operand hold contributions of
// the same ranks, so the first segment stands for all. An empty operand has no segment and is null; an empty buffer
// has one segment. Outputs of functions and lists are never null (functions.h).
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Some segments in a row, by number: from `first` up to but without `end`.
struct segment_range {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - first; }
  friend bool operator==(const segment_range&, const segment_range&) = default;
};

/// Of one op's regions, none where it has no such region.
struct op_segments {
  segment_range a, b, c, s;
};

/// Numbered over all buffers, in the order of buffers and of elements.
class segment_map {
 public:
  segment_map() = default;
  explicit segment_map(const schedule& program);

  std::uint32_t count() const { return static_cast<std::uint32_t>(begin_.size()); }
  const op_segments& of(op_id id) const { return ops_[id]; }
  /// The segment that begins with this element, where one does; of an empty buffer its one.
  std::uint32_t at(std::uint16_t buffer, std::uint64_t element) const;
  segment_range of_buffer(std::uint16_t buffer) const { return {first_[buffer], first_[buffer + std::size_t{1}]}; }

 private:
  void cut(const schedule& program);
  segment_range segments_of(const schedule& program, const operand& part) const;

  std::vector<std::uint64_t> begin_;  ///< by segment: its first element
  std::vector<std::uint32_t> first_;  ///< by buffer, and one more: its first segment
  std::vector<op_segments> ops_;
};

}  // namespace lsched
