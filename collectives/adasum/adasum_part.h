// The common base of adaptive sums: a vector that contains tensors, and ops on parts of the vector.
//
// A cell (ordered_ops.h) is a range of elements for which ops are ordered. A new cell begins with each tensor, with
// each gap between tensors, and with each block. So an op on one tensor never waits for an op on another tensor.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/patterns/ordered_ops.h"

namespace lsched {

/// The elements [begin, end) of a vector.
struct element_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count() const { return end - begin; }
  bool overlaps(const tensor& t) const { return begin < t.end() && t.begin < end; }
  bool contains(const tensor& t) const { return begin <= t.begin && t.end() <= end; }
  element_range common(const tensor& t) const;
};

/// The division of a vector into cells.
class tensor_map {
 public:
  /// `blocks` has the offset of each block of the vector, ascending, and then the vector's end. Even an empty block has
  /// a cell.
  tensor_map(const shape& data, std::vector<std::uint64_t> blocks);

  std::span<const tensor> tensors() const { return tensors_; }
  /// Returns the tensors that have an element in the range.
  std::span<const tensor> tensors_in(element_range part) const;
  /// Returns the elements of the range that are in no tensor.
  std::vector<element_range> gaps_in(element_range part) const;
  /// Returns the elements of the range that are in tensors, in runs of maximal length.
  std::vector<element_range> runs_in(element_range part) const;

  std::uint64_t cells() const { return starts_.size(); }
  /// Returns blocks [first, end) of the vector in buffer `in`. `cell` is the index of the vector's first cell.
  stretch blocks(buffer_id in, std::uint32_t cell, std::uint64_t first, std::uint64_t end) const;
  element_range range(std::uint64_t first, std::uint64_t end) const { return {blocks_[first], blocks_[end]}; }
  /// Returns the elements `part` of the vector in buffer `in`. `cell` is the index of the vector's first cell. `part`
  /// must begin and end at bounds of tensors, gaps or blocks.
  stretch elements(buffer_id in, std::uint32_t cell, element_range part) const;

 private:
  std::vector<tensor> tensors_;
  std::vector<std::uint64_t> blocks_;
  std::vector<std::uint64_t> starts_;      ///< first element of each cell
  std::vector<std::uint32_t> first_cell_;  ///< first cell of each block; then the number of all cells
};

/// A rank's part of an adaptive sum: vectors, and ops on their tensors.
class adasum_part : public ordered_part {
 public:
  /// The place of a vector whose layout is given by the map: the vector's buffer, and the index of the vector's first
  /// cell.
  struct place {
    buffer_id buffer = k_no_buffer;
    std::uint32_t cell = 0;
  };

  /// `begins` has the offset of each block, and then the end of the last block.
  adasum_part(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry,
              std::vector<std::uint64_t> begins)
      : ordered_part(to, data, input, output, entry), map_(data, std::move(begins)) {
    set_cells(map_.cells());
  }

  const tensor_map& map() const { return map_; }
  place given() const { return {input(), input_cell()}; }
  place result() const { return {output(), output_cell()}; }
  place new_vector();
  bool is_same(place x, place y) const { return x.cell == y.cell; }

  stretch blocks(place in, std::uint64_t first, std::uint64_t end) const {
    return map_.blocks(in.buffer, in.cell, first, end);
  }
  stretch elements(place in, element_range part) const { return map_.elements(in.buffer, in.cell, part); }

  /// Returns memory for the three sums of each of `tensors` tensors.
  stretch new_sums(std::uint64_t tensors) { return scratch(dtype::f64, tensors * k_dot_sums, tensors); }
  static stretch sums_of(const stretch& all, std::uint64_t number);

  /// Copies the elements that are in no tensor, unless `from` and `to` are the same memory.
  void copy_gaps(place from, place to, element_range part);

 private:
  const tensor_map map_;
};

/// `payload` contains a part of a vector, beginning with element `from`. `part` is a range of elements of
/// the vector. Returns the location of this range in `payload`.
stretch part_of_payload(const stretch& payload, std::uint64_t from, element_range part);

/// Return the expression (postcondition.h) of a tensor. Proxies are first combined with their extras, and then
/// neighbors on the hypercube are combined. hypercube_tree() combines the expressions in `leaves`.
/// hypercube_expression() combines the contributions of `size` ranks.
std::uint64_t hypercube_tree(const std::vector<std::uint64_t>& leaves, const tensor& part);
std::uint64_t hypercube_expression(rank size, const shape& data, const tensor& part);

}  // namespace lsched
