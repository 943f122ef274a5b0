#include "libsched/session/memory_layout.h"

#include <algorithm>
#include <vector>

namespace lsched {
namespace {

using bytes = std::span<const std::byte>;

/// The memory of all buffers with the same role, in the order in which the schedule declares them.
struct region_list {
  std::vector<bytes> memory;
  std::vector<dtype> types;
};

template <class Pointers>
region_list regions_of(const schedule& program, buffer_role role, const Pointers& begins) {
  region_list all;
  for (const buffer& one : program.buffers()) {
    if (one.role != role) continue;
    all.memory.emplace_back(begins[all.memory.size()], one.bytes());
    all.types.push_back(one.type);
  }
  return all;
}

/// Returns the distance in bytes from the beginning of `from` to the beginning of `to`.
std::int64_t distance(bytes from, bytes to) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to.data()) -
                                   reinterpret_cast<std::uintptr_t>(from.data()));
}

/// Returns true if `inner` is a part of `outer`. `begin` is the offset of `inner` in bytes.
bool is_within(bytes inner, bytes outer, std::int64_t begin) {
  return begin >= 0 && static_cast<std::uint64_t>(begin) < outer.size() &&
         inner.size() <= outer.size() - static_cast<std::uint64_t>(begin);
}

}  // namespace

bool memory_layout::fits(bytes input, bytes output) const {
  if (input.empty() || output.empty()) return true;
  if (input.data() == output.data() + aliasing_bytes) return in_place;
  const auto in = reinterpret_cast<std::uintptr_t>(input.data());
  const auto out = reinterpret_cast<std::uintptr_t>(output.data());
  return !in_place && (in >= out + output.size() || out >= in + input.size());
}

std::optional<std::string> memory_layout::words_for_misfit(const schedule& program, const binding& memory) const {
  const std::vector<bytes> inputs = regions_of(program, buffer_role::input, memory.inputs).memory;
  const std::vector<bytes> outputs = regions_of(program, buffer_role::output, memory.outputs).memory;
  const memory_layout apart{}, begin_together{.in_place = in_place};
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::string output = "output " + std::to_string(o);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const memory_layout& wanted = i != o ? apart : o == 0 ? *this : begin_together;
      if (wanted.fits(inputs[i], outputs[o])) continue;
      const std::string both = "input " + std::to_string(i) + " and " + output;
      return apart.fits(inputs[i], outputs[o])
                 ? both + " are separate, but other buffers are in place: use all pairs in place, or none"
                 : both + " overlap, but are not in place: pass separate memory or the in-place addresses";
    }
    for (std::size_t other = 0; other < o; ++other)
      if (!apart.fits(outputs[other], outputs[o]))
        return "output " + std::to_string(other) + " and " + output + " overlap: pass separate memory";
  }
  return std::nullopt;
}

memory_layout layout_of(const schedule& program, const binding& memory) {
  const region_list inputs = regions_of(program, buffer_role::input, memory.inputs);
  const region_list outputs = regions_of(program, buffer_role::output, memory.outputs);
  for (std::size_t i = 0; i < std::min(inputs.memory.size(), outputs.memory.size()); ++i) {
    const bytes input = inputs.memory[i], output = outputs.memory[i];
    if (input.empty() || output.empty()) continue;
    const std::int64_t offset = distance(output, input);
    if (i > 0 || inputs.types[0] != outputs.types[0]) return {.in_place = offset == 0};
    const bool is_part = is_within(input, output, offset) || is_within(output, input, -offset);
    if (is_part && offset % static_cast<std::int64_t>(size_of(inputs.types[0])) == 0)
      return {.in_place = true, .aliasing_bytes = offset};
    return {};
  }
  return {};
}

}  // namespace lsched
