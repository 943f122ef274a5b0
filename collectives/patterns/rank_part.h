// Base classes of generators: the arguments of a generator, and the ops of one rank.
#pragma once

#include <algorithm>

#include "collectives/algorithm/algorithm.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

class rank_call {
 public:
  rank_call(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : to_(to), data_(data), input_(input), output_(output), entry_(entry) {}

  const shape& data() const { return data_; }
  std::uint64_t count() const { return data_.count; }
  bool in_place() const { return data_.in_place; }
  rank self() const { return to_.place().self; }
  rank size() const { return to_.place().size; }
  /// Return (self + distance) mod size, and (self - distance) mod size; 0 <= distance < size.
  rank after(rank distance) const { return ring_after(self(), distance, size()); }
  rank before(rank distance) const { return ring_before(self(), distance, size()); }
  buffer_id input() const { return input_; }
  buffer_id output() const { return output_; }
  op_id entry() const { return entry_; }

 protected:
  builder& to_;

 private:
  const shape& data_;
  const buffer_id input_;
  const buffer_id output_;
  const op_id entry_;
};

/// The ops of one rank, ordered by explicit dependencies.
class rank_part : public rank_call {
 public:
  using deps = builder::deps;

  rank_part(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : rank_call(to, data, input, output, entry), exit_(to.nop()) {}

  // --- ops: each waits for the ops in `when`, or for the entry if `when` has only k_no_op --------------------------
  op_id send(rank peer, std::uint32_t tag, region from, std::uint64_t count, deps when = {}) {
    return ordered(to_.send(peer, tag, from, count), when);
  }
  op_id recv(rank peer, std::uint32_t tag, region target, std::uint64_t count, deps when = {}) {
    return ordered(to_.recv(peer, tag, target, count), when);
  }
  op_id copy(region from, region target, std::uint64_t count, deps when = {}) {
    return ordered(to_.copy(from, target, count), when);
  }
  op_id reduce(region lower, region higher, region target, std::uint64_t count, deps when = {}) {
    return ordered(to_.reduce(data().what, lower, higher, target, count), when);
  }
  op_id signal_send(rank peer, std::uint32_t tag, deps when = {}) { return ordered(to_.signal_send(peer, tag), when); }
  /// Appends a signal receive without deps, because the peer can set the receive's register (op.h) at any time.
  op_id signal_recv(rank peer, std::uint32_t tag) { return to_.signal_recv(peer, tag); }
  op_id nop(deps when = {}) { return ordered(to_.nop(), when); }

  /// Makes `later`, which may already have been appended, wait for `earlier`.
  void order(op_id earlier, op_id later) { to_.dep(earlier, later); }
  /// Makes the exit op wait for `last`.
  void end(op_id last);
  /// Copies the input to the output, and makes the exit op wait for the copy. In place, does nothing, because the
  /// output already has the result.
  void end_with_copy(std::uint64_t count) {
    if (!in_place()) end(copy({input(), 0}, {output(), 0}, count));
  }

  buffer_id scratch(std::uint64_t count) { return to_.scratch(data().type, count); }

  /// Returns all ops as a fragment. `holding` is fragment::holding.
  fragment finish(bool holding);

 private:
  op_id ordered(op_id later, deps when);

  const op_id exit_;
  bool has_end_ = false;
};

/// A division of `count` elements into `number` portions of nearly equal length. Longer portions come first. A portion
/// is a block of a vector, or a message of a block.
class portions {
 public:
  /// `number` may be 0 if `count` is 0.
  constexpr portions(std::uint64_t count, std::uint64_t number)
      : count_(count), number_(number), runs_(count, number == 0 ? 1 : number) {}

  constexpr std::uint64_t count() const { return count_; }
  constexpr std::uint64_t number() const { return number_; }
  constexpr std::uint64_t begin(std::uint64_t i) const { return runs_.begin(i); }
  constexpr std::uint64_t length(std::uint64_t i) const { return runs_.size(i); }
  /// Returns the number of non-empty portions.
  constexpr std::uint64_t filled() const { return count_ < number_ ? count_ : number_; }

 private:
  std::uint64_t count_;
  std::uint64_t number_;
  cut runs_;
};

/// Return the number of messages, and the length of the longest chain of messages, in recursive doubling with a fold
/// (geometry.h). The longest chain has L + 2 messages if it starts and ends at extras and has a message for each of the
/// L dimensions. This requires two proxies whose virtual indices differ in all bits. All virtual indices of proxies are
/// below rem, so such proxies exist only if 2 * rem > core.
std::uint64_t messages_of_doubling(rank size);
std::uint64_t hops_of_doubling(rank size);

constexpr std::uint32_t tag_of_piece(std::uint64_t i) { return static_cast<std::uint32_t>(i); }

/// Returns the number of messages into which a pipelined algorithm divides `count` elements; 0 if `count` is 0. A
/// message has `data.segment` elements, or 128 KiB if `data.segment` is 0. There are at most 64 messages.
std::uint64_t pieces_of(const shape& data, std::uint64_t count);

/// Returns pieces_of() if `data.segment` is not 0. Otherwise returns 1, or 0 if `count` is 0.
std::uint64_t pieces_if_segmented(const shape& data, std::uint64_t count);

/// The blocks of a vector. All blocks have the same number of pieces. So piece i of every block can be sent before
/// piece i + 1 of any block.
class block_pieces {
 public:
  block_pieces(const shape& data, std::uint64_t blocks, std::uint64_t most_pieces = ~std::uint64_t{0})
      : blocks_(data.count, blocks), pieces_(std::min(pieces_of(data, blocks_.length(0)), most_pieces)) {}

  const portions& blocks() const { return blocks_; }
  std::uint64_t pieces() const { return pieces_; }
  std::uint64_t begin(std::uint64_t block, std::uint64_t i) const { return blocks_.begin(block) + in(block).begin(i); }
  std::uint64_t length(std::uint64_t block, std::uint64_t i) const { return in(block).length(i); }
  /// Returns the number of non-empty pieces, of one block or of all blocks.
  std::uint64_t filled(std::uint64_t block) const { return in(block).filled(); }
  std::uint64_t filled() const;

 private:
  portions in(std::uint64_t block) const { return {blocks_.length(block), pieces_}; }

  portions blocks_;
  std::uint64_t pieces_;
};

}  // namespace lsched
