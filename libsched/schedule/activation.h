// What lets a round of a partial collective begin: the pair (m, k), and rounds in between that wait for everybody.
//
//   policy        m candidates, drawn anew each round      k of them have to call
//   full          every rank begins with its own call; no signals
//   solo          all                                      1    the first to call
//   majority      1                                        1    half of the ranks have called by then, on average
//   first_of(M)   M                                        1
//   all_of(M)     M                                        M
//   quorum(K)     all                                      K
//   deadline(T)   all that wait for T us                   1    or else every rank begins with its own call; T may be
//                                                               auto: every rank's own, by when it has called
//
// Ranks that have left are no candidates; where fewer than k stay, all of them have to call. A round is a function of
// (activation, round, who is still there), so all ranks know it without a message.
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
  deadline,  ///< every rank's own call starts its part; who has waited for so long starts all
};

std::string_view name_of(activation_policy policy);

/// Whether it comes with a number: of ranks, or of microseconds.
constexpr bool has_number(activation_policy policy) { return policy >= activation_policy::first_of; }
constexpr bool has_number_of_ranks(activation_policy policy) {
  return has_number(policy) && policy != activation_policy::deadline;
}

/// The T of deadline(auto).
inline constexpr std::uint32_t k_auto_deadline = 0;

struct activation {
  activation_policy policy = activation_policy::none;
  std::uint64_t seed = 0;    ///< of the draws
  std::uint32_t number = 0;  ///< M of first_of and all_of, K of quorum, T of deadline or k_auto_deadline; 0 for others
  std::uint64_t full_every = 0;  ///< rounds that are multiples of it wait for every rank's call; 0: none does

  /// Whether signals start rounds.
  constexpr bool is_woken() const { return policy > activation_policy::full; }
  constexpr bool is_full(round_no round) const {
    return policy == activation_policy::full || (full_every != 0 && round % full_every == 0);
  }
  /// Whether a call may open the own gate alone, by an op of its own.
  constexpr bool has_full_call() const {
    return is_woken() && (full_every != 0 || policy == activation_policy::deadline);
  }
  friend bool operator==(const activation&, const activation&) = default;
};

/// Among those who are left of a larger world: where there are fewer than it takes, it takes all.
constexpr activation among(activation starts, rank size) {
  if (has_number_of_ranks(starts.policy)) starts.number = std::min(starts.number, static_cast<std::uint32_t>(size));
  return starts;
}

/// Who may start a round, and how many of them it takes.
struct quota {
  rank candidates = 0;
  rank arrivals = 0;
};

/// In a world of `size` ranks that nobody has left.
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

/// Who collects the arrivals where it takes more than one.
inline constexpr rank k_coordinator = 0;

/// A call is a signal from a rank to itself. That of rounds that wait for everybody has an op of its own. With a
/// deadline the second is the call, and the first says that it has waited long enough.
inline constexpr std::uint32_t k_call_tag = 0, k_full_call_tag = 1;

/// ARGUMENT: M or K is not from 1 to `size`, or a number is given to a policy that has none.
std::optional<failure> validate(const activation& starts, rank size);

/// "quorum(3)+every(100)"; of none "none". The seed is not in it.
std::string words_for(const activation& starts);

/// Reads these words. ARGUMENT: they are not; the text says what would be.
result<activation> read_activation(std::string_view words);

}  // namespace lsched
