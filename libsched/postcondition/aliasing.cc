#include "libsched/postcondition/aliasing.h"

#include <algorithm>

namespace lsched {
namespace {

/// An input and an output that share memory, and the position at which each of them begins in this memory.
struct shared_pair {
  std::uint16_t input = 0, output = 0;
  std::uint64_t input_begin = 0, output_begin = 0;
};

std::vector<shared_pair> pairs_of(const schedule& program, const aliasing& in_place) {
  std::vector<shared_pair> pairs;
  if (!in_place.exists_at(program.place().self)) return pairs;
  const auto next = [&](buffer_role role, std::size_t from) {
    const auto rest = program.buffers().subspan(from);
    return from + static_cast<std::size_t>(std::ranges::find(rest, role, &buffer::role) - rest.begin());
  };
  const std::size_t end = program.buffers().size();
  std::size_t input = next(buffer_role::input, 0), output = next(buffer_role::output, 0);
  while (input < end && output < end) {
    pairs.push_back({.input = static_cast<std::uint16_t>(input), .output = static_cast<std::uint16_t>(output)});
    input = next(buffer_role::input, input + 1), output = next(buffer_role::output, output + 1);
  }
  const std::int64_t offset = in_place.offset_at(program.place().self);
  if (!pairs.empty() && offset > 0) pairs.front().input_begin = static_cast<std::uint64_t>(offset);
  if (!pairs.empty() && offset < 0) pairs.front().output_begin = -static_cast<std::uint64_t>(offset);
  return pairs;
}

bool is_within(const buffer& inner, const buffer& outer, std::uint64_t begin) {
  return begin <= outer.count && inner.count <= outer.count - begin;
}

}  // namespace

std::vector<placement> placements_of(const schedule& program, const aliasing& in_place) {
  std::vector<placement> all(program.buffers().size());
  for (std::size_t b = 0; b < all.size(); ++b) all[b].memory = b;
  for (const shared_pair& pair : pairs_of(program, in_place)) {
    const std::size_t memory = std::min(pair.input, pair.output);
    all[pair.input] = {memory, pair.input_begin};
    all[pair.output] = {memory, pair.output_begin};
  }
  return all;
}

std::optional<std::string> words_for_misfit(const schedule& program, const aliasing& in_place) {
  std::size_t number = 0;
  for (const shared_pair& pair : pairs_of(program, in_place)) {
    const buffer &input = program.buffers()[pair.input], &output = program.buffers()[pair.output];
    const std::string both = "input " + std::to_string(number) + " and output " + std::to_string(number);
    ++number;
    if (input.type != output.type) return both + " are of different types";
    if (pair.input_begin == pair.output_begin) continue;
    if (pair.output_begin > 0 ? is_within(output, input, pair.output_begin)
                              : is_within(input, output, pair.input_begin))
      continue;
    return both + " have " + std::to_string(input.count) + " and " + std::to_string(output.count) +
           " elements. If their first elements are " + std::to_string(pair.input_begin + pair.output_begin) +
           " elements apart, neither buffer is within the other";
  }
  return std::nullopt;
}

}  // namespace lsched
