// Alltoall by Bruck's algorithm (Bruck and others, 1997) with radix 2. Each rank sends ceil(log2 P) messages instead of
// P-1.
//
// Block i of rank r is the block for rank r + i (mod P). There is a step for each bit k. In this step, rank r sends one
// message to rank r + 2^k, with all blocks whose index i has bit k set. So after all steps, block i has moved i ranks.
// The step of the highest bit is first, because the blocks of this step are adjacent. Each step packs blocks from the
// locations at which they have arrived. Finally all blocks are copied to their final places.
//
// There are P ceil(log2 P) messages, each with about half of a rank's blocks. The algorithm suits short blocks. It is
// synchronising: no rank ends before every rank has begun.
#include <vector>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

class bruck : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    for (rank i = 0; i < size(); ++i) blocks_.push_back({{input(), place_of(after(i))}, k_no_op});
    if (in_place()) input_is_read_ = nop();
    for (int bit = ceil_log2(size()) - 1; bit >= 0; --bit) step(bit);
    put_in_place();
    return finish(true);
  }

 private:
  /// The location of a block, and the op that received the block. The op is k_no_op for this rank's own blocks.
  struct block {
    region where;
    op_id got;
  };

  std::uint64_t place_of(rank r) const { return wide(r) * count(); }

  void step(int bit) {
    const rank distance = rank{1} << bit;
    std::vector<rank> moving;
    for (rank i = distance; i < size(); ++i)
      if ((i & distance) != 0) moving.push_back(i);
    const std::uint64_t total = moving.size() * count();
    const buffer_id leaving = scratch(total);
    const buffer_id arriving = scratch(total);
    const std::vector<op_id> packed = pack(moving, leaving);
    const auto tag = static_cast<std::uint32_t>(bit);
    const op_id sent = send(after(distance), tag, {leaving, 0}, total, {packed.front()});
    for (std::size_t i = 1; i < packed.size(); ++i) order(packed[i], sent);
    end(sent);
    const op_id got = recv(before(distance), tag, {arriving, 0}, total);
    for (std::size_t at = 0; at < moving.size(); ++at) blocks_[wide(moving[at])] = {{arriving, at * count()}, got};
  }

  /// Copies the blocks `moving` to the buffer `leaving`. Adjacent blocks are copied by one op.
  std::vector<op_id> pack(const std::vector<rank>& moving, buffer_id leaving) {
    std::vector<op_id> packed;
    for (std::size_t at = 0, next = 0; at < moving.size(); at = next) {
      const block& first = blocks_[wide(moving[at])];
      for (next = at + 1; next < moving.size(); ++next) {
        const block& other = blocks_[wide(moving[next])];
        if (other.got != first.got ||
            other.where != region{first.where.buffer(), first.where.offset() + (next - at) * count()})
          break;
      }
      packed.push_back(copy(first.where, {leaving, at * count()}, (next - at) * count(), {first.got}));
      if (first.got == k_no_op) order(packed.back(), input_is_read_);
    }
    return packed;
  }

  /// Copies all blocks to the output. Block i has come from rank self - i.
  void put_in_place() {
    for (rank i = in_place() ? 1 : 0; i < size(); ++i) {
      const block& arrived = blocks_[wide(i)];
      end(copy(arrived.where, {output(), place_of(before(i))}, count(), {arrived.got, input_is_read_}));
    }
  }

  std::vector<block> blocks_{};
  op_id input_is_read_ = k_no_op;  ///< in place: after this op, the input may be overwritten
};

/// Returns how many numbers below `size` have bit `bit` set.
std::uint64_t numbers_with(int bit, rank size) {
  const std::uint64_t period = std::uint64_t{2} << bit;
  const std::uint64_t rest = wide(size) % period;
  return wide(size) / period * (period / 2) + (rest > period / 2 ? rest - period / 2 : 0);
}

// Hops: two steps depend on each other if they move the same block. Such a block exists for any two bits, with one
// possible exception: the highest bit m and the bit m-1. Only block 2^m + 2^(m-1) is in both of these steps. If this
// block does not exist, the longest chain contains only one of the two steps.
cost cost_of_bruck(rank size, const shape& data) {
  const int steps = ceil_log2(size);
  std::uint64_t blocks = 0;
  for (int bit = 0; bit < steps; ++bit) blocks += numbers_with(bit, size);
  const bool is_chain = steps < 2 || (rank{3} << (steps - 2)) < size;
  return {.messages = wide(size) * static_cast<std::uint64_t>(steps),
          .bytes = saturating_product(wide(size), saturating_product(blocks, bytes_of(data.count, data))),
          .hops = static_cast<std::uint64_t>(is_chain ? steps : steps - 1)};
}

}  // namespace

constinit const algorithm k_alltoall_bruck{
    .of = &k_alltoall,
    .name = "bruck",
    .add = add_by<bruck>,
    .needs = {.summary = "any P; ceil(log2 P) steps, each with half of all blocks; for short blocks"},
    .cost_of = cost_of_bruck};

}  // namespace lsched
