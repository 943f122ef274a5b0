// Nodes: what may be in an element. The algebra of contents.h.
//
// A node is a leaf (a rank's input) or made by an op of others. It has a fingerprint of the multiset of its leaves
// (fingerprint.h), which adds up when nodes are joined. More leaves than are promised are told exactly; as many, of
// which some are missing or from another place, are overlooked with a probability of about 2^-120. Nodes also remember
// how they were made, so that a failure can be explained exactly, and equal expressions can be told by their hash.
//
// Expressions are equal modulo the laws that a kernel's row declares of the dtype (ops/kernel.h): operands may change
// places where it commutes; grouping does not matter where it associates, too; and where it is idempotent a leaf that
// was in both operands is in the result once. The latter two are known of leaves at the same place that one kernel has
// combined; what else is in an expression keeps its shape.
//
// A node says nothing about elements: a segment of memory says by how much its elements have been shifted against the
// first leaf's, and a leaf that is shifted by d against that weighs x^d times as much, x random. No power of x up to
// the number of all elements is 1.
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

/// What a kernel makes, to a promise about contributions.
enum class making : std::uint8_t {
  contributions,  ///< those of its operands
  by_function,    ///< likewise, but what has become of them only functions know: for promises by functions
  nobodys,        ///< numbers that may steer what becomes of contributions, but are in no promised range
};
making making_of(kernel what);

constexpr std::uint32_t bit_of(kernel what) { return 1u << static_cast<unsigned>(what); }

inline constexpr std::uint32_t k_no_input = ~std::uint32_t{0};

using node_id = std::uint32_t;
inline constexpr node_id k_nothing = 0;  ///< a node that nothing is in

struct node {
  fingerprint contributions{};
  std::uint64_t tree = 0;
  node_id lower = 0, higher = 0;       ///< of a join; of a quotient, the other is k_nothing
  world_op joined_by = k_no_world_op;  ///< k_no_world_op: a leaf
  world_op least_by = k_no_world_op;   ///< who made what of all that is in it is least of a contribution, if it is none
  rank lowest = 0, highest = 0;        ///< contributors
  std::uint32_t input = 0;             ///< of a leaf
  std::uint32_t products = 0;          ///< of sums: which, in products_; 0: it is no such node
  std::uint32_t kernels = 0;           ///< bit k: kernel k, of joins
  std::uint32_t merges = 0;            ///< bit k: a capture may have merged late contributions by kernel k
  rank_sets::id ranks = rank_sets::k_empty;  ///< of a leaf, and of leaves of one input that an idempotent kernel joins
  bool is_flat = false;  ///< a leaf; or leaves combined by one kernel, whose order and grouping change no bit
  bool is_in_rank_order = true;
  bool is_derived = false;     ///< numbers, by a function
  bool is_there = false;       ///< in partial schedules, whoever contributes: a function has made it
  std::uint32_t part = 0;      ///< of what a split has made: of which element, in parts_
  std::uint32_t shares = 0;    ///< its elements are shares of one element of several, which may be a share, and so on
  std::uint64_t extent = 0;    ///< elements in all; if operands had different ones, 0
  fingerprint contributors{};  ///< contributions wherever they are from; of what a function made: those it goes by
};
/// What a split has taken apart: an element of several, or all of a node, which is then the only one.
struct split_element {
  std::uint64_t whole = 0;  ///< the expression that it is an element of
  std::int64_t number = 0;  ///< which
  std::uint64_t of = 0;     ///< how many
};
/// Element i of the memory holds the node for its element i - shift.
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

  /// Every node that an op makes. `parts`: what becomes part of it; not what the op goes by.
  node_id add(world_op id, node made, std::initializer_list<node_id> parts);

  /// What the op makes of two, by the symbolic rule of kernel `how`. The result is shifted as its lower operand is.
  node_id add_join(world_op id, kernel how, const segment& lower, const segment& higher);
  /// The expression of the higher operand as it lies beside the lower: its own only where both are of the same places.
  std::uint64_t tree_beside(const segment& lower, const segment& higher) const;
  node_id add_weighted(world_op id, const segment& lower, const segment& higher, const products& weights);
  /// The three sums, elements 0 to 2. `parts`: the sums that these are the sums of.
  node_id add_sums(world_op id, const products& all, std::initializer_list<node_id> parts);
  /// The same contributions; by what they are divided, the expression says.
  node_id add_quotient(world_op id, const segment& sum);

  /// The same contributions, as op `id` hands them on; and nothing of what they were besides, as sums or a part.
  node copy_of(node_id original, world_op id) const;

  /// The products that sums are of; nullptr: they are no sums.
  const products* products_of(node_id sums) const {
    return nodes_[sums].products == 0 ? nullptr : &products_[nodes_[sums].products];
  }

  /// Which element it is that was taken apart into this one; of no part all is zero.
  const split_element& part_of(node_id which) const { return parts_[nodes_[which].part]; }
  std::uint32_t add_part(const split_element& part) {
    parts_.push_back(part);
    return static_cast<std::uint32_t>(parts_.size() - 1);
  }

  fingerprint shifted(fingerprint leaves, std::int64_t distance) const;

 private:
  /// Whether a join of the two is by the leaves in it alone, whatever its shape.
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
  std::map<std::uint32_t, std::vector<fingerprint>> sums_;  ///< by input: of the leaves of the first 0, 1, ... ranks
};

}  // namespace lsched::symbolic
