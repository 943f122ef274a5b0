// Selection: which algorithm "auto" is.
//
// In this order: what the caller names; what the environment names for the collective (LSCHED_ALGORITHM); the first
// rule of the tuning table that fits; the algorithm for which the model predicts the least time, or where ranks share
// cores, of several that it cannot tell apart, the one with the fewest hops. Each looks at what is equal on all ranks
// and at nothing else, so that all ranks choose the same; "auto" takes no algorithm that cannot work in place where
// another can, because a rank does not know whether others do.
//
// The model: a round takes a hop for every message of its longest chain, and the work of its ranks,
//
//     hops * hop + mean * k + (longest - mean)        k ranks share a core
//
// The work of a rank is its messages * k * message, and its bytes, each as often as it is copied; a sum counts as a
// copy, and from where vectors outgrow caches as one and a half. `mean` is that of all ranks. `longest` is that of the
// busiest rank and, as far as others have less to do than it has, of the messages it waits for: the more is done by
// few, the less can cores share (Graham, 1966). On a shared core a message may have to wake its receiver, and a hop
// takes k^1.5 turns: k ranks run before anybody looks, and the longer that takes, the more of them have gone to sleep
// meanwhile.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "collectives/tuning_table.h"

namespace lsched {

/// Everything that a choice depends on beside the request.
struct selection {
  topology around{};
  tuning_table table{};
  std::vector<std::pair<std::string, std::string>> named{};  ///< collective and algorithm
};

/// "allreduce=ring,bcast=binomial" as pairs. ARGUMENT for anything else, unknown names included.
result<std::vector<std::pair<std::string, std::string>>> parse_named_algorithms(std::string_view text);

struct choice {
  const algorithm* how = nullptr;
  shape data;          ///< as asked for, with segment and radix as the tuning table has them
  std::string reason;  ///< for people: "named by the caller", "line 7 of the tuning table", …
};

/// One algorithm's chances.
struct candidate {
  const algorithm* how = nullptr;
  std::optional<failure> error{};
  double predicted_ns = 0;
  std::uint64_t hops = 0;  ///< its longest chain of messages
};

/// Predictions are alike whose quotient is not above this.
inline constexpr double k_model_precision = 1.03;

/// Nanoseconds of one round. Generates the schedules of a few ranks. The request is one that the algorithm can do.
double predicted_ns(const algorithm& how, rank size, const shape& data, const activation& starts,
                    const topology& around);

/// All algorithms of the collective, in the order of the registry. Predictions for partial ones are without their
/// start.
std::vector<candidate> candidates(const collective& of, world place, const shape& data, const activation& starts,
                                  const topology& around);

/// `wanted`: an algorithm's name, or "auto". Failures: `argument` for names that do not exist (the text lists those
/// that do) and for meaningless requests, `constraint` for an algorithm, or a collective, that cannot do this request.
/// A name of the environment is obeyed or fails like one of the caller's; a rule of the table that cannot do the
/// request is passed over.
result<choice> select(std::string_view collective, std::string_view wanted, world place, const shape& data,
                      const activation& starts = {}, const selection& by = {});

/// select, without environment and table.
result<const algorithm*> choose(std::string_view collective, std::string_view wanted, world place, const shape& data,
                                const activation& starts = {}, const topology& around = {});

}  // namespace lsched
