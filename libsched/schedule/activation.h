// Activation: the condition that starts a round of a partial collective. The condition is a pair (m, k). In addition,
// some rounds may wait for all ranks.
//
//   policy        m candidates, drawn anew each round      k of them have to call
//   full          every rank begins with its own call; no signals
//   solo          all                                      1    the first to call
//   majority      1                                        1    half of the ranks have called by then, on average
//   first_of(M)   M                                        1
//   all_of(M)     M                                        M
//   quorum(K)     all                                      K
//   deadline(T)   all that have waited for T us            1    otherwise every rank begins with its own call; T may be
//                                                               auto: derived by each rank from the times of its calls
//
// Ranks that have left are no candidates. If fewer than k ranks remain, all of them have to call. The condition is a
// function of (activation, round, remaining ranks), so all ranks know it without a message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

enum class activation_policy : std::uint8_t {
  none,      ///< an ordinary schedule: the caller starts each round
  full,      ///< every rank's own call starts its part; no signals
  solo,      ///< the first arrival starts the round everywhere
  majority,  ///< one rank, drawn anew every round, starts it
  first_of,  ///< the first of M ranks, drawn anew every round
  all_of,    ///< the last of M ranks, drawn anew every round
  quorum,    ///< the K-th arrival
  deadline,  ///< every rank's own call starts its part; a rank that has waited for T starts all parts
};

std::string_view name_of(activation_policy policy);

/// Returns true if the policy takes a number, of ranks or of microseconds.
constexpr bool has_number(activation_policy policy) { return policy >= activation_policy::first_of; }
constexpr bool has_number_of_ranks(activation_policy policy) {
  return has_number(policy) && policy != activation_policy::deadline;
}

/// The T of deadline(auto).
inline constexpr std::uint32_t k_auto_deadline = 0;

struct activation {
  activation_policy policy = activation_policy::none;
  std::uint64_t seed = 0;    ///< for the draws
  std::uint32_t number = 0;  ///< M of first_of and all_of, K of quorum, T of deadline or k_auto_deadline; 0 for others
  std::uint64_t full_every = 0;  ///< rounds that are multiples of this number wait for all calls; 0: no such rounds

  /// Returns true if signals start rounds.
  constexpr bool is_woken() const { return policy > activation_policy::full; }
  constexpr bool is_full(round_no round) const {
    return policy == activation_policy::full || (full_every != 0 && round % full_every == 0);
  }
  /// Returns true if there is a second call op, which opens only this rank's gate.
  constexpr bool has_full_call() const {
    return is_woken() && (full_every != 0 || policy == activation_policy::deadline);
  }
  friend bool operator==(const activation&, const activation&) = default;
};

/// Returns the activation for the `size` ranks that remain of a larger world. If fewer ranks remain than the number of
/// the policy, the number becomes `size`.
constexpr activation among(activation starts, rank size) {
  if (has_number_of_ranks(starts.policy)) starts.number = std::min(starts.number, static_cast<std::uint32_t>(size));
  return starts;
}

/// Number of ranks that may start a round, and number of calls that start it.
struct quota {
  rank candidates = 0;
  rank arrivals = 0;
};

/// Returns the quota in a world of `size` ranks that no rank has left.
constexpr quota quota_of(const activation& starts, rank size) {
  switch (starts.policy) {
    case activation_policy::none:
    case activation_policy::full: return {size, size};
    case activation_policy::solo: return {size, 1};
    case activation_policy::majority: return {1, 1};
    case activation_policy::first_of: return {static_cast<rank>(starts.number), 1};
    case activation_policy::all_of: return {static_cast<rank>(starts.number), static_cast<rank>(starts.number)};
    case activation_policy::quorum: return {size, static_cast<rank>(starts.number)};
    case activation_policy::deadline: return {size, 1};
  }
  return {};
}

/// Rank that collects the arrivals if a round needs more than one.
inline constexpr rank k_coordinator = 0;

/// Tags of call ops. A call is a signal from a rank to itself. Rounds that wait for all ranks have a call op of their
/// own, with the second tag. With policy deadline, calls use the second tag in every round, and the first tag signals
/// that the rank has waited for the deadline.
inline constexpr std::uint32_t k_call_tag = 0, k_full_call_tag = 1;

/// Returns ARGUMENT if M or K is not from 1 to `size`, or if a number is given to a policy that takes no number.
std::optional<failure> validate(const activation& starts, rank size);

/// Returns the activation in words, such as "quorum(3)+every(100)" or "none". The seed is left out.
std::string words_for(const activation& starts);

/// Parses the words of words_for. Returns ARGUMENT for other words, with an error text that lists the valid words.
result<activation> read_activation(std::string_view words);

}  // namespace lsched
