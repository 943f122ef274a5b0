// What a generator is: a pure function that appends a collective's ops to a builder, and the words that describe it.
//
// Generators know no clock, no globals, no environment and no addresses: equal arguments give equal schedules. They
// compose by handing one fragment's exit to the next as its entry; compose.h makes whole schedules of them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/algorithm/collective.h"
#include "libsched/schedule/builder.h"

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
  bool power_of_two = false;       ///< only worlds of 2^k ranks
  bool needs_commutative = false;  ///< false: operands are combined in rank order, associativity is enough
  bool in_place = true;            ///< input and output may be the same memory
  bool by_name_only = false;       ///< its results are not those of others: never chosen by cost
  std::uint64_t min_count = 0;
  rank most_ranks = std::numeric_limits<rank>::max();
  bool needs_everybody = false;  ///< messages mix what ranks contribute: there is no partial variant
  std::string_view summary;      ///< one line for people
};

/// The first reason, if there is one, why a generator of this collective with these constraints cannot serve the
/// request. `argument`: the request is meaningless by itself; `constraint`: another algorithm might do it.
std::optional<failure> validate(const collective& of, const constraints& needs, world place, const shape& data,
                                const activation& starts);

/// Appends a collective, of data counted in units (shape::unit), from `input` to `output` in which nothing fires before
/// `entry`. Where this rank has no input or no output (collective::extents_of), that is k_no_buffer.
using add_collective = fragment (*)(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

}  // namespace lsched
