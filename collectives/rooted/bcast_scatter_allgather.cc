// Broadcast as scatter and allgather (van de Geijn and others, 1994), among the P-1 ranks that need the vector.
//
//   scatter     the root cuts the vector into P-1 blocks and sends one block to each other rank
//   allgather   each of these ranks sends its block to the P-2 others
//
// There are (P-1)^2 messages, or more if blocks are cut into segments. Together the messages contain the vector P-1
// times, and there are two hops. No rank, not even the root, sends more than one vector, so there is no bottleneck. The
// algorithm suits long vectors. A block is forwarded segment by segment as it arrives.
#include "collectives/patterns/rank_part.h"
#include "collectives/rooted/rooted.h"

namespace lsched {
namespace {

/// Block i is sent by the root to owner i, which is rank root + 1 + i (mod P).
class scatter_allgather : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    if (self() == data().root)
      scatter();
    else
      gather(before(data().root) - 1);
    return finish(true);
  }

 private:
  rank owner_of(rank block) const { return ring_after(data().root, block + 1, size()); }

  void scatter() {
    for (std::uint64_t i = 0; owners_ > 0 && i < blocks_.pieces(); ++i)
      for (rank block = 0; block < owners_; ++block)
        if (has(block, i)) end(send(owner_of(block), tag_of_piece(i), place(block, i), length(block, i)));
  }

  void gather(rank own_block) {
    for (std::uint64_t i = 0; i < blocks_.pieces(); ++i) {
      if (has(own_block, i)) pass_on(own_block, i);
      for (rank distance = 1; distance < owners_; ++distance) {
        const rank block = ring_before(own_block, distance, owners_);
        if (has(block, i)) end(recv(owner_of(block), tag_of_piece(i), place(block, i), length(block, i)));
      }
    }
  }

  void pass_on(rank own_block, std::uint64_t i) {
    const op_id got = recv(data().root, tag_of_piece(i), place(own_block, i), length(own_block, i));
    for (rank distance = 1; distance < owners_; ++distance)
      end(send(owner_of(ring_after(own_block, distance, owners_)), tag_of_piece(i), place(own_block, i),
               length(own_block, i), {got}));
    if (owners_ == 1) end(got);
  }

  bool has(rank block, std::uint64_t i) const { return length(block, i) > 0; }
  std::uint64_t length(rank block, std::uint64_t i) const { return blocks_.length(wide(block), i); }
  region place(rank block, std::uint64_t i) const { return {held_, blocks_.begin(wide(block), i)}; }

  const buffer_id held_ = self() == data().root ? input() : output();
  const rank owners_ = size() - 1;
  const block_pieces blocks_{data(), wide(owners_)};
};

cost cost_of_bcast(rank size, const shape& data) {
  const std::uint64_t owners = wide(size) - 1;
  if (owners == 0 || data.count == 0) return {};
  return {.messages = block_pieces(data, owners).filled() * owners,
          .bytes = saturating_product(owners, bytes_of(data.count, data)),
          .hops = owners > 1 ? std::uint64_t{2} : std::uint64_t{1}};
}

}  // namespace

constinit const algorithm k_bcast_scatter_allgather{
    .of = &k_bcast,
    .name = "scatter_allgather",
    .add = add_by<scatter_allgather>,
    .needs = {.summary = "any P; P-1 blocks, two hops, no rank sends more than the vector; for long vectors"},
    .cost_of = cost_of_bcast,
    .looks_at = {.segment = true}};

}  // namespace lsched
