#include "collectives/sparse/protocol/split.h"

#include <cstring>

#include "libsched/schedule/geometry.h"
#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

std::uint32_t index_of(dtype type, item_list list, std::uint64_t item) {
  std::uint32_t index;
  std::memcpy(&index, list.items + item * item_size(type), sizeof index);
  return index;
}

}  // namespace

std::uint64_t capacity_at(const sparse_problem& of, rank distance, round_no round) {
  const auto size = static_cast<std::uint64_t>(of.place.size), at = static_cast<std::uint64_t>(distance);
  const std::uint64_t k = most_items(of), each = k / size, more = k % size;
  if (size > 1 && k == 1) return round % size == at ? 1 : 0;
  if (at == 0) return each + (more > 0 ? 1 : 0);
  if (more < 2) return each;
  // The more - 1 that are left go to distances after each other, and next round to those behind.
  const std::uint64_t others = size - 1, turns = more - 1, first = round % others * turns % others;
  return each + ((at - 1 + others - first) % others < turns ? 1 : 0);
}

std::uint64_t list_room(const sparse_problem& of) {
  const auto size = static_cast<std::uint64_t>(of.place.size);
  const std::uint64_t k = most_items(of);
  return of.capacity == capacity_policy::defer ? k / size + (k % size != 0 ? 1 : 0) : most_selected(of);
}

std::uint64_t sent_room(const sparse_problem& of) {
  return of.capacity == capacity_policy::defer ? most_items(of) : most_selected(of);
}

std::uint64_t sum_room(const sparse_problem& of) {
  const auto size = static_cast<std::uint64_t>(of.place.size);
  const std::uint64_t sent = sent_room(of);
  return of.capacity == capacity_policy::defer ? sent : std::min(of.count, size * sent);
}

std::uint64_t gathered_room(const sparse_problem& of) {
  if (of.selection == selection_rule::exact) return most_items(of);
  const auto size = static_cast<std::uint64_t>(of.place.size);
  return std::min(of.count, size * sent_room(of));
}

std::uint64_t items_below(dtype type, item_list list, std::uint64_t from, std::uint64_t position) {
  std::uint64_t below = from, step = 1;  // items before `below` are
  while (step <= list.count - below && index_of(type, list, below + step - 1) < position) {
    below += step;
    step *= 2;
  }
  std::uint64_t end = std::min(list.count, below + step - 1);  // items from here on are not
  while (below < end) {
    const std::uint64_t middle = below + (end - below) / 2;
    if (index_of(type, list, middle) < position)
      below = middle + 1;
    else
      end = middle;
  }
  return below;
}

std::uint64_t split(const sparse_problem& of, round_no round, item_list selected,
                    std::span<const std::uint64_t> boundaries, std::byte* items, std::span<std::uint64_t> lengths) {
  const std::size_t bytes = item_size(of.type);
  const decltype(sparse_kernels::keep_largest) keep_largest = sparse_kernels_of(of.type).keep_largest;
  std::uint64_t begin = 0, written = 0;
  for (rank owner = 0; owner < of.place.size; ++owner) {
    const auto region = static_cast<std::size_t>(owner);
    const std::uint64_t end = items_below(of.type, selected, begin, boundaries[region + 1]);
    std::uint64_t count = end - begin, room = count;
    if (of.capacity == capacity_policy::defer)
      room = capacity_at(of, ring_before(owner, of.place.self, of.place.size), round);
    std::byte* const to = items + written * bytes;
    if (count > 0 && room > 0) std::memcpy(to, selected.items + begin * bytes, count * bytes);
    if (count > room) count = keep_largest(to, count, room).count;
    lengths[region] = count;
    written += count;
    begin = end;
  }
  return written;
}

}  // namespace lsched
