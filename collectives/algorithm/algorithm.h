// One way to do a collective: a generator, the words that describe it, and its cost, as an entry of the registry.
//
// A generator is a pure function that appends a collective's ops to a builder. Generators know no clock, no globals, no
// environment and no addresses: equal arguments give equal schedules. They compose by handing one fragment's exit to
// the next as its entry; compose.h makes whole schedules of them.
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

/// A range of ops under construction. Nothing in it fires before `entry` has completed (k_no_op: before the
/// round begins); when `exit` completes, every op in it that the collective needs has completed.
struct fragment {
  op_id entry = k_no_op;
  op_id exit = k_no_op;
  bool holding = false;  ///< its receives satisfy builder::declare_holding
};

/// Tags of signals: one value per kind of fragment, so that an activation and a barrier can share a builder.
/// Within one fragment no peer is signalled twice in the same direction.
inline constexpr std::uint32_t k_activation_tag = 0;
inline constexpr std::uint32_t k_barrier_tag = 1;
inline constexpr std::uint32_t k_arrival_tag = 2;
inline constexpr std::uint32_t k_signal_tags = 3;  ///< so many there are

/// What a generator asks of its arguments beyond what its collective does, as data: callers query it instead of trying.
struct constraints {
  bool needs_commutative = false;  ///< false: operands are combined in rank order, associativity is enough
  bool in_place = true;            ///< input and output may be the same memory
  bool by_name_only = false;       ///< its results are not those of others: never chosen by cost
  bool needs_everybody = false;    ///< messages mix what ranks contribute: there is no partial variant
  bool moves_lists = false;        ///< each block goes by itself, so that it may be a list (shape::room)
  std::string_view summary;        ///< one line for people
};

/// Appends a collective, of data counted in units (shape::unit), from `input` to `output` in which nothing fires before
/// `entry`. Where this rank has no input or no output (collective::extents_of), that is k_no_buffer.
using add_collective = fragment (*)(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

/// Such a function for a class that holds the ops of one rank while they are being written.
template <class Writer>
fragment add_by(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return Writer(to, data, input, output, entry).write();
}

struct algorithm;

/// A generator that has data of its own, as one that was read from a file; of algorithms that are no part of the
/// library.
class custom_generator {
 public:
  virtual ~custom_generator() = default;
  /// As add_collective and algorithm::cost_of.
  virtual fragment add(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const = 0;
  virtual cost cost_of(rank size, const shape& data) const = 0;
  /// Why it cannot serve a request that others can.
  virtual std::optional<failure> validate(rank size, const shape& data) const = 0;
  /// The counts that it serves are multiples of this.
  virtual std::uint64_t count_unit(rank size) const = 0;
  /// Why "auto" must not take `how`, which is of this generator, dense or partial: what the proof of the request found.
  virtual std::optional<failure> doubt(const algorithm& how, rank size, const shape& data) const = 0;
};

/// Which fields of a shape, beyond what the collective asks for, an algorithm looks at.
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
  /// Of one round, exactly. Of a partial algorithm, as of its dense one: cost_of_round (compose.h) adds the rest.
  cost (*cost_of)(rank size, const shape& data);
  tunables looks_at{};
  /// Of collectives that adapt: the expression of one tensor (postcondition.h).
  std::uint64_t (*expression_of)(rank size, const shape& data, const tensor& part) = nullptr;
  bool combines_means = false;  ///< that expression's leaves may be means of several ranks
  std::uint64_t most_tensors = std::numeric_limits<std::uint64_t>::max();  ///< that are not empty, of several ranks
  std::string_view name_on_one_node{};       ///< in names of schedules, where all ranks share a node; empty: `name`
  const algorithm* dense = nullptr;          ///< of a partial algorithm: what the activation is in front of
  const custom_generator* custom = nullptr;  ///< takes the place of `add` and `cost_of`

  /// `add` and `cost_of`, by whomever they are done.
  fragment append_to(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const {
    return custom == nullptr ? add(to, data, input, output, entry) : custom->add(to, data, input, output, entry);
  }
  cost counted_cost(rank size, const shape& data) const {
    return custom == nullptr ? cost_of(size, data) : custom->cost_of(size, data);
  }

  /// compose (collectives/compose.h).
  result<schedule_ptr> generate(world place, const shape& data, const activation& starts = {}) const;
};

/// Why the algorithm cannot serve the request: the first reason, if any. `argument`: the request is meaningless
/// by itself; `constraint`: another algorithm might serve it.
std::optional<failure> validate(const algorithm& how, world place, const shape& data, const activation& starts = {});

/// A warning of one sentence where, with these nodes, an adaptive sum combines nothing adaptively; else empty. Static.
std::string_view node_warning(const algorithm& how, rank size, const shape& data);

/// Bytes of that many elements, or of as many lists at most.
std::uint64_t bytes_of(std::uint64_t count, const shape& data);

/// Bytes on the wire if every rank's block moves once to every other rank.
std::uint64_t bytes_to_all(rank size, const shape& data);

/// The cost of so many messages of `count` elements each.
cost cost_of_messages(std::uint64_t messages, std::uint64_t count, const shape& data, std::uint64_t hops);

}  // namespace lsched
