// Hierarchical Adasum: the mean inside each node, and the adaptive sum between nodes (Maleki and others, "Scaling
// distributed training with adaptive summation", arXiv:2006.02924, section 4.2.2). The vector has m blocks, where m is
// the number of ranks of the smallest node. The first m ranks of a node are owners, and each owns a block.
//
//   gather    every rank sends block b to the owner of block b on its node. The owner computes the mean over the node,
//             which is the sum in the order of ranks, divided by the number of ranks
//   exchange  the owners of a block combine the block (adasum_exchange.h)
//   spread    every owner sends its block of the result to all others of its node
//
// A node sends and receives about two vectors, and m of its ranks share these messages. Dot products are computed only
// for the vectors of nodes, not for the vectors of ranks. The nodes can be any partition of the ranks (shape::nodes),
// and all nodes have the same weight. With one node, the result is the mean, as the schedule's name indicates. "auto"
// never chooses two_level, because its results differ from those of other algorithms. Inside nodes, two_level computes
// means, and the other algorithms compute adaptive sums.
#include <vector>

#include "collectives/adasum/adasum.h"
#include "collectives/adasum/adasum_exchange.h"
#include "collectives/algorithm/nodes.h"

namespace lsched {
namespace {

std::vector<std::uint64_t> parts_between(const std::vector<node>& nodes, const shape& data) {
  return part_begins(data, static_cast<rank>(nodes.size()), static_cast<rank>(ranks_of_smallest(nodes)));
}

class adasum_two_level : adasum_part {
 public:
  adasum_two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : adasum_part(to, data, input, output, entry, parts_between(nodes_of(data, to.place().size), data)),
        nodes_(nodes_of(data, size())),
        own_(place_of(nodes_, self())),
        now_(given()) {}

  /// Computes the mean over the node. A node of one rank keeps its contribution unchanged. Elements that are in no
  /// tensor are copied from the first rank of the node.
  void gather() {
    for (std::size_t distance = 1; distance < here().size(); ++distance)
      if (const std::size_t to = (own_.place + distance) % here().size(); to < owners_)
        send(here()[to], gather_tag(), block_of(given(), to));
    if (is_owner() && here().size() > 1) take_mean();
  }

  void exchange() {
    if (is_owner()) adasum_exchange(*this, owned()).write(now_, gathered_);
  }

  void spread() {
    for (std::size_t distance = 1; is_owner() && distance < here().size(); ++distance) {
      send(here()[(own_.place + distance) % here().size()], spread_tag(), block_of(result(), own_.place));
      if (nodes_.size() == 1) wait_for(gathered_);
    }
    for (std::size_t distance = 1; distance < here().size(); ++distance)
      if (const std::size_t from = place_before(distance); from < owners_)
        recv(here()[from], spread_tag(), block_of(result(), from));
  }

  fragment finish() { return adasum_part::finish(true); }

 private:
  const node& here() const { return nodes_[own_.number]; }
  bool is_owner() const { return own_.place < owners_; }
  std::size_t place_before(std::size_t distance) const {
    return (own_.place + here().size() - distance) % here().size();
  }
  std::uint32_t gather_tag() const { return tags_of_exchange(static_cast<rank>(nodes_.size())); }
  std::uint32_t spread_tag() const { return gather_tag() + 1; }

  stretch block_of(place where, std::size_t block) const {
    const std::uint64_t parts = wide(fold(static_cast<rank>(nodes_.size())).core());
    return blocks(where, block * parts, (block + 1) * parts);
  }

  // The sum uses separate memory, because in place, the sum must not overwrite the owner's contribution too early.
  void take_mean() {
    const stretch own = block_of(given(), own_.place);
    std::vector<stretch> operands(here().size(), own);
    for (std::size_t distance = 1; distance < here().size(); ++distance) {
      stretch& landing = operands[place_before(distance)] = scratch(own.count);
      recv(here()[place_before(distance)], gather_tag(), landing);
    }
    const stretch sum = scratch(own.count);
    for (std::size_t i = 1; i < operands.size(); ++i) gathered_ = add(i == 1 ? operands[0] : sum, operands[i], sum);

    const element_range all{own.at.offset(), own.at.offset() + own.count};
    const auto runs = map().runs_in(all);
    for (const element_range& run : runs)
      divide(part_of_payload(sum, all.begin, run), elements(result(), run), static_cast<std::uint32_t>(here().size()));
    if (own_.place == 0) copy_gaps(given(), result(), all);
    for (const element_range& gap : map().gaps_in(all))
      if (own_.place != 0) copy(part_of_payload(operands[0], all.begin, gap), elements(result(), gap));
    if (!runs.empty()) gathered_ = k_no_op;  // sends wait for the divisions, which wait for the sum
    now_ = result();
  }

  ownership owned() const {
    ownership own{.block = static_cast<rank>(own_.place), .node = static_cast<rank>(own_.number)};
    for (const node& ranks : nodes_) own.peers.push_back(ranks[own_.place]);
    for (std::size_t b = 0; b < owners_; ++b) own.owners.push_back(here()[b]);
    return own;
  }

  const std::vector<node> nodes_;
  const node_place own_;
  const std::size_t owners_ = ranks_of_smallest(nodes_);
  place now_;                 ///< memory of an owner's block
  op_id gathered_ = k_no_op;  ///< for a block without tensors: the op that waits for the whole node
};

fragment add_two_level(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  adasum_two_level ops(to, data, input, output, entry);
  ops.gather();
  ops.exchange();
  ops.spread();
  return ops.finish();
}

// --- costs -------------------------------------------------------------------------------------------------

cost cost_of_two_level(rank size, const shape& data) {
  const std::vector<node> nodes = nodes_of(data, size);
  const std::uint64_t owners = ranks_of_smallest(nodes), inside = 2 * (wide(size) - nodes.size());
  cost all = cost_of_exchange(static_cast<rank>(nodes.size()), static_cast<rank>(owners), data);
  all.messages += owners * inside;
  all.bytes = saturating_sum(all.bytes, saturating_product(inside, bytes_of(data.count, data)));
  all.hops += inside == 0 ? 0 : 2;
  return all;
}

// --- expressions -------------------------------------------------------------------------------------------

/// Returns the expression (postcondition.h) of the mean over a node. The mean is the sum in rank order, divided by the
/// number of ranks. For a node of one rank, the expression is that rank's input, without a division.
std::uint64_t mean_tree(const node& ranks, dtype type) {
  const std::uint64_t sum = reduced_tree(kernel::sum, type, ranks);
  return ranks.size() == 1 ? sum : divided_tree(sum, static_cast<std::uint32_t>(ranks.size()));
}

std::uint64_t means_expression(rank size, const shape& data, const tensor& part) {
  std::vector<std::uint64_t> means;
  for (const node& ranks : nodes_of(data, size)) means.push_back(mean_tree(ranks, data.type));
  return hypercube_tree(means, part);
}

}  // namespace

constinit const algorithm k_adasum_two_level{
    .of = &k_adasum,
    .name = "two_level",
    .add = add_two_level,
    .needs = {.needs_commutative = true,
              .by_name_only = true,
              .needs_everybody = true,
              .summary = "several nodes: the mean inside each node, halving between nodes; one node: the mean"},
    .cost_of = cost_of_two_level,
    .looks_at = {.nodes = true, .tensors = true},
    .expression_of = means_expression,
    .combines_means = true,
    .name_on_one_node = "two_level, of one node: the mean"};

}  // namespace lsched
