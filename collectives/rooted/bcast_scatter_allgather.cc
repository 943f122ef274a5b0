#include "collectives/rooted/bcast_scatter_allgather.h"

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Blocks are numbered like their owners: 0 is the first rank after the root, round the ring.
class scatter_allgather {
 public:
  scatter_allgather(builder& to, const shape& data, buffer_id held, op_id entry)
      : part_(to, data, entry), held_(held), owners_(part_.size() - 1), blocks_(data.count, wide(owners_)) {}

  fragment write() {
    if (part_.self() == part_.data().root)
      scatter();
    else
      gather(ring_before(part_.self(), part_.data().root, part_.size()) - 1);
    return part_.finish(true);
  }

 private:
  rank owner_of(rank block) const { return ring_after(part_.data().root, block + 1, part_.size()); }

  /// The same for all blocks, so that the first pieces of all of them go first.
  std::uint64_t pieces() const { return pieces_of(part_.data(), blocks_.length(0)); }

  void scatter() {
    for (std::uint64_t i = 0; owners_ > 0 && i < pieces(); ++i)
      for (rank block = 0; block < owners_; ++block)
        if (has(block, i)) part_.end(part_.send(owner_of(block), tag(i), place(block, i), length(block, i)));
  }

  void gather(rank mine) {
    for (std::uint64_t i = 0; i < pieces(); ++i) {
      if (has(mine, i)) pass_on(mine, i);
      for (rank distance = 1; distance < owners_; ++distance) {
        const rank block = ring_before(mine, distance, owners_);
        if (has(block, i)) part_.end(part_.recv(owner_of(block), tag(i), place(block, i), length(block, i)));
      }
    }
  }

  void pass_on(rank mine, std::uint64_t i) {
    const op_id got = part_.recv(part_.data().root, tag(i), place(mine, i), length(mine, i));
    for (rank distance = 1; distance < owners_; ++distance)
      part_.end(
          part_.send(owner_of(ring_after(mine, distance, owners_)), tag(i), place(mine, i), length(mine, i), {got}));
    if (owners_ == 1) part_.end(got);
  }

  portions pieces_in(rank block) const { return {blocks_.length(wide(block)), pieces()}; }
  bool has(rank block, std::uint64_t i) const { return length(block, i) > 0; }
  std::uint64_t length(rank block, std::uint64_t i) const { return pieces_in(block).length(i); }
  region place(rank block, std::uint64_t i) const {
    return {held_, blocks_.begin(wide(block)) + pieces_in(block).begin(i)};
  }
  static std::uint32_t tag(std::uint64_t i) { return static_cast<std::uint32_t>(i); }

  rank_part part_;
  const buffer_id held_;
  const rank owners_;
  const portions blocks_;
};

cost cost_of_bcast(rank size, const shape& data, const activation&) {
  const std::uint64_t owners = wide(size) - 1;
  if (owners == 0 || data.count == 0) return {};
  const portions blocks(data.count, owners);
  const std::uint64_t pieces = pieces_of(data, blocks.length(0));
  const auto filled = [&](std::uint64_t length) { return portions(length, pieces).filled(); };
  const std::uint64_t longer = data.count % owners;
  const std::uint64_t all = longer * filled(data.count / owners + 1) + (owners - longer) * filled(data.count / owners);
  return {.messages = all * owners,
          .bytes = saturating_product(owners, bytes_of(data.count, data)),
          .hops = owners > 1 ? std::uint64_t{2} : std::uint64_t{1}};
}

}  // namespace

fragment add_bcast_scatter_allgather(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return scatter_allgather(to, data, to.place().self == data.root ? input : output, entry).write();
}

constinit const algorithm k_bcast_scatter_allgather{
    .of = &k_bcast,
    .name = "scatter_allgather",
    .add = add_bcast_scatter_allgather,
    .needs = {.summary = "any P; P-1 blocks, two hops, no rank sends more than the vector; for long vectors"},
    .cost_of = cost_of_bcast};

}  // namespace lsched
