// Selects an algorithm for a request, in particular for "auto".
//
// The first rule that applies determines the algorithm:
//
// 1. an algorithm that the caller names
// 2. an algorithm that the environment names for the collective (LSCHED_ALGORITHM)
// 3. the algorithm of a tuning rule that matches the request (tuning_table.h)
// 4. the algorithm with the least predicted time
//
// If ranks share cores, predictions within k_model_precision count as equal. The algorithm with the fewest hops is then
// selected among the algorithms with equal predictions.
//
// All rules use only values that are equal on all ranks, so all ranks select the same algorithm. A rank cannot know
// whether other ranks work in place. So "auto" avoids an algorithm that cannot work in place if another algorithm can.
//
// The model adds two times: the time of the hops in the longest chain of messages, and the time for the work of the
// ranks:
//
//     hops * hop  +  k * mean  +  (longest - mean)        if k ranks share a core
//
// `hops` is the number of hops in the longest chain.
//
// `hop`, `message` and `byte` are costs (wire_costs). The work of a rank has three parts: k * `message` for each
// message, `byte` for each byte that the rank copies, and `byte` for each byte that the rank exchanges with other
// nodes, in the busier direction. A sum counts as one copy, or as 1.5 copies for vectors that exceed the caches. While
// the network carries one message, the rank can combine another. If the rank exchanges m messages for each hop of the
// longest chain, these two times overlap except for 1/m of the shorter time.
//
// `mean` is the mean work of all ranks, and `longest` is the work of the busiest rank (Graham, 1966). If other ranks
// have less work, `longest` also includes the handling of messages for which the busiest rank waits. On a shared core,
// a hop takes at least k^1.5 turns (topology::turn), because all k ranks run before the receiver, and because more
// ranks fall asleep if turns are longer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "collectives/tuning_table.h"

namespace lsched {

/// The inputs of select() besides the request.
struct selection {
  topology around{};
  tuning_table table{};
  std::vector<std::pair<std::string, std::string>> named{};  ///< pairs of collective and algorithm
};

/// Parses "allreduce=ring,bcast=binomial" into pairs. Returns ARGUMENT for an invalid text or an unknown name.
result<std::vector<std::pair<std::string, std::string>>> parse_named_algorithms(std::string_view text);

/// Returns the error for a collective, or an algorithm of a collective, that does not exist. The text suggests the
/// nearest name and then lists all names. The suggestion comes first, because a diagnostic truncates long texts.
failure unknown_name(std::string_view collective, std::string_view algorithm = "auto");

struct choice {
  const algorithm* how = nullptr;
  shape data;          ///< the request, with the segment and the radix of the tuning rule, if a rule applied
  std::string reason;  ///< for users, such as "named by the caller", "line 7 of the tuning table", …
};

/// The prediction for one algorithm.
struct candidate {
  const algorithm* how = nullptr;
  std::optional<failure> error{};
  double predicted_ns = 0;
  std::uint64_t hops = 0;  ///< number of messages in the longest chain
};

/// Ratio up to which two predictions count as equal.
inline constexpr double k_model_precision = 1.03;

/// Returns the predicted time of one round in nanoseconds. The algorithm must support the request. Generates the
/// schedules of a few ranks.
double predicted_ns(const algorithm& how, rank size, const shape& data, const activation& starts,
                    const topology& around);

/// Returns a candidate for each algorithm of the collective, in the order of the registry. Predictions for partial
/// algorithms do not include the activation.
std::vector<candidate> candidates(const collective& of, world place, const shape& data, const activation& starts,
                                  const topology& around);

/// Selects an algorithm by the rules above. `wanted` is the name of an algorithm, or "auto". Returns `argument` if a
/// name does not exist (the text lists all names) or if the request is invalid. Returns `constraint` if the named
/// algorithm does not support the request. For "auto", returns `constraint` if no algorithm of the collective supports
/// the request. A rule of the tuning table is skipped if its algorithm does not support the request.
result<choice> select(std::string_view collective, std::string_view wanted, world place, const shape& data,
                      const activation& starts = {}, const selection& by = {});

/// Selects an algorithm as select() does, but without the environment and the tuning table.
result<const algorithm*> choose(std::string_view collective, std::string_view wanted, world place, const shape& data,
                                const activation& starts = {}, const topology& around = {});

}  // namespace lsched
