// Pieces: what of a buffer is null together.
//
// A contribution that is absent makes everything null that would be made of it alone. Ops may use parts of a buffer; a
// piece is the longest range of one that no op uses a part of. Whether a value is there, and the census of who is in
// it, is known of every piece. An op reads its operand as one value: verify() proves that all pieces of what is read as
// one are made of the contributions of the same ranks, so the first speaks for all. An empty operand has no piece, and
// is null; an empty buffer has one. What functions have made is always there, and so are all lists
// (functions.h).
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Some pieces in a row, by number: from `first` up to but without `end`.
struct piece_range {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - first; }
  friend bool operator==(const piece_range&, const piece_range&) = default;
};

/// Of one op's regions, none where it has no such region.
struct op_pieces {
  piece_range a, b, c, s;
};

/// Numbered over all buffers, in the order of buffers and of elements.
class piece_map {
 public:
  piece_map() = default;
  explicit piece_map(const schedule& program);

  std::uint32_t count() const { return static_cast<std::uint32_t>(begin_.size()); }
  const op_pieces& of(op_id id) const { return ops_[id]; }
  /// The piece that begins with this element, where one does; of an empty buffer its one.
  std::uint32_t at(std::uint16_t buffer, std::uint64_t element) const;
  piece_range of_buffer(std::uint16_t buffer) const { return {first_[buffer], first_[buffer + std::size_t{1}]}; }

 private:
  void cut(const schedule& program);
  piece_range pieces_of(const schedule& program, const operand& part) const;

  std::vector<std::uint64_t> begin_;  ///< by piece: its first element
  std::vector<std::uint32_t> first_;  ///< by buffer, and one more: its first piece
  std::vector<op_pieces> ops_;
};

}  // namespace lsched
