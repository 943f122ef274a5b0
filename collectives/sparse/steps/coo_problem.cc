#include "collectives/sparse/steps/coo_problem.h"

namespace lsched {

std::optional<failure> validate(const coo_problem& problem) {
  const auto because = [](status code, std::string text) { return failure{.code = code, .text = std::move(text)}; };
  if (problem.place.size < 1 || problem.place.self < 0 || problem.place.self >= problem.place.size)
    return because(status::argument, "rank " + std::to_string(problem.place.self) + " is outside a world of " +
                                         std::to_string(problem.place.size) +
                                         " ranks: use at least 0 and less than the number of ranks");
  if (!is_floating(problem.type))
    return because(status::constraint,
                   "a sparse allreduce needs a floating type, not " + std::string(name_of(problem.type)));
  const std::uint64_t widths = problem.is_balanced ? 1 : problem.ranks();
  if (problem.count > widths << 32)
    return because(status::unsupported,
                   "count " + std::to_string(problem.count) + " is more than " +
                       (problem.is_balanced ? "2^32, the largest count with balanced regions: use LSCHED_EQUAL_REGIONS"
                                            : std::to_string(widths) + " x 2^32, the limit for " +
                                                  std::to_string(widths) + " ranks: use a smaller count"));
  return std::nullopt;
}

}  // namespace lsched
