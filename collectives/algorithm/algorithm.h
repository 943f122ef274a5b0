// An algorithm for a collective, as an entry of the registry: its generator, its properties and its cost.
//
// A generator is a pure function that appends the ops of a collective to a builder. Equal arguments give equal
// schedules. The appended ops are a fragment: they begin after the op `entry`, and the op `exit` marks their end. To
// compose two generators, pass the exit of the first fragment to the second generator as the entry. compose.h creates
// whole schedules from fragments.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/algorithm/collective.h"
#include "libsched/schedule/builder.h"
#include "ops/saturating.h"

namespace lsched {

/// A range of ops under construction. No op of the range fires before `entry` has completed. (If `entry` is k_no_op, no
/// op fires before the round begins.) When `exit` completes, every op of the range that the collective needs has
/// completed.
struct fragment {
  op_id entry = k_no_op;
  op_id exit = k_no_op;
  bool holding = false;  ///< the range satisfies the conditions of builder::declare_holding
};

/// Tags of signals. Each kind of fragment has its own tag, so that an activation and a barrier can be in the same
/// schedule. A fragment sends each peer at most one signal of each tag.
inline constexpr std::uint32_t k_activation_tag = 0;
inline constexpr std::uint32_t k_barrier_tag = 1;
inline constexpr std::uint32_t k_arrival_tag = 2;
inline constexpr std::uint32_t k_signal_tags = 3;  ///< number of these tags

/// The requirements of a generator, in addition to the requirements of its collective.
struct constraints {
  bool needs_commutative = false;  ///< if false, operands are combined in rank order, so associativity suffices
  bool in_place = true;            ///< input and output may be the same memory
  bool by_name_only = false;       ///< results differ from those of other algorithms, so "auto" never chooses it
  bool needs_everybody = false;    ///< no partial variant: messages combine contributions of several ranks
  bool moves_lists = false;        ///< each message contains one block, so that a block may be a list (shape::room)
  std::string_view summary;        ///< one line for users
};

/// Appends a collective that reads `input` and writes `output`. No op may fire before `entry` completes. Counts are in
/// units (shape::unit). `input` or `output` is k_no_buffer if this rank has no such buffer (collective::extents_of).
using add_collective = fragment (*)(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

/// Implements add_collective by class `Writer`, which writes the ops of one rank.
template <class Writer>
fragment add_by(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return Writer(to, data, input, output, entry).write();
}

struct algorithm;

/// A generator with state, such as a generator from a file. The library's own generators have no state.
class custom_generator {
 public:
  virtual ~custom_generator() = default;
  /// Appends the ops, as described for add_collective.
  virtual fragment add(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const = 0;
  virtual cost cost_of(rank size, const shape& data) const = 0;
  /// Returns an error if this generator does not support the request. The request must be valid.
  virtual std::optional<failure> validate(rank size, const shape& data) const = 0;
  /// Every count must be a multiple of the returned number.
  virtual std::uint64_t count_unit(rank size) const = 0;
  /// `how` is an algorithm (dense or partial) of this generator. Returns an error if the proof of `how` for the request
  /// failed. In this case, "auto" must not choose `how`.
  virtual std::optional<failure> doubt(const algorithm& how, rank size, const shape& data) const = 0;
};

/// A member is true if the algorithm uses the member of `shape` with the same name.
struct tunables {
  bool segment = false;
  bool radix = false;
  bool nodes = false;
  bool is_visible = false;
  bool buckets = false;
  bool tensors = false;
};

struct algorithm {
  const collective* of;
  std::string_view name;
  add_collective add;
  constraints needs;
  /// Returns the exact cost of one round. For a partial algorithm, returns the cost of `dense`. cost_of_round
  /// (compose.h) adds the cost of the activation.
  cost (*cost_of)(rank size, const shape& data);
  tunables looks_at{};
  /// Returns the expression (postcondition.h) of one tensor, for adaptive sums (collective::adapts).
  std::uint64_t (*expression_of)(rank size, const shape& data, const tensor& part) = nullptr;
  bool combines_means = false;  ///< the expression can combine means over several ranks
  /// Maximum number of non-empty tensors in a world of several ranks.
  std::uint64_t most_tensors = std::numeric_limits<std::uint64_t>::max();
  /// Replaces `name` in names of schedules if all ranks share a node. Empty: `name` is used.
  std::string_view name_on_one_node{};
  const algorithm* dense = nullptr;          ///< partial algorithms: the dense algorithm after the activation
  const custom_generator* custom = nullptr;  ///< if not null, replaces `add` and `cost_of`

  fragment append_to(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const {
    return custom == nullptr ? add(to, data, input, output, entry) : custom->add(to, data, input, output, entry);
  }
  cost counted_cost(rank size, const shape& data) const {
    return custom == nullptr ? cost_of(size, data) : custom->cost_of(size, data);
  }

  /// Returns the schedule that compose() creates (collectives/compose.h).
  result<schedule_ptr> generate(world place, const shape& data, const activation& starts = {}) const;
};

/// Returns an error if the algorithm does not support the request. The code is `argument` if no algorithm can support
/// the request, and `constraint` if another algorithm might.
std::optional<failure> validate(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// Returns a warning if `how` combines the means of nodes adaptively, although all ranks share a node. There is then
/// only one mean. Otherwise returns an empty text. The text is static.
std::string_view node_warning(const algorithm& how, rank size, const shape& data);

/// Returns the size in bytes of `count` elements. If blocks are lists, returns the maximum size of `count` lists.
std::uint64_t bytes_of(std::uint64_t count, const shape& data);

/// Returns the number of payload bytes if every rank sends its block once to every other rank.
std::uint64_t bytes_to_all(rank size, const shape& data);

cost cost_of_messages(std::uint64_t messages, std::uint64_t count, const shape& data, std::uint64_t hops);

}  // namespace lsched
