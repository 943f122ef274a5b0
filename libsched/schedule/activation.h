// An activation is the condition that starts a round of a partial collective. A partial collective need not wait for
// all ranks. The condition is a pair (m, k): k of m candidate ranks must have called. Only the policies `majority`,
// `first_of` and `all_of` draw candidates. They draw new candidates for each round. With `+every(N)`, every N-th round
// waits for all ranks. With `quorum(K)+grace(T)`, the round starts when all ranks have called, or T us after the call
// of the K-th rank.
//
//   policy        m candidates                             k of these must call
//   full          each rank starts its part when it calls; no signals
//   solo          all                                      1    the first to call
//   majority      1                                        1    on average, half of the ranks have then called
//   first_of(M)   M                                        1
//   all_of(M)     M                                        M
//   quorum(K)     all                                      K
//   deadline(T)   ranks whose call is at least T us old    1    other ranks start their parts when they call; T can be
//                                                               auto: each rank derives T from the times of its calls
//
// A rank that has left the world is not a candidate. If fewer than k ranks remain, all remaining ranks must call. The
// drawn candidates depend only on the activation, the round and the remaining ranks, so every rank computes them
// without a message.
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
  none,      ///< not a partial collective: the caller of each rank starts the round on that rank
  full,      ///< the call of each rank starts the part of that rank; no signals
  solo,      ///< the first call of any rank starts the round on all ranks
  majority,  ///< the call of one random rank starts the round; the rank is drawn again every round
  first_of,  ///< the first call among M ranks starts the round; the ranks are drawn again every round
  all_of,    ///< the last call among M ranks starts the round; the ranks are drawn again every round
  quorum,    ///< the K-th call starts the round
  deadline,  ///< each rank starts its part when it calls; T us after a rank's call, all ranks' parts start
};

std::string_view name_of(activation_policy policy);

/// Returns true if the policy has a number: M or K ranks, or T microseconds.
constexpr bool has_number(activation_policy policy) { return policy >= activation_policy::first_of; }
constexpr bool has_number_of_ranks(activation_policy policy) {
  return has_number(policy) && policy != activation_policy::deadline;
}

/// Value of `number` for deadline(auto): each rank derives T from the times of its calls.
inline constexpr std::uint32_t k_auto_deadline = 0;

struct activation {
  activation_policy policy = activation_policy::none;
  std::uint64_t seed = 0;        ///< seed of the random draws
  std::uint32_t number = 0;      ///< M, K or T; k_auto_deadline for deadline(auto); 0: no number
  std::uint64_t full_every = 0;  ///< every full_every-th round waits for all ranks; 0: no such rounds
  std::uint32_t grace_us = 0;    ///< only quorum: time after the K-th call until the round starts; 0: no grace

  /// Returns true if a signal from another rank can start a rank's part of a round.
  constexpr bool is_woken() const { return policy > activation_policy::full; }
  constexpr bool is_full(round_no round) const {
    return policy == activation_policy::full || (full_every != 0 && round % full_every == 0);
  }
  /// Returns true if the schedule has a second call op, which starts only this rank's part and signals no other rank.
  constexpr bool has_full_call() const {
    return is_woken() && (full_every != 0 || policy == activation_policy::deadline);
  }
  friend bool operator==(const activation&, const activation&) = default;
};

/// Returns the activation for a world that has shrunk to `size` ranks: M or K is reduced to `size` if necessary.
constexpr activation among(activation starts, rank size) {
  if (has_number_of_ranks(starts.policy)) starts.number = std::min(starts.number, static_cast<std::uint32_t>(size));
  return starts;
}

/// `candidates`: number of ranks whose calls may start a round. `arrivals`: number of these ranks that must have called
/// before the round starts.
struct quota {
  rank candidates = 0;
  rank arrivals = 0;
};

/// Returns the quota in a world of `size` ranks. Valid only if no rank has left.
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

/// Returns true if a round can wait for calls after the K-th call. If K is the number of ranks, no further call exists.
constexpr bool has_grace(const activation& starts, rank size) {
  return starts.policy == activation_policy::quorum && starts.grace_us != 0 &&
         starts.number < static_cast<std::uint32_t>(size);
}

/// Rank that counts the calls if a round needs more than one call, or has a grace.
inline constexpr rank k_coordinator = 0;
constexpr bool has_coordinator(const activation& starts, rank size) {
  return quota_of(starts, size).arrivals > 1 || has_grace(starts, size);
}

/// Tags of call ops. A call is a signal from a rank to itself. In rounds that wait for all ranks, calls use the second
/// tag. With policy `deadline`, calls use the second tag in every round, and a signal with the first tag means that the
/// deadline has passed.
inline constexpr std::uint32_t k_call_tag = 0, k_full_call_tag = 1;

/// Tags of further call ops, which only the coordinator has, and only with a grace. A signal with tag k_grace_tag means
/// that the grace has passed. The signal with tag k_left_tag + r stands for the call of rank r after r has left.
inline constexpr std::uint32_t k_grace_tag = 2, k_left_tag = 3;

/// Returns ARGUMENT if M or K is not in 1 … `size`, or if `starts` has a number or a grace although its policy takes
/// none.
std::optional<failure> validate(const activation& starts, rank size);

/// Returns the activation as text, such as "quorum(3)+grace(500)+every(100)" or "none". The text does not contain the
/// seed.
std::string words_for(const activation& starts);

/// Parses a text in the form that words_for returns. For an invalid text, returns ARGUMENT and an error text that lists
/// the valid words.
result<activation> read_activation(std::string_view words);

}  // namespace lsched
