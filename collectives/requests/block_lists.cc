#include "collectives/requests/block_lists.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>

#include "ops/counted.h"
#include "ops/rules.h"

namespace lsched {
namespace {

/// Returns the first buffer with this role, or null. A collective has at most one such buffer.
const buffer* find_buffer(const schedule& program, buffer_role role) {
  const auto found = std::ranges::find(program.buffers(), role, &buffer::role);
  return found == program.buffers().end() ? nullptr : &*found;
}

/// Reads the blocks of one side. If the caller passes no displacements, the function writes computed displacements to
/// `begins`.
result<list_binding> read_side(const buffer* under, const caller_lists& given, std::vector<std::uint64_t>& begins) {
  const std::string side(given.side);
  if (under == nullptr) {
    if (given.counts == nullptr && given.displacements == nullptr && given.received == nullptr) return list_binding{};
    return argument("counts of the " + side + " buffer are set, but this rank has no such buffer: leave " + side +
                    "_counts null");
  }
  if (given.counts == nullptr)
    return argument(side + "_counts is null, but this rank has a " + side + " buffer: set " + side + "_counts");
  const std::span<const std::uint64_t> counts(given.counts, under->count);
  const auto large = std::ranges::find_if(counts, [&](std::uint64_t count) { return count > under->lists.room; });
  if (large != counts.end())
    return failure{status::bounds, side + "_counts[" + std::to_string(large - counts.begin()) + "] is " +
                                       std::to_string(*large) + ", above the capacity of " +
                                       std::to_string(under->lists.room)};
  const auto filled = std::ranges::find_if(counts, [](std::uint64_t count) { return count != 0; });
  if (given.memory == nullptr && filled != counts.end())
    return argument("the " + side + " buffer is null, but " + side + "_counts[" +
                    std::to_string(filled - counts.begin()) + "] is " + std::to_string(*filled));
  list_binding made{given.displacements, given.counts, given.received};
  if (made.begins == nullptr) {
    begins.resize(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::uint64_t{0});
    made.begins = begins.data();
  }
  return made;
}

/// The interval of addresses [begin, end).
struct interval {
  std::uintptr_t begin, end;
};

/// Returns whether two intervals have an address in common. An empty interval overlaps no interval.
bool overlap(const interval& x, const interval& y) { return std::max(x.begin, y.begin) < std::min(x.end, y.end); }

/// The blocks of one side in memory.
struct placed_blocks {
  const void* memory;
  const list_binding& lists;
  std::size_t number;
  std::size_t width;  ///< bytes of an element

  interval at(std::size_t i) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory) + lists.begins[i] * width;
    return {begin, begin + lists.counts[i] * width};
  }
  /// Returns the range around all blocks that are not empty.
  interval hull() const {
    interval all{~std::uintptr_t{0}, 0};
    for (std::size_t i = 0; i < number; ++i) {
      if (lists.counts[i] == 0) continue;
      const interval one = at(i);
      all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
    }
    return all;
  }
  /// Returns whether block i is the block that rank `self` sends to itself.
  bool is_own(std::size_t i, std::size_t self) const { return number == 1 || i == self; }
  /// Returns the number of elements of the block that rank `self` sends to itself.
  std::uint64_t own_count(std::size_t self) const { return lists.counts[number == 1 ? 0 : self]; }
};

bool lie_apart(const placed_blocks& from, const placed_blocks& to, std::size_t self) {
  if (!overlap(from.hull(), to.hull())) return true;
  if (from.number > 1 && to.number > 1) return false;
  for (std::size_t i = 0; i < from.number; ++i)
    for (std::size_t o = 0; o < to.number; ++o) {
      const interval x = from.at(i), y = to.at(o);
      const bool is_own = from.is_own(i, self) && to.is_own(o, self);
      if (overlap(x, y) && !(is_own && x.begin == y.begin)) return false;
    }
  return true;
}

}  // namespace

std::optional<failure> read_lists(const schedule& program, const caller_lists& sent, const caller_lists& received,
                                  const round_memory& next) {
  const buffer* const from = find_buffer(program, buffer_role::input);
  const buffer* const to = find_buffer(program, buffer_role::output);
  const auto input = read_side(from, sent, next.input_begins);
  if (!input) return input.error();
  const auto output = read_side(to, received, next.output_begins);
  if (!output) return output.error();
  binding& memory = next.memory;
  if (from != nullptr)
    memory.inputs.assign(1, static_cast<const std::byte*>(sent.memory)), memory.input_lists.assign(1, *input);
  if (to != nullptr) {
    void* const place = const_cast<void*>(received.memory);
    memory.outputs.assign(1, static_cast<std::byte*>(place)), memory.output_lists.assign(1, *output);
  }
  if (from == nullptr || to == nullptr) return std::nullopt;
  const auto self = static_cast<std::size_t>(program.place().self);
  const placed_blocks outgoing{sent.memory, *input, from->count, size_of(from->type)};
  const placed_blocks incoming{received.memory, *output, to->count, size_of(from->type)};
  if (outgoing.own_count(self) > incoming.own_count(self))
    return failure{status::bounds, "this rank sends " + counted(outgoing.own_count(self), "element") +
                                       " to itself, but recv_counts has room for " +
                                       std::to_string(incoming.own_count(self)) +
                                       ": set a larger recv_counts for this block"};
  if (!lie_apart(outgoing, incoming, self))
    return argument("the send buffer and the recv buffer overlap: pass separate memory");
  return std::nullopt;
}

}  // namespace lsched
