// What the algorithms of adaptive sums share: a vector with tensors in it, and the ops on parts of it.
//
// A cell of such a vector (ordered_ops.h) begins where a tensor, a gap between tensors or a block begins.
// So what is done to one tensor never waits for another.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/patterns/ordered_ops.h"

namespace lsched {

/// Elements [begin, end).
struct element_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count() const { return end - begin; }
  bool overlaps(const tensor& t) const { return begin < t.end() && t.begin < end; }
  bool contains(const tensor& t) const { return begin <= t.begin && t.end() <= end; }
  element_range common(const tensor& t) const;
};

/// Where a vector's cells begin.
class tensor_map {
 public:
  /// `blocks`: where the blocks of the vector begin, ascending, and its end; each has a cell even if it is empty.
  tensor_map(const shape& data, std::vector<std::uint64_t> blocks);

  std::span<const tensor> tensors() const { return tensors_; }
  /// Those with an element in the range.
  std::span<const tensor> tensors_in(element_range part) const;
  /// The elements of the range that are in no tensor.
  std::vector<element_range> gaps_in(element_range part) const;
  /// All others, in runs as long as can be.
  std::vector<element_range> runs_in(element_range part) const;

  std::uint64_t cells() const { return starts_.size(); }
  /// Blocks [first, end) of a vector whose first cell is `cell`.
  stretch blocks(buffer_id in, std::uint32_t cell, std::uint64_t first, std::uint64_t end) const;
  element_range range(std::uint64_t first, std::uint64_t end) const { return {blocks_[first], blocks_[end]}; }
  /// Elements of it, which begin and end where tensors, gaps or blocks do.
  stretch elements(buffer_id in, std::uint32_t cell, element_range part) const;

 private:
  std::vector<tensor> tensors_;
  std::vector<std::uint64_t> blocks_;
  std::vector<std::uint64_t> starts_;      ///< by cell: its first element
  std::vector<std::uint32_t> first_cell_;  ///< by block, and the end
};

/// One rank's part of an adaptive sum: its vectors and the ops on their tensors.
class adasum_part : public ordered_part {
 public:
  /// A vector of the map's layout: a buffer and the cells that say who uses it.
  struct place {
    buffer_id buffer = k_no_buffer;
    std::uint32_t cell = 0;
  };

  /// `begins`: of the blocks, as in the map.
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

  /// Three sums for each of so many tensors.
  stretch new_sums(std::uint64_t tensors) { return scratch(dtype::f64, tensors * k_dot_sums, tensors); }
  static stretch sums_of(const stretch& all, std::uint64_t number);

  /// Elements in no tensor, where they have to be copied at all.
  void copy_gaps(place from, place to, element_range part);

 private:
  const tensor_map map_;
};

/// The part of a payload that lies at `from` of the vector, of its elements `part`.
stretch part_of_payload(const stretch& payload, std::uint64_t from, element_range part);

/// The expression of a tensor (postcondition.h) where neighbours on the hypercube are combined first, and
/// before them the proxies and their extras: of these leaves, or of the contributions of so many ranks.
std::uint64_t hypercube_tree(const std::vector<std::uint64_t>& leaves, const tensor& part);
std::uint64_t hypercube_expression(rank size, const shape& data, const tensor& part);

}  // namespace lsched
