#include "libsched/postcondition/aliasing.h"

#include <algorithm>
#include <utility>

namespace lsched {
namespace {

using buffer_pair = std::pair<std::uint16_t, std::uint16_t>;  ///< input, output

std::vector<std::uint16_t> buffers_of(const schedule& program, buffer_role role) {
  std::vector<std::uint16_t> all;
  for (std::uint16_t b = 0; b < program.buffers().size(); ++b)
    if (program.buffers()[b].role == role) all.push_back(b);
  return all;
}

std::vector<buffer_pair> pairs_of(const schedule& program, const aliasing& in_place) {
  std::vector<buffer_pair> pairs;
  if (!in_place.exists()) return pairs;
  const auto inputs = buffers_of(program, buffer_role::input);
  const auto outputs = buffers_of(program, buffer_role::output);
  for (std::size_t k = 0; k < inputs.size() && k < outputs.size(); ++k) pairs.emplace_back(inputs[k], outputs[k]);
  return pairs;
}

/// Where the input and the output of pair k begin in their memory.
std::pair<std::uint64_t, std::uint64_t> begins_of(const schedule& program, const aliasing& in_place, std::size_t k) {
  const std::int64_t offset = k == 0 ? in_place.offset_at(program.place().self) : 0;
  const std::uint64_t distance = offset < 0 ? -static_cast<std::uint64_t>(offset) : static_cast<std::uint64_t>(offset);
  if (offset < 0) return {0, distance};
  return {distance, 0};
}

bool is_within(const buffer& inner, const buffer& outer, std::uint64_t begin) {
  return begin <= outer.count && inner.count <= outer.count - begin;
}

}  // namespace

std::vector<placement> placements_of(const schedule& program, const aliasing& in_place) {
  std::vector<placement> all(program.buffers().size());
  for (std::size_t b = 0; b < all.size(); ++b) all[b].memory = b;
  const auto pairs = pairs_of(program, in_place);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto [input, output] = pairs[k];
    const auto [input_begin, output_begin] = begins_of(program, in_place, k);
    const std::size_t memory = std::min(input, output);
    all[input] = {memory, input_begin};
    all[output] = {memory, output_begin};
  }
  return all;
}

std::optional<std::string> words_for_misfit(const schedule& program, const aliasing& in_place) {
  const auto pairs = pairs_of(program, in_place);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const buffer& input = program.buffers()[pairs[k].first];
    const buffer& output = program.buffers()[pairs[k].second];
    const auto [input_begin, output_begin] = begins_of(program, in_place, k);
    const std::string who = "input " + std::to_string(k) + " and output " + std::to_string(k);
    if (input.type != output.type) return who + " are of different types";
    if (input_begin == output_begin) continue;
    if (output_begin > 0 ? is_within(output, input, output_begin) : is_within(input, output, input_begin)) continue;
    return who + ", of " + std::to_string(input.count) + " and " + std::to_string(output.count) +
           " elements, do not lie one within the other if their first elements are " +
           std::to_string(input_begin + output_begin) + " apart";
  }
  return std::nullopt;
}

}  // namespace lsched
