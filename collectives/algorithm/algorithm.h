// An algorithm for a collective: the generator, its description and its cost, as an entry of the registry.
//
// A generator is a pure function that appends the ops of a collective to a builder. Generators use no clock, no
// globals, no environment and no addresses, so that equal arguments give equal schedules. To compose generators, the
// exit of one fragment is passed to the next as its entry. compose.h makes whole schedules of fragments.
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

/// A range of ops under construction. No op in the range fires before `entry` has completed (k_no_op: before the round
/// begins). When `exit` completes, every op in the range that the collective needs has completed.
struct fragment {
  op_id entry = k_no_op;
  op_id exit = k_no_op;
  bool holding = false;  ///< the receives of the range satisfy builder::declare_holding
};

/// Tags of signals. Each kind of fragment has its own tag, so that an activation and a barrier can share a builder. A
/// fragment signals each peer at most once in each direction.
inline constexpr std::uint32_t k_activation_tag = 0;
inline constexpr std::uint32_t k_barrier_tag = 1;
inline constexpr std::uint32_t k_arrival_tag = 2;
inline constexpr std::uint32_t k_signal_tags = 3;  ///< number of tags above

/// The requirements of a generator beyond those of its collective. Callers read these fields instead of trying the
/// generator.
struct constraints {
  bool needs_commutative = false;  ///< if false, operands are combined in rank order, and associativity suffices
  bool in_place = true;            ///< input and output may be the same memory
  bool by_name_only = false;       ///< results differ from those of other algorithms; "auto" never chooses it
  bool needs_everybody = false;    ///< a message combines contributions of several ranks: no partial variant
  bool moves_lists = false;        ///< each block has a message of its own, so that a block may be a list (shape::room)
  std::string_view summary;        ///< one line for users
};

/// Appends a collective from `input` to `output`. No op fires before `entry`. Data is counted in units (shape::unit).
/// If this rank has no input or no output (collective::extents_of), the buffer is k_no_buffer.
using add_collective = fragment (*)(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

/// Implements add_collective by a class that writes the ops of one rank.
template <class Writer>
fragment add_by(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return Writer(to, data, input, output, entry).write();
}

struct algorithm;

/// A generator with state, for example a generator from a file. Algorithms of the library are stateless.
class custom_generator {
 public:
  virtual ~custom_generator() = default;
  /// Has the contract of add_collective.
  virtual fragment add(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const = 0;
  virtual cost cost_of(rank size, const shape& data) const = 0;
  /// Returns the reason if this generator cannot serve a valid request.
  virtual std::optional<failure> validate(rank size, const shape& data) const = 0;
  /// Returns the unit of counts: every count must be a multiple of this number.
  virtual std::uint64_t count_unit(rank size) const = 0;
  /// Returns the reason if the proof of the request failed, so that "auto" must not choose `how`. `how` is an algorithm
  /// of this generator, dense or partial.
  virtual std::optional<failure> doubt(const algorithm& how, rank size, const shape& data) const = 0;
};

/// The fields of a shape that an algorithm uses in addition to those that its collective requires.
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
  /// Returns the exact cost of one round. For a partial algorithm, this is the cost of `dense`. cost_of_round
  /// (compose.h) adds the activation.
  cost (*cost_of)(rank size, const shape& data);
  tunables looks_at{};
  /// Returns the expression (postcondition.h) of one tensor, for adaptive sums (collective::adapts).
  std::uint64_t (*expression_of)(rank size, const shape& data, const tensor& part) = nullptr;
  bool combines_means = false;  ///< leaves of the expression may be means of several ranks
  /// Maximum number of non-empty tensors, if there are several ranks.
  std::uint64_t most_tensors = std::numeric_limits<std::uint64_t>::max();
  /// Replaces `name` in names of schedules if all ranks share a node. Empty: `name` is used.
  std::string_view name_on_one_node{};
  const algorithm* dense = nullptr;          ///< for a partial algorithm, the algorithm behind the activation
  const custom_generator* custom = nullptr;  ///< replaces `add` and `cost_of` if not null

  /// Calls `add`, or the custom generator.
  fragment append_to(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const {
    return custom == nullptr ? add(to, data, input, output, entry) : custom->add(to, data, input, output, entry);
  }
  cost counted_cost(rank size, const shape& data) const {
    return custom == nullptr ? cost_of(size, data) : custom->cost_of(size, data);
  }

  /// Returns the schedule of compose() (collectives/compose.h).
  result<schedule_ptr> generate(world place, const shape& data, const activation& starts = {}) const;
};

/// Returns the first reason why the algorithm cannot serve the request, if any. The code is `argument` if no algorithm
/// can serve the request, and `constraint` if another algorithm might.
std::optional<failure> validate(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// Returns a warning of one sentence if all ranks share a node, so that an adaptive sum by nodes combines nothing
/// adaptively. Otherwise returns an empty text. The text has static storage.
std::string_view node_warning(const algorithm& how, rank size, const shape& data);

/// Returns the bytes of `count` elements, or the maximum number of bytes of `count` lists.
std::uint64_t bytes_of(std::uint64_t count, const shape& data);

/// Returns the bytes on the wire if the block of every rank moves once to every other rank.
std::uint64_t bytes_to_all(rank size, const shape& data);

/// Returns the cost of `messages` messages of `count` elements each.
cost cost_of_messages(std::uint64_t messages, std::uint64_t count, const shape& data, std::uint64_t hops);

}  // namespace lsched
