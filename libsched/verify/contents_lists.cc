// Lists, and their lengths.
#include <algorithm>

#include "libsched/verify/contents.h"

namespace lsched {

using namespace symbolic;

/// Writes; and of packed lists, only what was measured when they were laid out.
void contents::put(world_op by, region part, std::uint64_t count, const memory& pieces) {
  const rank r = all_.rank_of(by);
  write(r, part, count, pieces);
  if (!all_.program(r).buffers()[part.buffer()].is_packed()) return;
  const placement& under = placement_of(r, part);
  const std::uint64_t begin = under.begin + part.offset();
  memory found;
  for (const segment& it : layouts_[under.memory]) {
    if (it.end <= begin || it.begin >= begin + count) continue;
    found.push_back({std::max(it.begin, begin) - begin, std::min(it.end, begin + count) - begin,
                     it.shift - static_cast<std::int64_t>(begin), it.what});
  }
  std::uint64_t sound = 0;
  for_each_pair(found, pieces, [&](std::uint64_t first, std::uint64_t end, const segment& length, const segment& it) {
    if (lays_out(first, end, length, it)) sound += end - first;
  });
  if (sound == count) return;
  out_.add({.what = property::contents,
            .where = r,
            .op = all_.id_of(by),
            .buffer = part.buffer(),
            .begin = part.offset(),
            .end = part.offset() + count,
            .text = all_.words_for(by) + " puts lists into buffer " + std::to_string(part.buffer()) +
                    (found.empty() ? ", which nothing has laid out" : ", which is laid out by the lengths of others")});
}

/// Whether lengths [begin, end) are those of these lists: measured of them, or derived, element i for part i of what
/// was taken apart, or else for element i.
bool contents::lays_out(std::uint64_t begin, std::uint64_t end, const segment& length, const segment& list) const {
  const node& what = nodes_[list.what];
  if (nodes_[length.what].is_derived && what.part != 0)
    return end - begin == 1 && static_cast<std::int64_t>(begin) - length.shift == nodes_.part_of(list.what).number;
  const std::uint64_t measured = joined_tree(kernel::measure, what.tree, 0);
  return (nodes_[length.what].is_derived || nodes_[length.what].tree == measured) && length.shift == list.shift;
}

/// What is in a length is nobody's contribution.
void contents::measure(world_op by, const memory& lists) {
  joined_.clear();
  for (const segment& it : lists) {
    const std::uint64_t tree = joined_tree(kernel::measure, nodes_[it.what].tree, 0);
    const node_id length = nodes_.add(by, {.tree = tree, .input = k_no_input, .is_there = true}, {});
    joined_.push_back({it.begin, it.end, it.shift, length});
  }
  write(all_.rank_of(by), all_.at(by).c, all_.at(by).count, joined_);
}

/// The lists themselves hold nothing yet.
void contents::lay_out(world_op by, const memory& lengths) {
  const op& what = all_.at(by);
  const placement& under = placement_of(all_.rank_of(by), what.c);
  write(layouts_[under.memory], under.begin + what.c.offset(), what.count, lengths);
  write(all_.rank_of(by), what.c, what.count, {});
}

}  // namespace lsched
