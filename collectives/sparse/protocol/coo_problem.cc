#include "collectives/sparse/protocol/coo_problem.h"

namespace lsched {

std::optional<failure> objection(const coo_problem& to) {
  const auto because = [](status code, std::string text) { return failure{.code = code, .text = std::move(text)}; };
  if (to.place.size < 1 || to.place.self < 0 || to.place.self >= to.place.size)
    return because(status::argument, "there is no such rank");
  if (!is_floating(to.type)) return because(status::constraint, "a sparse allreduce is of floating numbers");
  const std::uint64_t widths = to.is_balanced ? 1 : static_cast<std::uint64_t>(to.place.size);
  if (to.count > widths << 32)
    return because(status::unsupported, "count " + std::to_string(to.count) + " is more than 2^32" +
                                            (to.is_balanced ? ", and regions are balanced"
                                                            : " for each of " + std::to_string(widths) + " ranks"));
  return std::nullopt;
}

}  // namespace lsched
