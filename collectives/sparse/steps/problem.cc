#include "collectives/sparse/steps/problem.h"

#include <cmath>
#include <limits>
#include <string>

#include "libsched/schedule/schedule.h"

namespace lsched {
namespace {

/// Returns true if `scale`, rounded to the residual's type, is neither zero nor infinite.
bool is_scale(double scale, dtype type) {
  const auto is_within = [&]<class Number>(Number) {
    using range = std::numeric_limits<Number>;
    return std::abs(scale) >= range::denorm_min() && std::abs(scale) <= range::max();
  };
  return residual_of(type) == dtype::f64 ? is_within(double{}) : is_within(float{});
}

}  // namespace

std::optional<failure> validate(const sparse_problem& problem) {
  const auto because = [](std::string text) { return failure{.code = status::argument, .text = std::move(text)}; };
  if (problem.place.size < 1 || problem.place.self < 0 || problem.place.self >= problem.place.size)
    return because("rank " + std::to_string(problem.place.self) + " is outside a world of " +
                   std::to_string(problem.place.size) + " ranks: use at least 0 and less than the number of ranks");
  if (!is_floating(problem.type))
    return because("a sparse allreduce needs a floating type, not " + std::string(name_of(problem.type)));
  if (problem.count > std::uint64_t{1} << 32)
    return because("a sparse allreduce of " + std::to_string(problem.count) +
                   " elements is too long, because an index has 32 bits: use at most 2^32 elements");
  if (problem.period == 0 || problem.period > k_longest_period)
    return because("period is " + std::to_string(problem.period) + " rounds: use 1 to " +
                   std::to_string(k_longest_period));
  if (problem.reuse == 0 || problem.reuse > k_longest_period)
    return because("reuse is " + std::to_string(problem.reuse) + " rounds: use 1 to " +
                   std::to_string(k_longest_period));
  if (!is_scale(problem.scale, problem.type))
    return because("scale is not finite, or is 0, after conversion to the type of the residual: choose another scale");
  return std::nullopt;
}

std::uint64_t list_room(const sparse_problem& problem) {
  return problem.capacity == capacity_policy::defer ? typical_share(problem, most_items(problem))
                                                    : most_selected(problem);
}

std::uint64_t sent_room(const sparse_problem& problem) {
  return problem.capacity == capacity_policy::defer ? most_items(problem) : most_selected(problem);
}

std::uint64_t sum_room(const sparse_problem& problem) {
  const std::uint64_t sent = sent_room(problem);
  return problem.capacity == capacity_policy::defer ? sent : std::min(problem.count, problem.ranks() * sent);
}

std::uint64_t gathered_room(const sparse_problem& problem) {
  if (problem.selection == selection_rule::exact) return most_items(problem);
  return std::min(problem.count, problem.ranks() * sent_room(problem));
}

/// The probability that an element is in no list is (1 - density)^P.
std::uint64_t typical_union(const sparse_problem& problem) {
  const auto count = static_cast<double>(std::max<std::uint64_t>(1, problem.count));
  const double density = static_cast<double>(most_items(problem)) / count;
  return static_cast<std::uint64_t>(std::llround(count * (1 - std::pow(1 - density, problem.place.size))));
}

}  // namespace lsched
