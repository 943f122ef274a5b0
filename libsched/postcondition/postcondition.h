// The postcondition of a collective: the content of every range of every output at the end of a round, and the cost of
// a round.
//
// A postcondition is a plain value and does not depend on the algorithm. verify() checks schedules against it. The
// content of a range is nothing (any content is right), moved (one rank's input, unchanged) or reduced (the inputs of
// several ranks, each exactly once). Ranges without a promise may have any content.
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
  std::uint32_t output = 0;  ///< index among the outputs of the holder's schedule
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  promised_content what = promised_content::nothing;
  std::uint32_t input = 0;  ///< index among the inputs of each source rank's schedule
  std::uint64_t input_begin = 0;
  rank source = k_no_rank;        ///< moved: rank of the input
  std::vector<rank> among{};      ///< reduced: ranks of the inputs, ascending; empty: all ranks
  kernel how = kernel::none;      ///< reduced: the kernel
  kernel merged = kernel::none;   ///< reduced: another kernel that may merge the late contributions of a rank
  bool is_in_rank_order = false;  ///< reduced: operands of lower ranks always come first
  std::uint64_t tree = 0;         ///< reduced: the expression (see joined_tree); 0: any
  bool has_means = false;         ///< reduced: the expression contains means (divided sums); `tree` is not 0
  std::uint64_t divisor = 0;      ///< reduced: divisor of the whole result, without other divisions; 0: no division
};

/// Cost of one round for the whole world, in exact integers. Products saturate at 2^64-1.
struct cost {
  std::uint64_t messages = 0;        ///< payload messages
  std::uint64_t bytes = 0;           ///< payload bytes, if no contribution is null
  std::uint64_t signals = 0;         ///< signals, if every rank's own call counts
  std::uint64_t signals_of_one = 0;  ///< signals, if exactly one rank's call counts
  /// Longest chain of messages and signals, one hop each, to the last exit. For ordinary schedules and policy full, all
  /// ranks enter at the same time. For other policies only one rank calls, and the worst such rank counts.
  std::uint64_t hops = 0;
  bool hops_are_bound = false;  ///< declared costs: hops is an upper bound that need not be reached
  friend bool operator==(const cost&, const cost&) = default;
};

/// Elements of a rank's first input and first output, if the rank has them.
struct extents {
  std::optional<std::uint64_t> input{};
  std::optional<std::uint64_t> output{};
  friend bool operator==(const extents&, const extents&) = default;
};

/// Type and sizes of the inputs and outputs of all ranks.
struct promised_data {
  dtype type = dtype::f32;
  std::vector<extents> of{};  ///< by rank; a single entry stands for all
  const extents& at(rank r) const { return of[of.size() == 1 ? 0 : static_cast<std::size_t>(r)]; }
};

struct postcondition {
  std::vector<promised_range> ranges{};
  std::optional<promised_data> data{};  ///< empty: any type and sizes
  /// No rank's round ends before every rank has entered it, even if the schedules do not declare that.
  bool is_synchronising = false;
  /// All holders of the same reduced output range evaluate the same expression, and so have the same bits.
  bool is_same_everywhere = true;
  std::optional<cost> round_cost{};  ///< empty: any cost
  /// Number of signals if exactly one rank calls, for partial rounds without `round_cost`. Empty: any number.
  std::optional<std::uint64_t> signals_of_one{};
};

/// Returns the postcondition that output 0 of every rank, of `count` elements, is the reduction of input 0 of all
/// ranks.
postcondition reduced_everywhere(rank size, std::uint64_t count, kernel how, bool is_in_rank_order);

/// Hashes of expressions, which are equal for equal expressions in this process (fingerprint.h). A leaf is a rank's
/// input.
std::uint64_t leaf_tree(rank contributor, std::uint32_t input);
fingerprint leaf_fingerprint(rank contributor, std::uint32_t input);
std::uint64_t joined_tree(kernel how, std::uint64_t lower, std::uint64_t higher);
/// Hash of a reduction, modulo the laws in its kernel's row (ops/kernel.h). For a commutative kernel, the order of the
/// operands does not matter. If the kernel is associative as well (is_flat), only the leaves matter, each once if it is
/// idempotent.
std::uint64_t reduced_tree(kernel how, dtype type, std::uint64_t lower, std::uint64_t higher);
std::uint64_t reduced_tree(kernel how, const fingerprint& leaves);
bool is_flat(kernel how, dtype type);
/// Hash of the reduction of the first inputs of `ranks`, combined in this order.
std::uint64_t reduced_tree(kernel how, dtype type, std::span<const rank> ranks);
std::uint64_t divided_tree(std::uint64_t sum, std::uint64_t divisor);
/// Hash of the adaptive sum of two vectors by all products of their elements [begin, end), numbered like input
/// elements.
std::uint64_t adasum_expression(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

}  // namespace lsched
