#include "sparse/coo_problem.h"

namespace lsched {

std::optional<failure> objection(const coo_problem& to) {
  const auto because = [](status code, std::string text) { return failure{.code = code, .text = std::move(text)}; };
  if (to.place.size < 1 || to.place.self < 0 || to.place.self >= to.place.size)
    return because(status::argument, "there is no such rank");
  if (!is_floating(to.type)) return because(status::constraint, "a sparse allreduce is of floating numbers");
  if (to.count >> 32 > static_cast<std::uint64_t>(to.place.size) || regions_of(to).size(0) > std::uint64_t{1} << 32)
    return because(status::unsupported, "count " + std::to_string(to.count) + " is more than 2^32 for each of " +
                                            std::to_string(to.place.size) + " ranks");
  return std::nullopt;
}

}  // namespace lsched
