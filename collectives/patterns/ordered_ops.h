// Orders ops by the memory that they access.
//
// A generator appends ops in an order in which they could execute sequentially. A cell is memory that ops read and
// write as a whole, such as a block of a vector. For each region, the generator gives the cells that the region covers.
// These cells determine the ops for which an op waits:
//
//   * For each cell that the op reads or writes, the op waits for the last op that has written this cell.
//   * For each cell that the op writes, the op also waits for all ops that have read this cell since the last write.
//
// An op waits for no other ops, so independent ops can execute concurrently. Buffers that share memory (in place) share
// cells. Even empty regions have cells, so that synchronising collectives stay synchronising without data.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "collectives/patterns/rank_part.h"

namespace lsched {

/// A part of a buffer, and the cells [cell, cell + cells) that this part covers.
struct stretch {
  region at{};
  std::uint64_t count = 0;
  std::uint32_t cell = 0;
  std::uint32_t cells = 1;
};

class ordered_ops {
 public:
  /// No op fires before `entry` completes. `to` and `data` must outlive this object.
  ordered_ops(builder& to, const shape& data, op_id entry) : to_(to), data_(data), entry_(entry) {}

  /// Adds `count` cells. Returns the index of the first new cell.
  std::uint32_t new_cells(std::uint64_t count);
  /// Returns a new scratch buffer, of the shape's type or of `type`, as a stretch.
  stretch scratch(std::uint64_t count, std::uint64_t cells = 1) { return scratch(data_.type, count, cells); }
  stretch scratch(dtype type, std::uint64_t count, std::uint64_t cells = 1);

  /// Returns scratch memory for a received message of `count` elements. The first k_most_landings messages get new
  /// buffers, so that payloads can be read in the transport's memory (op_rules.h). Later messages share buffers of
  /// `longest` elements.
  stretch landing(std::uint64_t count, std::uint64_t longest);

  op_id send(rank to, std::uint32_t tag, const stretch& source) {
    return ordered(to_.send(to, tag, source.at, source.count), {source}, {});
  }
  op_id recv(rank from, std::uint32_t tag, const stretch& target) {
    return ordered(to_.recv(from, tag, target.at, target.count), {}, target);
  }
  /// Appends target = lower (op) higher, by the shape's kernel. All three stretches must have the same count.
  op_id reduce(const stretch& lower, const stretch& higher, const stretch& target) {
    return combine(data_.what, lower, higher, target);
  }
  /// Appends target = lower + higher.
  op_id add(const stretch& lower, const stretch& higher, const stretch& target) {
    return combine(kernel::sum, lower, higher, target);
  }
  op_id copy(const stretch& source, const stretch& target) {
    return ordered(to_.copy(source.at, target.at, target.count), {source}, target);
  }
  op_id divide(const stretch& source, const stretch& target, std::uint32_t divisor) {
    return ordered(to_.divide(source.at, target.at, target.count, divisor), {source}, target);
  }
  /// Append the kernels dot_norms and adasum (ops/kernel.h).
  op_id dot_norms(const stretch& lower, const stretch& higher, const stretch& sums) {
    return ordered(to_.dot_norms(lower.at, higher.at, sums.at, lower.count), {lower, higher}, sums);
  }
  op_id adasum(const stretch& lower, const stretch& higher, const stretch& sums, const stretch& target) {
    return ordered(to_.adasum(lower.at, higher.at, sums.at, target.at, target.count), {lower, higher, sums}, target);
  }
  /// Makes the last appended op also wait for `before`, which may be k_no_op.
  void wait_for(op_id before);

  /// Appends the exit op, which waits for all ops. No op may be appended afterwards.
  fragment finish(bool is_holding);

 private:
  static constexpr std::uint32_t k_none = ~std::uint32_t{0};
  static constexpr std::size_t k_most_landings = 8192;
  static constexpr std::size_t k_landings_used_again = 64;
  struct cell_state {
    op_id writer;
    std::uint32_t readers;  ///< index in readers_ of the cell's first reader, or k_none
  };
  struct reader {
    op_id id;
    std::uint32_t next;
  };
  op_id combine(kernel how, const stretch& lower, const stretch& higher, const stretch& target) {
    return ordered(to_.reduce(how, lower.at, higher.at, target.at, target.count), {lower, higher}, target);
  }
  /// Makes an op wait for earlier ops by the rules at the top of this file. The op must be the last in the builder.
  /// Returns the op.
  op_id ordered(op_id made, std::initializer_list<stretch> sources, std::optional<stretch> target);
  void append(op_id op);
  void reads(const stretch& from);
  void writes(const stretch& to);

  builder& to_;
  const shape& data_;
  const op_id entry_;
  op_id last_ = k_no_op;
  op_id entry_awaited_by_ = k_no_op;
  op_id first_ = k_no_op;  ///< first op that this object has appended
  std::size_t landings_ = 0;
  std::vector<stretch> used_again_;
  std::vector<cell_state> cells_;
  std::vector<reader> readers_;
  std::vector<op_id> awaited_by_;  ///< for op first_ + i: the last op that waits for that op
};

/// Adjacent blocks of a vector.
struct block_range {
  rank first = 0;
  rank end = 0;
  rank count() const { return end - first; }
  /// Returns the lower or upper half. The number of blocks must be even.
  block_range half(bool upper) const {
    return upper ? block_range{first + count() / 2, end} : block_range{first, first + count() / 2};
  }
};

class ordered_part : public rank_call, public ordered_ops {
 public:
  ordered_part(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : rank_call(to, data, input, output, entry), ordered_ops(to, data, entry) {}

 protected:
  void set_cells(std::uint64_t count);
  std::uint32_t input_cell() const { return input_cell_; }
  std::uint32_t output_cell() const { return output_cell_; }

  /// Creates a cell for each block of a vector. `begins` has the offset of each block, and then the vector's end.
  void set_blocks(std::vector<std::uint64_t> begins);
  const std::vector<std::uint64_t>& begins() const { return begins_; }
  stretch blocks_in(buffer_id buffer, std::uint32_t cell, block_range blocks) const;
  stretch in_input(block_range blocks) const { return blocks_in(input(), input_cell_, blocks); }
  stretch in_output(block_range blocks) const { return blocks_in(output(), output_cell_, blocks); }
  /// Returns the output of a reduce_scatter. The output has the elements of one block, but the returned stretch covers
  /// the cells of all blocks. In place, the output can overlap any block of the input.
  stretch own_output() const;

  /// Appends a receive of `count` elements into a new scratch buffer, and returns the buffer.
  stretch receive(rank from, std::uint32_t tag, std::uint64_t count);
  /// Copies the input to the output, for worlds of one rank. In place, does nothing, because the output already has the
  /// result.
  void copy_alone(const stretch& source, const stretch& target) {
    if (!in_place()) copy(source, target);
  }

 private:
  std::uint32_t input_cell_ = 0;
  std::uint32_t output_cell_ = 0;
  std::vector<std::uint64_t> begins_{};
};

}  // namespace lsched
