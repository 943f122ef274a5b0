#include "libsched/verify/node_table.h"

#include <algorithm>

#include "libsched/postcondition/fingerprint.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched::symbolic {

/// Returns how the kernel's result relates to contributions. For each node, node_table::add records the op whose
/// kernel has the largest `making`.
making making_of(kernel what) {
  switch (row_of(what).symbol) {
    case symbolic_rule::sums:
    case symbolic_rule::lengths:
    case symbolic_rule::opaque: return making::nobodys;
    case symbolic_rule::part:
    case symbolic_rule::fold:
    case symbolic_rule::whole: return making::by_function;
    default: return making::contributions;
  }
}

node_table::node_table(const assembly& all)
    : all_(all), weights_(the_weights()), nodes_{{.input = k_no_input}}, products_(1), parts_(1) {}

/// A negative distance -d is replaced by k_prime - 1 - d, which is equivalent in the multiplicative group.
fingerprint node_table::shifted(fingerprint leaves, std::int64_t distance) const {
  if (distance == 0) return leaves;
  const std::uint64_t steps =
      distance > 0 ? static_cast<std::uint64_t>(distance) : k_prime - 1 - static_cast<std::uint64_t>(-distance);
  for (std::size_t i = 0; i < leaves.weights.size(); ++i)
    leaves.weights[i] = modular_product(leaves.weights[i], modular_power(weights_.shift_steps[i], steps));
  return leaves;
}

node_id node_table::add_leaf(rank contributor, std::uint32_t input, std::uint64_t extent) {
  const fingerprint leaf = leaf_fingerprint(contributor, input);
  nodes_.push_back({.contributions = leaf,
                    .tree = leaf_tree(contributor, input),
                    .lowest = contributor,
                    .highest = contributor,
                    .input = input,
                    .ranks = sets_.single(contributor),
                    .is_flat = true,
                    .extent = extent,
                    .contributors = leaf});
  return static_cast<node_id>(nodes_.size() - 1);
}

node_id node_table::add(world_op id, node made, std::initializer_list<node_id> parts) {
  made.least_by = k_no_world_op;
  for (const node_id part : parts) made.least_by = least_of(made.least_by, nodes_[part].least_by);
  if (making_of(all_.at(id).what) != making::contributions) made.least_by = least_of(made.least_by, id);
  nodes_.push_back(made);
  return static_cast<node_id>(nodes_.size() - 1);
}

/// Returns the op whose kernel has the larger `making`, or x if both are equal. If one op is k_no_world_op, returns the
/// other op.
world_op node_table::least_of(world_op x, world_op y) const {
  if (x == k_no_world_op || y == k_no_world_op) return std::min(x, y);
  return making_of(all_.at(x).what) >= making_of(all_.at(y).what) ? x : y;
}

node node_table::copy_of(node_id original, world_op id) const {
  node copy = nodes_[original];
  copy.lower = original, copy.higher = k_nothing;
  copy.joined_by = id;
  copy.products = copy.part = 0;
  copy.is_derived = copy.is_flat = false;
  copy.ranks = rank_sets::k_empty;
  return copy;
}

node_id node_table::add_join(world_op id, kernel how, const segment& lower, const segment& higher) {
  const node& x = nodes_[lower.what];
  const node& y = nodes_[higher.what];
  const dtype type = all_.at(id).type;
  const bool is_flat = joins_flat(how, type, lower, higher);
  // If the kernel is idempotent, a leaf that is in both operands counts once. But in partial schedules, such a leaf
  // counts twice, because the engine adds the contributor counts of both operands.
  const bool is_set = is_flat && row_of(how).obeys(law::idempotent, type) && x.ranks != rank_sets::k_empty &&
                      y.ranks != rank_sets::k_empty && x.input == y.input &&
                      !all_.program(all_.rank_of(id)).is_partial();
  const rank_sets::id ranks = is_set ? sets_.united(x.ranks, y.ranks) : rank_sets::k_empty;
  const fingerprint leaves = is_set ? leaves_of(ranks, x.input)
                                    : joined(x.contributions, shifted(y.contributions, lower.shift - higher.shift));
  const std::uint64_t tree =
      is_flat ? reduced_tree(how, leaves) : reduced_tree(how, type, x.tree, tree_beside(lower, higher));
  return add(id,
             {.contributions = leaves,
              .tree = with_parameters(tree, id),
              .lower = lower.what,
              .higher = higher.what,
              .joined_by = id,
              .lowest = std::min(x.lowest, y.lowest),
              .highest = std::max(x.highest, y.highest),
              .input = is_set ? x.input : 0,
              .kernels = x.kernels | y.kernels | bit_of(how),
              .merges = x.merges | y.merges,
              .ranks = ranks,
              .is_flat = is_flat,
              .is_in_rank_order = x.is_in_rank_order && y.is_in_rank_order && x.highest < y.lowest,
              .is_there = x.is_there || y.is_there,
              .shares = std::max(x.shares, y.shares),
              .extent = x.extent == y.extent ? x.extent : 0,
              .contributors = joined(x.contributors, y.contributors)},
             {lower.what, higher.what});
}

bool node_table::joins_flat(kernel how, dtype type, const segment& lower, const segment& higher) const {
  const node &x = nodes_[lower.what], &y = nodes_[higher.what];
  return lsched::is_flat(how, type) && lower.shift == higher.shift && x.is_flat && y.is_flat &&
         ((x.kernels | y.kernels) & ~bit_of(how)) == 0;
}

fingerprint node_table::leaves_of(rank_sets::id ranks, std::uint32_t input) {
  std::vector<fingerprint>& sums = sums_[input];
  if (sums.empty()) {
    sums.resize(1);
    for (rank r = 0; r < all_.size(); ++r) sums.push_back(joined(sums.back(), leaf_fingerprint(r, input)));
  }
  fingerprint leaves;
  for (const auto& [first, end] : sets_.intervals(ranks)) {
    const fingerprint &to = sums[static_cast<std::size_t>(end)], &from = sums[static_cast<std::size_t>(first)];
    leaves = joined(leaves, {{modular_sum(to.weights[0], k_prime - from.weights[0]),
                              modular_sum(to.weights[1], k_prime - from.weights[1])},
                             to.size - from.size});
  }
  return leaves;
}

std::uint64_t node_table::tree_beside(const segment& lower, const segment& higher) const {
  const std::uint64_t tree = nodes_[higher.what].tree;
  if (lower.shift == higher.shift) return tree;
  return joined_tree(kernel::copy, tree, static_cast<std::uint64_t>(lower.shift - higher.shift));
}

/// Adds the op's parameters to an expression. If the op calls a function, `tree` already contains the parameters.
std::uint64_t node_table::with_parameters(std::uint64_t tree, world_op id) const {
  const op& o = all_.at(id);
  const kernel_row& row = row_of(o.what);
  if (row.is(trait::function)) return tree;
  const parameter_values& values = all_.program(all_.rank_of(id)).parameters_of(o);
  for (std::size_t i = 0; i < values.size() && row.parameters[i].exists(); ++i)
    tree = joined_tree(o.what, tree, values[i].bits());
  return tree;
}

node_id node_table::add_weighted(world_op id, const segment& lower, const segment& higher, const products& weights) {
  const node_id joined = add_join(id, all_.at(id).what, lower, higher);
  nodes_[joined].tree = adaptive_tree(nodes_[lower.what].tree, tree_beside(lower, higher), weights);
  return joined;
}

node_id node_table::add_sums(world_op id, const products& all, std::initializer_list<node_id> parts) {
  const auto number = static_cast<std::uint32_t>(products_.size());
  products_.push_back(all);
  return add(id, {.tree = all.weights[0], .input = k_no_input, .products = number}, parts);
}

node_id node_table::add_quotient(world_op id, const segment& sum) {
  node quotient = copy_of(sum.what, id);
  quotient.tree = with_parameters(quotient.tree, id);
  quotient.kernels |= bit_of(all_.at(id).what);
  return add(id, quotient, {sum.what});
}

}  // namespace lsched::symbolic
