#include "sparse/problem.h"

#include <cmath>

namespace lsched {

std::optional<failure> objection(const sparse_problem& to) {
  const auto because = [](status code, const char* text) { return failure{.code = code, .text = text}; };
  if (to.place.size < 1 || to.place.self < 0 || to.place.self >= to.place.size)
    return because(status::argument, "there is no such rank");
  if (!is_floating(to.type)) return because(status::constraint, "a sparse allreduce is of floating numbers");
  if (to.count > std::uint64_t{1} << 32) return because(status::constraint, "an index has 32 bits");
  if (to.period == 0) return because(status::argument, "a period has a round at least");
  if (!std::isfinite(to.scale)) return because(status::argument, "a scale is finite");
  return std::nullopt;
}

}  // namespace lsched
