#include "collectives/allreduce/allreduce_two_level.h"

#include <algorithm>
#include <vector>

#include "collectives/algorithm/nodes.h"
#include "collectives/allreduce/multiplying.h"
#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_gather_tag, k_spread_tag, k_exchange_tag };

rank radix_of(const shape& data) { return data.radix == 0 ? k_multiplying_radix : data.radix; }

/// The ops of one rank while they are being written.
class two_level {
 public:
  two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        nodes_(nodes_of(data, to.place().size)),
        own_(place_of(nodes_, self_).number),
        place_(place_of(nodes_, self_).place),
        radix_(radix_of(data)),
        owners_(ranks_of_smallest(nodes_)),
        blocks_(cut_into_blocks(data, data.count, owners_)),
        input_(input),
        output_(output),
        ops_(to, data, entry),
        input_cell_(ops_.new_cells(owners_)),
        output_cell_(data.in_place ? input_cell_ : ops_.new_cells(owners_)) {}

  // A payload is held for lower ranks of the node, or for an earlier step of the exchange.
  fragment write() {
    bool may_hold = true;
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      const std::size_t to = (place_ + distance) % here().size();
      if (to < owners_) ops_.send(here()[to], k_gather_tag, part_of(input_, input_cell_, to));
    }
    if (place_ < owners_) may_hold = exchange(gather());
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      const std::size_t from = (place_ + here().size() - distance) % here().size();
      if (from < owners_) ops_.recv(here()[from], k_spread_tag, part_of(output_, output_cell_, from));
    }
    return ops_.finish(may_hold);
  }

 private:
  const node& here() const { return nodes_[own_]; }

  stretch part_of(buffer_id buffer, std::uint32_t cell, std::size_t block) const {
    return {{buffer, blocks_.begin(block)}, blocks_.size(block), cell + static_cast<std::uint32_t>(block)};
  }

  /// What the node has of the own block.
  stretch gather() {
    const stretch mine = part_of(input_, input_cell_, place_);
    std::vector<stretch> operands(here().size(), mine);
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      const std::size_t from = (place_ + here().size() - distance) % here().size();
      operands[from] = ops_.scratch(mine.count);
      ops_.recv(here()[from], k_gather_tag, operands[from]);
    }
    if (here().size() == 1) return mine;
    const stretch sum = ops_.scratch(mine.count);
    for (std::size_t i = 1; i < operands.size(); ++i) ops_.reduce(i == 1 ? operands[0] : sum, operands[i], sum);
    return sum;
  }

  bool exchange(const stretch& sum) {
    const stretch result = part_of(output_, output_cell_, place_);
    std::vector<rank> peers;
    for (const node& it : nodes_) peers.push_back(it[place_]);
    const bool may_hold = add_multiplying(ops_, peers, static_cast<rank>(own_), radix_, k_exchange_tag, sum, result);
    for (std::size_t distance = 1; distance < here().size(); ++distance)
      ops_.send(here()[(place_ + distance) % here().size()], k_spread_tag, result);
    return may_hold;
  }

  const rank self_;
  const std::vector<node> nodes_;
  const std::size_t own_;    ///< node
  const std::size_t place_;  ///< in it
  const rank radix_;
  const std::size_t owners_;  ///< of blocks, in each node
  const cut blocks_;
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  const std::uint32_t input_cell_;
  const std::uint32_t output_cell_;
};

// A chain may begin and end with a message inside a node, if the node has more than one rank.
std::uint64_t hops_of(const std::vector<node>& nodes, rank radix) {
  std::vector<std::uint64_t> inside;
  for (const node& it : nodes) inside.push_back(it.size() > 1 ? 1 : 0);
  std::vector<std::uint64_t> chains = chains_of_multiplying(radix, inside);
  for (std::size_t i = 0; i < chains.size(); ++i) chains[i] += inside[i];
  return std::ranges::max(chains);
}

cost cost_of_two_level(rank size, const shape& data, const activation&) {
  const std::vector<node> nodes = nodes_of(data, size);
  const std::uint64_t owners = ranks_of_smallest(nodes);
  const std::uint64_t inside = 2 * (wide(size) - nodes.size());
  const cost between = cost_of_multiplying(static_cast<rank>(nodes.size()), radix_of(data), data.count, data);
  return {.messages = owners * (inside + between.messages),
          .bytes = saturating_sum(saturating_product(inside, bytes_of(data.count, data)), between.bytes),
          .hops = hops_of(nodes, radix_of(data))};
}

}  // namespace

constinit const algorithm k_allreduce_two_level{
    .of = &k_allreduce,
    .name = "two_level",
    .add = add_allreduce_two_level,
    .needs = {.needs_commutative = true,
              .summary =
                  "several nodes: blocks combined inside each, then exchanged by as many ranks as the smallest has"},
    .cost_of = cost_of_two_level,
    .looks_at = {.radix = true, .nodes = true}};

fragment add_allreduce_two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return two_level(to, data, input, output, entry).write();
}

}  // namespace lsched
