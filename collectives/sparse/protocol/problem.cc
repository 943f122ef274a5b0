#include "collectives/sparse/protocol/problem.h"

#include <cmath>
#include <limits>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {

namespace {

/// A residual holds what was multiplied by the scale: neither infinity nor nothing may come of it.
bool is_scale(double scale, dtype type) {
  const auto is_within = [&]<class Number>(Number) {
    using range = std::numeric_limits<Number>;
    return std::abs(scale) >= range::denorm_min() && std::abs(scale) <= range::max();
  };
  return residual_of(type) == dtype::f64 ? is_within(double{}) : is_within(float{});
}

}  // namespace

std::optional<failure> validate(const sparse_problem& to) {
  const auto because = [](std::string text) { return failure{.code = status::argument, .text = std::move(text)}; };
  if (to.place.size < 1 || to.place.self < 0 || to.place.self >= to.place.size)
    return because("rank " + std::to_string(to.place.self) + " of " + std::to_string(to.place.size) +
                   " is no place in a world");
  if (!is_floating(to.type))
    return because("a sparse allreduce is of floating numbers, not of " + std::string(name_of(to.type)));
  if (to.count > std::uint64_t{1} << 32)
    return because("a sparse allreduce of " + std::to_string(to.count) + " elements: an index has 32 bits");
  if (to.period == 0 || to.period > k_longest_period)
    return because("boundaries looked at every " + std::to_string(to.period) + " rounds: use 1 to " +
                   std::to_string(k_longest_period));
  if (to.reuse == 0 || to.reuse > k_longest_period)
    return because("thresholds looked for every " + std::to_string(to.reuse) + " rounds: use 1 to " +
                   std::to_string(k_longest_period));
  if (!is_scale(to.scale, to.type)) return because("scale is not finite, or nothing, as a number of the residual");
  return std::nullopt;
}

/// The share of all elements that nobody has is that of one rank to the P.
std::uint64_t typical_union(const sparse_problem& of) {
  const auto count = static_cast<double>(std::max<std::uint64_t>(1, of.count));
  const double density = static_cast<double>(most_items(of)) / count;
  return static_cast<std::uint64_t>(std::llround(count * (1 - std::pow(1 - density, of.place.size))));
}

}  // namespace lsched
