// The postcondition of a collective defines two properties of a round: the content that ranges of outputs must have at
// its end, and its cost.
//
// A postcondition is a plain value and does not depend on the algorithm. verify() checks schedules against a
// postcondition. The required content of a range is `moved` (the input of one rank, unchanged), `reduced` (the inputs
// of several ranks, each exactly once) or `nothing` (any content is right). Ranges without an entry may also have any
// content.
//
//   allreduce        every rank: output 0, all elements, reduced over all ranks
//   reduce_scatter   rank r: output 0, [0, n), reduced over all ranks, beginning at input element r * n
//   allgather        every rank, every r: output 0, [r * n, (r+1) * n), moved from rank r, beginning at input element 0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libsched/postcondition/fingerprint.h"
#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

enum class promised_content : std::uint8_t { nothing, moved, reduced };

/// Elements [begin, end) of one output of one rank. Element i must be computed from element `input_begin` + i - begin
/// of the input.
struct promised_range {
  rank holder = 0;
  std::uint32_t output = 0;  ///< index among the outputs of the holder's schedule
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  promised_content what = promised_content::nothing;
  std::uint32_t input = 0;  ///< index among the inputs of the schedule of each source rank
  std::uint64_t input_begin = 0;
  rank source = k_no_rank;        ///< moved: rank of the input
  std::vector<rank> among{};      ///< if `reduced`: ranks of the combined inputs, in ascending order; empty: all
  kernel how = kernel::none;      ///< reduced: the kernel
  kernel merged = kernel::none;   ///< reduced: another kernel, by which late contributions of a rank may be merged
  bool is_in_rank_order = false;  ///< reduced: in every operation, the first operand must be from lower ranks
  std::uint64_t tree = 0;         ///< reduced: hash of the expression (joined_tree); 0: any expression
  bool has_means = false;         ///< reduced: the expression contains divisions (means); then `tree` must not be 0
  std::uint64_t divisor = 0;      ///< reduced: divisor of the whole result, the only division; 0: no division
};

/// Cost of one round for the whole world, in exact integers. Products saturate at 2^64-1.
struct cost {
  std::uint64_t messages = 0;        ///< payload messages
  std::uint64_t bytes = 0;           ///< payload bytes, if no contribution is null (absent)
  std::uint64_t signals = 0;         ///< number of signals if every rank calls for the round
  std::uint64_t signals_of_one = 0;  ///< number of signals if no more ranks call than the round needs
  /// Number of messages and signals in the longest chain that leads to the last exit. In ordinary schedules, and with
  /// the activation policy `full`, all ranks call at the same time. With any other policy, no more ranks call than the
  /// round needs, and `hops` is the maximum over all choices of these ranks.
  std::uint64_t hops = 0;
  bool hops_are_bound = false;  ///< for declared costs: true if `hops` is an upper bound, false if exact
  friend bool operator==(const cost&, const cost&) = default;
};

/// Number of elements of a rank's first input and of its first output. A member is empty if there is no such buffer.
struct extents {
  std::optional<std::uint64_t> input{};
  std::optional<std::uint64_t> output{};
  friend bool operator==(const extents&, const extents&) = default;
};

/// Type and sizes of the inputs and outputs of all ranks.
struct promised_data {
  dtype type = dtype::f32;
  std::vector<extents> of{};  ///< sizes, by rank; a single entry applies to all ranks
  const extents& at(rank r) const { return of[of.size() == 1 ? 0 : static_cast<std::size_t>(r)]; }
};

struct postcondition {
  std::vector<promised_range> ranges{};
  std::optional<promised_data> data{};  ///< empty: any type and sizes
  /// True if no rank's round may end before every rank has entered the round, whether or not the schedules declare
  /// this.
  bool is_synchronising = false;
  /// True if all ranks with the same reduced output range must evaluate the same expression, so that they get the same
  /// bits.
  bool is_same_everywhere = true;
  std::optional<cost> round_cost{};  ///< empty: any cost
  /// Number of signals of a partial round if no more ranks call than the round needs. Used only if `round_cost` is
  /// empty. If this member is empty, too, any number is right.
  std::optional<std::uint64_t> signals_of_one{};
};

/// Returns the postcondition that the first `count` elements of output 0 of every rank are the reduction of input 0 of
/// all ranks.
postcondition reduced_everywhere(rank size, std::uint64_t count, kernel how, bool is_in_rank_order);

/// The functions below return hashes and fingerprints of expressions. Within a process, equal expressions have equal
/// hashes (fingerprint.h). A leaf is the input of a rank.
std::uint64_t leaf_tree(rank contributor, std::uint32_t input);
fingerprint leaf_fingerprint(rank contributor, std::uint32_t input);
std::uint64_t joined_tree(kernel how, std::uint64_t lower, std::uint64_t higher);
/// Returns the hash of a reduction. Expressions that are equal by the laws in the kernel's row (ops/kernel.h) have the
/// same hash. If the kernel is commutative, the order of operands does not change the hash. If the kernel is
/// associative, too (is_flat), the hash depends only on the multiset of leaves. If the kernel is also idempotent,
/// duplicate leaves do not change the hash.
std::uint64_t reduced_tree(kernel how, dtype type, std::uint64_t lower, std::uint64_t higher);
std::uint64_t reduced_tree(kernel how, const fingerprint& leaves);
bool is_flat(kernel how, dtype type);
/// Returns the hash of the reduction of the first inputs of `ranks`, combined in this order.
std::uint64_t reduced_tree(kernel how, dtype type, std::span<const rank> ranks);
std::uint64_t divided_tree(std::uint64_t sum, std::uint64_t divisor);
/// Returns the hash of the adaptive sum of two vectors whose dot products contain the input elements [begin, end).
std::uint64_t adasum_expression(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

}  // namespace lsched
