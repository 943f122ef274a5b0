#include "libsched/session/memory_layout.h"

#include <vector>

namespace lsched {
namespace {

using bytes = std::span<const std::byte>;

/// The memory of all buffers with that role, in their order.
template <class Pointers>
std::vector<bytes> regions_of(const schedule& program, buffer_role role, const Pointers& begins) {
  std::vector<bytes> all;
  for (const buffer& one : program.buffers())
    if (one.role == role) all.emplace_back(begins[all.size()], one.bytes());
  return all;
}

/// From the beginning of `from` to that of `to`.
std::int64_t distance(bytes from, bytes to) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to.data()) -
                                   reinterpret_cast<std::uintptr_t>(from.data()));
}

/// Whether `inner`, which begins that far behind `outer`, is a part of it.
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

bool memory_layout::fits(const schedule& program, const binding& memory) const {
  const std::vector<bytes> inputs = regions_of(program, buffer_role::input, memory.inputs);
  const std::vector<bytes> outputs = regions_of(program, buffer_role::output, memory.outputs);
  const memory_layout apart{}, begin_together{.in_place = in_place};
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const memory_layout& wanted = i != o ? apart : o == 0 ? *this : begin_together;
      if (!wanted.fits(inputs[i], outputs[o])) return false;
    }
    for (std::size_t other = 0; other < o; ++other)
      if (!apart.fits(outputs[other], outputs[o])) return false;
  }
  return true;
}

memory_layout layout_of(const schedule& program, const binding& memory) {
  const std::vector<bytes> inputs = regions_of(program, buffer_role::input, memory.inputs);
  const std::vector<bytes> outputs = regions_of(program, buffer_role::output, memory.outputs);
  if (inputs.empty() || outputs.empty()) return {};
  const std::int64_t offset = distance(outputs[0], inputs[0]);
  const bool in_place = is_within(inputs[0], outputs[0], offset) || is_within(outputs[0], inputs[0], -offset);
  return in_place ? memory_layout{.in_place = true, .aliasing_bytes = offset} : memory_layout{};
}

}  // namespace lsched
