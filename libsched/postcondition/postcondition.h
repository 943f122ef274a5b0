// What a collective promises: what every range of every output holds at the end of a round, and what a round costs.
//
// A plain value that says nothing about how the promise is kept; verify() holds schedules against it. A range is one of
// nothing (any content will do), moved (one rank's input, unchanged) and reduced (the inputs of several ranks, each
// exactly once). Ranges that no promise speaks of may hold anything.
//
//   allreduce        every rank: output 0, all of it, reduced over all ranks
//   reduce_scatter   rank r: output 0, [0, n), reduced over all ranks from input element r * n on
//   allgather        every rank, every r: output 0, [r * n, (r+1) * n), moved from rank r, input element 0 on
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

/// Elements [begin, end) of one output of one rank. Element i comes from input element `input_begin` + i - begin.
struct promised_range {
  rank holder = 0;
  std::uint32_t output = 0;  ///< the k-th output of the holder's schedule, from 0
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  promised_content what = promised_content::nothing;
  std::uint32_t input = 0;  ///< the k-th input of the schedules of those it comes from
  std::uint64_t input_begin = 0;
  rank source = k_no_rank;        ///< moved: whose input
  std::vector<rank> among{};      ///< reduced: whose inputs, ascending; empty: every rank's
  kernel how = kernel::none;      ///< reduced: by which kernel
  kernel merged = kernel::none;   ///< reduced: by which kernel else a rank's late contributions may have become one
  bool is_in_rank_order = false;  ///< reduced: operands of lower ranks come first throughout
  std::uint64_t tree = 0;         ///< reduced: the expression (see joined_tree); 0: any
  bool has_means = false;  ///< reduced: means are in it, that is sums divided; which ones, `tree` says, which is not 0
  std::uint64_t divisor = 0;  ///< reduced: the whole of it is divided by that, and nothing else is; 0: nothing is
};

/// What one round costs the whole world, in exact integers; products that pass 2^64-1 stay there.
struct cost {
  std::uint64_t messages = 0;        ///< payload messages
  std::uint64_t bytes = 0;           ///< payload bytes, if no contribution is null
  std::uint64_t signals = 0;         ///< signals, if every rank's own call counts
  std::uint64_t signals_of_one = 0;  ///< signals, if exactly one rank's call counts
  /// Longest chain of messages and signals, one hop each, to the last exit. Ordinary schedules and policy
  /// full: all ranks enter at once. Other policies: one rank calls, the worst one.
  std::uint64_t hops = 0;
  bool hops_are_bound = false;  ///< declared: hops is the most it can be, and not always that
  friend bool operator==(const cost&, const cost&) = default;
};

/// Elements of a rank's first input and first output, where it has one.
struct extents {
  std::optional<std::uint64_t> input{};
  std::optional<std::uint64_t> output{};
  friend bool operator==(const extents&, const extents&) = default;
};

/// What ranks bring and take.
struct promised_data {
  dtype type = dtype::f32;
  std::vector<extents> of{};  ///< by rank; a single entry stands for all
  const extents& at(rank r) const { return of[of.size() == 1 ? 0 : static_cast<std::size_t>(r)]; }
};

struct postcondition {
  std::vector<promised_range> ranges{};
  std::optional<promised_data> data{};  ///< none: any
  /// No rank's round ends before every rank has entered it, whether the schedules declare that or not.
  bool is_synchronising = false;
  /// Holders of the same output range, reduced, evaluate the same expression and so hold the same bits.
  bool is_same_everywhere = true;
  std::optional<cost> round_cost{};  ///< none: nothing is promised about it
  /// If one rank alone calls, in a partial round without a cost; none: any number.
  std::optional<std::uint64_t> signals_of_one{};
};

/// Every rank's output 0, of `count` elements, is the reduction of all ranks' input 0.
postcondition reduced_everywhere(rank size, std::uint64_t count, kernel how, bool is_in_rank_order);

/// Hashes of expressions: equal for equal ones, in this process (fingerprint.h). A leaf is a rank's input.
std::uint64_t leaf_tree(rank contributor, std::uint32_t input);
fingerprint leaf_fingerprint(rank contributor, std::uint32_t input);
std::uint64_t joined_tree(kernel how, std::uint64_t lower, std::uint64_t higher);
/// Of a reduction, modulo the laws that its row declares (ops/kernel.h): by which operands it is, in either order where
/// it commutes; and where it associates, too, by what leaves are in it (is_flat), once each where it is idempotent.
std::uint64_t reduced_tree(kernel how, dtype type, std::uint64_t lower, std::uint64_t higher);
std::uint64_t reduced_tree(kernel how, const fingerprint& leaves);
bool is_flat(kernel how, dtype type);
/// Of the first inputs of ranks, combined in that order.
std::uint64_t reduced_tree(kernel how, dtype type, std::span<const rank> ranks);
std::uint64_t divided_tree(std::uint64_t sum, std::uint64_t divisor);
/// The adaptive sum of two vectors, by all products of their elements [begin, end), counted as input elements are.
std::uint64_t adasum_expression(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

}  // namespace lsched
