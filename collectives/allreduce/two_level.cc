// Allreduce by nodes: the ranks of each node first combine their contributions. Then they share the messages to other
// nodes (Bienz, Olson and Gropp, "Node-aware improvements to allreduce", 2019; MPICH's and Open MPI's hierarchical
// allreduces).
//
//   gather    the vector has m blocks, where m is the number of ranks of the smallest node. Every rank sends block b to
//             the rank with index b in the same node. That rank combines block b over the node
//   exchange  the ranks with index b in their nodes do an allreduce of block b by recursive multiplying
//   spread    the rank with index b sends the result of block b to all other ranks of its node
//
// With N nodes and the radix k of recursive multiplying, a node sends and receives about (k-1) log_k N vectors in
// total. m ranks of the node share these messages. Inside a node, the algorithm is `direct`. The nodes can be any
// partition of the ranks (shape::nodes), so the kernel must be commutative. Every block is combined by one expression,
// so all ranks get bitwise equal results.
#include <algorithm>
#include <vector>

#include "collectives/algorithm/nodes.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/allreduce/multiplying.h"
#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_gather_tag, k_spread_tag, k_exchange_tag };

class two_level : ordered_part {
 public:
  two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : ordered_part(to, data, input, output, entry), nodes_(nodes_of(data, size())) {
    set_blocks(block_begins(data, owners_));
  }

  // The fragment satisfies the conditions of builder::declare_holding: the reader of a payload waits only for lower
  // ranks of the node, or for an earlier exchange step.
  fragment write() {
    bool may_hold = true;
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      const std::size_t to = (place_ + distance) % here().size();
      if (to < owners_) send(here()[to], k_gather_tag, in_input(one(to)));
    }
    if (place_ < owners_) may_hold = exchange(gather());
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      const std::size_t from = (place_ + here().size() - distance) % here().size();
      if (from < owners_) recv(here()[from], k_spread_tag, in_output(one(from)));
    }
    return finish(may_hold);
  }

 private:
  const node& here() const { return nodes_[own_]; }

  static block_range one(std::size_t block) { return {static_cast<rank>(block), static_cast<rank>(block + 1)}; }

  /// Combines this rank's block over the node, and returns the sum.
  stretch gather() {
    const stretch own = in_input(one(place_));
    std::vector<stretch> operands(here().size(), own);
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      const std::size_t from = (place_ + here().size() - distance) % here().size();
      operands[from] = scratch(own.count);
      recv(here()[from], k_gather_tag, operands[from]);
    }
    if (here().size() == 1) return own;
    const stretch sum = scratch(own.count);
    for (std::size_t i = 1; i < operands.size(); ++i) reduce(i == 1 ? operands[0] : sum, operands[i], sum);
    return sum;
  }

  bool exchange(const stretch& sum) {
    const stretch result = in_output(one(place_));
    std::vector<rank> peers;
    for (const node& ranks : nodes_) peers.push_back(ranks[place_]);
    const members among{static_cast<rank>(own_), static_cast<rank>(peers.size()), peers};
    const bool may_hold = add_multiplying(*this, among, multiplying_radix(data()), k_exchange_tag, sum, result);
    for (std::size_t distance = 1; distance < here().size(); ++distance)
      send(here()[(place_ + distance) % here().size()], k_spread_tag, result);
    return may_hold;
  }

  const std::vector<node> nodes_;
  const std::size_t own_ = place_of(nodes_, self()).number;   ///< index of this rank's node
  const std::size_t place_ = place_of(nodes_, self()).place;  ///< index of this rank within its node
  const std::size_t owners_ = ranks_of_smallest(nodes_);      ///< number of ranks on each node that own a block
};

// If a node has several ranks, a chain may begin and end with a message inside the node.
std::uint64_t hops_of(const std::vector<node>& nodes, rank radix) {
  std::vector<std::uint64_t> inside;
  for (const node& ranks : nodes) inside.push_back(ranks.size() > 1 ? 1 : 0);
  std::vector<std::uint64_t> chains = chains_of_multiplying(radix, inside);
  for (std::size_t i = 0; i < chains.size(); ++i) chains[i] += inside[i];
  return std::ranges::max(chains);
}

cost cost_of_two_level(rank size, const shape& data) {
  const std::vector<node> nodes = nodes_of(data, size);
  const std::uint64_t owners = ranks_of_smallest(nodes);
  const std::uint64_t inside = 2 * (wide(size) - nodes.size());
  const cost between = cost_of_multiplying(static_cast<rank>(nodes.size()), multiplying_radix(data), data.count, data);
  return {.messages = owners * (inside + between.messages),
          .bytes = saturating_sum(saturating_product(inside, bytes_of(data.count, data)), between.bytes),
          .hops = hops_of(nodes, multiplying_radix(data))};
}

}  // namespace

constinit const algorithm k_allreduce_two_level{
    .of = &k_allreduce,
    .name = "two_level",
    .add = add_by<two_level>,
    .needs =
        {.needs_commutative = true,
         .summary =
             "several nodes: blocks combined inside each node, then exchanged by as many ranks as the smallest has"},
    .cost_of = cost_of_two_level,
    .looks_at = {.radix = true, .nodes = true}};

}  // namespace lsched
