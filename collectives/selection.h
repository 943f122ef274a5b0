// Selects an algorithm for a request, in particular for "auto".
//
// The first rule that applies determines the algorithm:
//
// 1. the caller names an algorithm
// 2. the environment names an algorithm for the collective (LSCHED_ALGORITHM)
// 3. a rule of the tuning table fits the request
// 4. the model predicts the least time; if ranks share cores, predictions within k_model_precision are equal, and the
//    algorithm with the fewest hops is selected
//
// All rules use only values that are equal on all ranks, so that all ranks select the same algorithm. A rank does not
// know whether other ranks work in place. Therefore "auto" avoids algorithms that cannot work in place if another
// algorithm can.
//
// In the model, the time of a round is one hop for every message of the longest chain, plus the time for the work of
// the ranks:
//
//     hops * hop + mean * k + (longest - mean)        k ranks share a core
//
// `hop`, `message` and `byte` are costs (wire_costs). The work of a rank is its number of messages times k * `message`,
// plus `byte` for each byte that the rank copies. A sum counts as one copy, or as 1.5 copies for vectors that exceed
// the caches. `mean` is the mean work of all ranks. `longest` is the work of the busiest rank. If other ranks have less
// work, `longest` also includes the handling of messages for which the busiest rank waits. The fewer ranks do the work,
// the less of the work can be divided among cores (Graham, 1966). On a shared core, a message may have to wake its
// receiver, and a hop takes k^1.5 turns (topology::turn). The reason is that all k ranks run before the receiver sees
// the message, and that more ranks go to sleep during longer turns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "collectives/tuning_table.h"

namespace lsched {

/// The inputs of a choice besides the request.
struct selection {
  topology around{};
  tuning_table table{};
  std::vector<std::pair<std::string, std::string>> named{};  ///< pairs of collective and algorithm
};

/// Parses "allreduce=ring,bcast=binomial" into pairs. Fails with ARGUMENT for any other form, and for unknown names.
result<std::vector<std::pair<std::string, std::string>>> parse_named_algorithms(std::string_view text);

struct choice {
  const algorithm* how = nullptr;
  shape data;          ///< the request, with segment and radix from the tuning table, if given there
  std::string reason;  ///< for users: "named by the caller", "line 7 of the tuning table", …
};

/// The prediction for one algorithm.
struct candidate {
  const algorithm* how = nullptr;
  std::optional<failure> error{};
  double predicted_ns = 0;
  std::uint64_t hops = 0;  ///< number of messages in the longest chain
};

/// Predictions are considered equal if their ratio is at most this number.
inline constexpr double k_model_precision = 1.03;

/// Returns the predicted time of one round in nanoseconds. Generates the schedules of a few ranks. The algorithm must
/// support the request.
double predicted_ns(const algorithm& how, rank size, const shape& data, const activation& starts,
                    const topology& around);

/// Returns all algorithms of the collective, in the order of the registry. Predictions for partial algorithms do not
/// include the activation.
std::vector<candidate> candidates(const collective& of, world place, const shape& data, const activation& starts,
                                  const topology& around);

/// Selects an algorithm by the rules above. `wanted` is the name of an algorithm, or "auto". Fails with `argument` if a
/// name does not exist (the text lists all names) or if the request is invalid. Fails with `constraint` if the
/// algorithm, or every algorithm of the collective, cannot serve the request. A name in the environment is binding,
/// like a name from the caller. A rule of the table is skipped if its algorithm cannot serve the request.
result<choice> select(std::string_view collective, std::string_view wanted, world place, const shape& data,
                      const activation& starts = {}, const selection& by = {});

/// Calls select() without environment and table.
result<const algorithm*> choose(std::string_view collective, std::string_view wanted, world place, const shape& data,
                                const activation& starts = {}, const topology& around = {});

}  // namespace lsched
