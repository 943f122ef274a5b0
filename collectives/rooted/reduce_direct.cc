// Reduce by blocks: a direct reduce-scatter, then a direct gather to the root (compare Rabenseifner, 2004).
//
//   1   every rank sends block q to the owner of block q, which combines the block over all ranks
//   2   the owners send their results to the root
//
// There are P blocks, and the root owns one of them. For any P, a rank sends about one vector and receives at most
// about two, and the arithmetic is divided evenly among ranks. The algorithm suits long vectors. Blocks are cut into
// segments, and P^2 - 1 messages are sent for each segment. Operands are combined in rank order.
#include <algorithm>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "collectives/rooted/rooted.h"

namespace lsched {
namespace {

block_pieces blocks_of(rank size, const shape& data) {
  constexpr std::uint64_t k_most_buffers = 4096;  // maximum per owner: one for each piece and source rank
  return {data, wide(size), k_most_buffers / wide(size) + 1};
}

/// Writes the ops of one rank. The fragment satisfies the conditions of builder::declare_holding: the reader of a
/// payload waits only for other receives, and these receives wait only for the entry.
class reduce_by_blocks : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    if (!is_root() && length(self(), 0) > 0 && blocks_.pieces() > 0) sum_ = scratch(blocks_.blocks().length(0));
    for (std::uint64_t i = 0; i < blocks_.pieces(); ++i) {
      const std::vector<op_id> given = scatter(i);
      if (length(self(), i) > 0) combine(i);
      if (is_root()) gather(i, given);
    }
    if (size() == 1) end_with_copy(count());
    return finish(true);
  }

 private:
  /// The owner of block b is rank root + b (mod P), so a vector of one element is combined at the root.
  std::uint64_t block_of(rank owner) const { return wide(ring_before(owner, data().root, size())); }
  std::uint64_t begin(rank owner, std::uint64_t i) const { return blocks_.begin(block_of(owner), i); }
  std::uint64_t length(rank owner, std::uint64_t i) const { return blocks_.length(block_of(owner), i); }
  bool is_root() const { return self() == data().root; }
  std::uint32_t result_tag(std::uint64_t i) const { return tag_of_piece(blocks_.pieces() + i); }

  /// Sends piece i of every block to the block's owner. Returns the sends, indexed by the distance to the receiver.
  std::vector<op_id> scatter(std::uint64_t i) {
    std::vector<op_id> given(wide(size()), k_no_op);
    for (rank distance = 1; distance < size(); ++distance) {
      const rank owner = after(distance);
      const std::uint64_t count = length(owner, i);
      if (count == 0) continue;
      given[wide(distance)] = send(owner, tag_of_piece(i), {input(), begin(owner, i)}, count);
      end(given[wide(distance)]);
    }
    return given;
  }

  /// Combines the operands of the nearest ranks first. The operand of a lower rank is combined from the left, and the
  /// operand of a higher rank from the right.
  void combine(std::uint64_t i) {
    const std::uint64_t from = begin(self(), i);
    const region target = is_root() ? region{output(), from} : region{sum_, from - begin(self(), 0)};
    region value{input(), from};
    op_id last = k_no_op;
    for (rank distance = 1; distance < size(); ++distance) {
      if (distance <= self()) value = add(self() - distance, i, value, target, last);
      if (distance < size() - self()) value = add(self() + distance, i, value, target, last);
    }
    end(is_root() ? last : send(data().root, result_tag(i), target, length(self(), i), {last}));
  }

  region add(rank peer, std::uint64_t i, region value, region target, op_id& last) {
    const std::uint64_t count = length(self(), i);
    const region landing{scratch(count), 0};
    const op_id got = recv(peer, tag_of_piece(i), landing, count);
    const bool is_lower = peer < self();
    last = reduce(is_lower ? landing : value, is_lower ? value : landing, target, count, {got, last});
    return target;
  }

  /// In place, a result overwrites a block of the input, so the receive of the result must wait for the send of that
  /// block.
  void gather(std::uint64_t i, const std::vector<op_id>& given) {
    for (rank distance = 1; distance < size(); ++distance) {
      const rank owner = after(distance);
      const std::uint64_t count = length(owner, i);
      if (count == 0) continue;
      end(recv(owner, result_tag(i), {output(), begin(owner, i)}, count,
               {in_place() ? given[wide(distance)] : k_no_op}));
    }
  }

  const block_pieces blocks_ = blocks_of(size(), data());
  buffer_id sum_ = k_no_buffer;
};

cost cost_of_direct(rank size, const shape& data) {
  if (size == 1 || data.count == 0) return {};
  const block_pieces blocks = blocks_of(size, data);
  const std::uint64_t brought = saturating_product(wide(size) - 1, bytes_of(data.count, data));
  return {.messages = blocks.filled() * wide(size) - blocks.filled(0),
          .bytes = saturating_sum(brought, bytes_of(data.count - blocks.blocks().length(0), data)),
          .hops = std::min<std::uint64_t>(blocks.blocks().filled(), 2)};
}

}  // namespace

constinit const algorithm k_reduce_direct{
    .of = &k_reduce,
    .name = "direct",
    .add = add_by<reduce_by_blocks>,
    .needs = {.summary = "any P and root; every rank combines one block, two hops; rank order; for long vectors"},
    .cost_of = cost_of_direct,
    .looks_at = {.segment = true}};

}  // namespace lsched
