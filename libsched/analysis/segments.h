// The ops of a schedule divide each buffer into segments. A segment is entirely null (without a contribution), or
// contains no null part.
//
// An op may use only a part of a buffer. A segment is a maximal range of a buffer that every op uses entirely or not at
// all. For each segment, the engine stores whether the segment is null, and the number of contributors. verify() proves
// that all segments of an operand hold contributions of the same ranks. So the engine reads this data only for the
// operand's first segment. An empty buffer has one segment. An empty operand in any other buffer has no segment and is
// null. Outputs of functions, and lists, are never null (functions.h).
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

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
  /// Returns the first segment that begins at or after `element`.
  std::uint32_t at(std::uint16_t buffer, std::uint64_t element) const;
  segment_range of_buffer(std::uint16_t buffer) const { return {first_[buffer], first_[buffer + std::size_t{1}]}; }

 private:
  void cut(const schedule& program);
  segment_range segments_of(const schedule& program, const operand& part) const;

  std::vector<std::uint64_t> begin_;  ///< first element of each segment
  std::vector<std::uint32_t> first_;  ///< by buffer: index of its first segment; last entry: number of all segments
  std::vector<op_segments> ops_;
};

}  // namespace lsched
