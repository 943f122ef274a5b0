#include "collectives/sparse/steps/coo_problem.h"

#include <array>

namespace lsched {

std::optional<failure> validate(const coo_problem& problem) {
  const auto because = [](status code, std::string text) { return failure{.code = code, .text = std::move(text)}; };
  if (problem.place.size < 1 || problem.place.self < 0 || problem.place.self >= problem.place.size)
    return because(status::argument, "there is no such rank");
  if (!is_floating(problem.type)) return because(status::constraint, "a sparse allreduce is of floating numbers");
  const std::uint64_t widths = problem.is_balanced ? 1 : problem.ranks();
  if (problem.count > widths << 32)
    return because(
        status::unsupported,
        "count " + std::to_string(problem.count) + " is more than 2^32" +
            (problem.is_balanced ? ", and regions are balanced" : " for each of " + std::to_string(widths) + " ranks"));
  return std::nullopt;
}

bool has_overlaps(const coo_problem& problem, const void* const* inputs, void* const* outputs) {
  const std::uint64_t width = size_of(problem.type);
  const std::array<std::uint64_t, 3> in_bytes{problem.room * sizeof(std::uint64_t), problem.room * width,
                                              sizeof(std::uint64_t)};
  const std::array<std::uint64_t, 4> out_bytes{problem.result_room * sizeof(std::uint64_t), problem.result_room * width,
                                               sizeof(std::uint64_t), problem.count * width};
  const auto overlap = [](const void* one, std::uint64_t bytes, const void* other, std::uint64_t other_bytes) {
    const auto x = reinterpret_cast<std::uintptr_t>(one), y = reinterpret_cast<std::uintptr_t>(other);
    return bytes != 0 && other_bytes != 0 && x < y + other_bytes && y < x + bytes;
  };
  for (std::size_t o = 0; o < out_bytes.size() - (problem.has_dense ? 0 : 1); ++o) {
    for (std::size_t i = 0; i < in_bytes.size(); ++i)
      if (overlap(inputs[i], in_bytes[i], outputs[o], out_bytes[o])) return true;
    for (std::size_t i = 0; i < o; ++i)
      if (overlap(outputs[i], out_bytes[i], outputs[o], out_bytes[o])) return true;
  }
  return false;
}

}  // namespace lsched
