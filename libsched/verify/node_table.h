// The node table stores the nodes of the symbolic execution (contents.h). A node describes the content of an element.
//
// A node is a leaf (a rank's input) or the result of an op on other nodes. Each node has a fingerprint of the multiset
// of its leaves (fingerprint.h). The fingerprint of a join is the sum of the fingerprints of its operands. A node with
// too many leaves is always detected. A node with the right number of leaves, but with a wrong leaf, is missed with a
// probability of about 2^-120. Nodes also record the op that produced them, so that a failure can be explained exactly.
// Nodes with equal expressions have the same hash of the expression.
//
// Two expressions are equal if the laws that a kernel's row declares for the dtype (ops/kernel.h) make them equal. If
// the kernel is commutative, the order of operands does not matter. If it is also associative, grouping does not
// matter. If it is also idempotent, a leaf that is in both operands is in the result only once. The last two laws apply
// only to leaves that have equal shifts and that a single kernel has combined.
//
// A node does not depend on element indices. A segment of memory stores by how much its elements are shifted against
// the elements of the node's first leaf. If another leaf is shifted by d against the first leaf, each weight of this
// other leaf is multiplied by x^d, where x is random. No power of x up to the number of all elements is 1.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include "libsched/postcondition/fingerprint.h"
#include "libsched/verify/assembly.h"
#include "libsched/analysis/rank_sets.h"

namespace lsched::symbolic {

/// The relation of a kernel's result to contributions.
enum class making : std::uint8_t {
  contributions,  ///< the contributions of the kernel's operands
  by_function,    ///< contributions in a form that functions define; allowed only in postconditions about functions
  nobodys,        ///< numbers that may control ops, but are not allowed in ranges of a postcondition
};
making making_of(kernel what);

constexpr std::uint32_t bit_of(kernel what) { return 1u << static_cast<unsigned>(what); }

inline constexpr std::uint32_t k_no_input = ~std::uint32_t{0};

using node_id = std::uint32_t;
inline constexpr node_id k_nothing = 0;

struct node {
  fingerprint contributions{};         ///< sum of the fingerprints of all leaves
  std::uint64_t tree = 0;              ///< hash of the expression
  node_id lower = 0, higher = 0;       ///< operands of a join; a quotient has k_nothing as `higher`
  world_op joined_by = k_no_world_op;  ///< op that produced the node; k_no_world_op: the node is a leaf
  world_op least_by = k_no_world_op;   ///< op with the largest making_of(); k_no_world_op: `contributions`
  rank lowest = 0, highest = 0;        ///< lowest and highest contributor
  std::uint32_t input = 0;             ///< input index of a leaf
  std::uint32_t products = 0;          ///< index in products_ if the node holds sums; 0: no sums
  std::uint32_t kernels = 0;           ///< bit mask of the kernels of all joins
  std::uint32_t merges = 0;            ///< bit mask of the kernels by which captures may have merged late contributions
  /// Contributors. Set only if the node is a leaf, or a join of leaves of the same input by an idempotent kernel
  rank_sets::id ranks = rank_sets::k_empty;
  bool is_flat = false;  ///< a leaf, or a join of leaves by one kernel in which order and grouping do not matter
  bool is_in_rank_order = true;
  bool is_derived = false;  ///< the node consists of numbers that a function has derived
  bool is_there = false;    ///< the node is the result of a function, so it is never null in partial schedules
  std::uint32_t part = 0;   ///< index in parts_ of the element that was split into this node
  /// Number of splits of single elements (not of whole nodes) that no join has undone yet
  std::uint32_t shares = 0;
  /// Number of elements of the value, or 0 if the operands had different numbers of elements
  std::uint64_t extent = 0;
  /// Contributions without their shifts; for a result of a function, the contributions of operand b
  fingerprint contributors{};
};
/// A value that was split: an element of a larger value, or a whole node.
struct split_element {
  std::uint64_t whole = 0;  ///< expression of the value to which the element belongs
  std::int64_t number = 0;  ///< index of the element in that value
  std::uint64_t of = 0;     ///< number of elements of that value
};
/// Elements [begin, end) of a memory. Element i of the memory is element i - shift of the node.
struct segment {
  std::uint64_t begin = 0, end = 0;
  std::int64_t shift = 0;
  node_id what = 0;
};

class node_table {
 public:
  explicit node_table(const assembly& all);

  const node& operator[](node_id which) const { return nodes_[which]; }
  node& operator[](node_id which) { return nodes_[which]; }
  node_id size() const { return static_cast<node_id>(nodes_.size()); }

  node_id add_leaf(rank contributor, std::uint32_t input, std::uint64_t extent);

  /// Adds the result of an op. `parts`: the nodes that become part of the result. Operands that only control the op are
  /// not included.
  node_id add(world_op id, node made, std::initializer_list<node_id> parts);

  /// Adds the join of two nodes by op `id` and kernel `how`. The result has the same shift as its operand `lower`.
  node_id add_join(world_op id, kernel how, const segment& lower, const segment& higher);
  /// Returns the expression of the higher operand, including the shift of this operand against the lower operand. If
  /// both shifts are equal, the expression is unchanged.
  std::uint64_t tree_beside(const segment& lower, const segment& higher) const;
  node_id add_weighted(world_op id, const segment& lower, const segment& higher, const products& weights);
  /// Adds a node whose elements 0 to 2 are the three dot products. `parts`: the nodes whose dot products were added.
  node_id add_sums(world_op id, const products& all, std::initializer_list<node_id> parts);
  /// Adds a node with the contributions of `sum`. The expression of the new node includes the divisor.
  node_id add_quotient(world_op id, const segment& sum);

  /// Returns a copy of a node, as a result of op `id`. The copy has the same contributions, but no sums, and is not
  /// marked as a part.
  node copy_of(node_id original, world_op id) const;

  /// Returns the products that are added up in node `sums`, or nullptr if the node has no sums of products.
  const products* products_of(node_id sums) const {
    return nodes_[sums].products == 0 ? nullptr : &products_[nodes_[sums].products];
  }

  /// Returns the element that was split into this node. All members are zero if the node is not the result of a split.
  const split_element& part_of(node_id which) const { return parts_[nodes_[which].part]; }
  std::uint32_t add_part(const split_element& part) {
    parts_.push_back(part);
    return static_cast<std::uint32_t>(parts_.size() - 1);
  }

  fingerprint shifted(fingerprint leaves, std::int64_t distance) const;

 private:
  /// Returns true if the join of the two operands depends only on their leaves, and not on grouping.
  bool joins_flat(kernel how, dtype type, const segment& lower, const segment& higher) const;
  fingerprint leaves_of(rank_sets::id ranks, std::uint32_t input);
  world_op least_of(world_op x, world_op y) const;
  std::uint64_t with_parameters(std::uint64_t tree, world_op id) const;

  const assembly& all_;
  const random_weights& weights_;
  std::vector<node> nodes_;
  std::vector<products> products_;
  std::vector<split_element> parts_;
  rank_sets sets_;
  /// For each input: the fingerprints of the leaves of the first 0, 1, 2, … ranks
  std::map<std::uint32_t, std::vector<fingerprint>> sums_;
};

}  // namespace lsched::symbolic
