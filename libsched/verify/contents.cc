#include "libsched/verify/contents.h"

#include <algorithm>
#include <string>

namespace lsched {

using namespace symbolic;

// --- setting up --------------------------------------------------------------------------------------------

contents::contents(const assembly& all, const aliasing& in_place, finding_list& out)
    : all_(all), out_(out), nodes_(all) {
  for (rank r = 0; r < all.size(); ++r) set_up(r, in_place);
  layouts_.resize(memories_.size());
}

/// If a capture fills an input, the input has no content before the capture.
void contents::set_up(rank r, const aliasing& in_place) {
  const schedule& program = all_.program(r);
  first_buffer_.push_back(placements_.size());
  const std::size_t first_memory = memories_.size();
  memories_.resize(first_memory + program.buffers().size());
  std::vector<bool> is_captured(program.buffers().size(), false);
  for (const op& o : program.ops())
    if (o.kind == op_kind::capture) is_captured[o.c.buffer()] = true;
  std::uint32_t inputs = 0;
  const auto placements = placements_of(program, in_place);
  for (std::size_t b = 0; b < placements.size(); ++b) {
    const std::uint64_t begin = placements[b].begin;
    placements_.push_back({first_memory + placements[b].memory, begin});
    const buffer& input = program.buffers()[b];
    if (input.role != buffer_role::input) continue;
    const std::uint32_t number = inputs++;
    if (is_captured[b] || input.count == 0) continue;
    const auto shift = static_cast<std::int64_t>(begin);
    memories_[placements_.back().memory].push_back(
        {begin, begin + input.count, shift, nodes_.add_leaf(r, number, input.count)});
  }
}

// --- memory --------------------------------------------------------------------------------------------------

void contents::object(world_op id, region part, std::uint64_t begin, std::uint64_t end, const std::string& why) {
  out_.add(all_.about(property::contents, id, {part.buffer(), begin, end}, all_.words_for(id) + why));
}

/// Returns the segments of [begin, end), relative to begin.
contents::memory contents::part_of(const memory& all, std::uint64_t begin, std::uint64_t end) {
  memory part;
  auto next = std::ranges::upper_bound(all, begin, {}, &segment::end);
  for (; next != all.end() && next->begin < end; ++next)
    part.push_back({std::max(begin, next->begin) - begin, std::min(end, next->end) - begin,
                    next->shift - static_cast<std::int64_t>(begin), next->what});
  return part;
}

/// Returns the first range of elements that no segment of `pieces` contains, or an empty range. All segments must be
/// within [0, count).
element_range contents::gap_in(const memory& pieces, std::uint64_t count) {
  std::uint64_t begin = 0;
  for (const segment& piece : pieces) {
    if (piece.begin != begin) return {.begin = begin, .end = piece.begin};
    begin = piece.end;
  }
  return {.begin = begin, .end = count};
}

/// Returns the segments of a region, relative to the region's beginning. Adds a finding for the first gap.
contents::memory contents::read(world_op id, world_op user, region part, std::uint64_t count) {
  const placement& place = placement_of(all_.rank_of(id), part);
  const std::uint64_t begin = place.begin + part.offset();
  const memory pieces = part_of(memories_[place.memory], begin, begin + count);
  element_range gap = gap_in(pieces, count);
  if (gap.begin == gap.end) {
    check_segment_states(user, part, pieces);
    return pieces;
  }
  gap = {part.buffer(), part.offset() + gap.begin, part.offset() + gap.end};
  object(user, part, gap.begin, gap.end, " reads " + gap.text() + ", which no op has written");
  return pieces;
}

/// All elements that an op of a partial schedule reads together must have the same contributors. So they are all null,
/// or all present.
void contents::check_segment_states(world_op user, region part, const memory& pieces) {
  if (!program_of(user).is_partial()) return;
  const auto differs = [&](const segment& piece) {
    const node &one = nodes_[piece.what], &other = nodes_[pieces.front().what];
    return one.is_there != other.is_there ||
           (one.is_there ? one.contributors != other.contributors : one.contributions != other.contributions);
  };
  const auto other = std::ranges::find_if(pieces, differs);
  if (other == pieces.end()) return;
  const std::uint64_t begin = part.offset();
  object(user, part, begin + other->begin, begin + other->end,
         " reads " + element_range{part.buffer(), begin, begin + pieces.back().end}.text() +
             " as one value, but the elements from " + std::to_string(begin + other->begin) +
             " on contain the contributions of other ranks");
}

void contents::write(world_op id, region part, std::uint64_t count, const memory& pieces) {
  const placement& place = placement_of(all_.rank_of(id), part);
  write(memories_[place.memory], place.begin + part.offset(), count, pieces);
}

void contents::write(memory& target, std::uint64_t at, std::uint64_t count, const memory& pieces) {
  const std::uint64_t end = at + count;
  const auto first = std::ranges::upper_bound(target, at, {}, &segment::end);
  auto last = first;
  memory rest;  // the new segments, and the remaining parts of the segments at both ends
  if (first != target.end() && first->begin < at) rest.push_back({first->begin, at, first->shift, first->what});
  for (const segment& s : pieces)
    rest.push_back({s.begin + at, s.end + at, s.shift + static_cast<std::int64_t>(at), s.what});
  for (; last != target.end() && last->begin < end; ++last)
    if (last->end > end) rest.push_back({end, last->end, last->shift, last->what});
  target.insert(target.erase(first, last), rest.begin(), rest.end());
}

// --- ops -----------------------------------------------------------------------------------------------------

void contents::run(const progress& round) {
  has_received_.assign(all_.op_count(), false);
  for (const world_op id : round.order())
    if (!round.was_void(id)) execute(id);
}

void contents::execute(world_op id) {
  const op& o = all_.at(id);
  if (o.kind == op_kind::compute) return compute(id, row_of(o.what).symbol);
  if (o.count == 0) return;
  if (o.kind == op_kind::send && !has_received_[all_.partner(id)]) in_buffers_[id] = read(id, o.a, o.count);
  if (o.kind == op_kind::recv) receive(id);
  if (o.kind == op_kind::capture) write(id, o.c, o.count, captured(id));
}

/// Executes a receive. If the message was buffered, reads the buffer. Otherwise reads the sender's memory.
void contents::receive(world_op id) {
  const world_op send = all_.partner(id);
  const std::uint64_t count = all_.at(id).count;
  has_received_[id] = true;
  const auto buffered = in_buffers_.extract(send);
  put(id, count, buffered ? buffered.mapped() : read(send, all_.at(send).a, count));
}

void contents::compute(world_op id, symbolic_rule rule) {
  const op& o = all_.at(id);
  if (rule == symbolic_rule::sums) return multiply(id);
  if (o.count == 0) return;
  if (is_function(o.what)) return call(id, rule);
  const memory lower = read(id, o.a, o.count);
  switch (rule) {
    case symbolic_rule::copy: return put(id, o.count, lower);
    case symbolic_rule::layout: return lay_out(id, lower);
    case symbolic_rule::lengths: return write(id, o.c, o.count, lengths_of(id, lower));
    case symbolic_rule::quotient: return write(id, o.c, o.count, divided(id, lower));
    case symbolic_rule::weighted: return write(id, o.c, o.count, weighed(id, lower, read(id, o.b, o.count)));
    default: return write(id, o.c, o.count, combined(id, lower, read(id, o.b, o.count)));
  }
}

/// A captured value may be the result of several calls of its rank, merged by the capture's kernel.
contents::memory contents::captured(world_op id) {
  const op& o = all_.at(id);
  const auto buffers = program_of(id).buffers();
  const auto number = std::ranges::count(buffers.first(o.c.buffer()), buffer_role::input, &buffer::role);
  const node_id leaf =
      nodes_.add_leaf(all_.rank_of(id), static_cast<std::uint32_t>(number), buffers[o.c.buffer()].count);
  nodes_[leaf].merges = bit_of(o.what);
  return {{.end = o.count, .shift = -static_cast<std::int64_t>(o.c.offset()), .what = leaf}};
}

// --- arithmetic ----------------------------------------------------------------------------------------------

template <class Visit>
void contents::for_each_pair(const memory& lower, const memory& higher, const Visit& visit) {
  for (auto x = lower.begin(), y = higher.begin(); x != lower.end() && y != higher.end();) {
    const std::uint64_t begin = std::max(x->begin, y->begin), end = std::min(x->end, y->end);
    if (begin < end) visit(begin, end, *x, *y);
    x->end == end ? ++x : ++y;
  }
}

/// Even if the op has no elements, the target becomes a node of sums.
void contents::multiply(world_op id) {
  const op& o = all_.at(id);
  products all{};
  if (o.count != 0) {
    const memory lower = read(id, o.a, o.count), higher = read(id, o.b, o.count);
    for_each_pair(lower, higher, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
      // Products of elements with different indices are wrong. The expressions of such products differ, so they count
      // as products of other vectors.
      const auto first = begin - static_cast<std::uint64_t>(x.shift);
      all = joined(all, products_of(nodes_[x.what].tree, nodes_.tree_beside(x, y), first, first + (end - begin)));
    });
  }
  write(id, o.c, k_dot_sums, {{.end = k_dot_sums, .what = nodes_.add_sums(id, all, {})}});
}

contents::memory contents::combined(world_op id, const memory& lower, const memory& higher) {
  memory result;
  const kernel how = all_.at(id).what;
  for_each_pair(lower, higher, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
    const products *const one = nodes_.products_of(x.what), *const other = nodes_.products_of(y.what);
    const bool adds_sums = how == kernel::sum && one != nullptr && other != nullptr && x.shift == y.shift;
    const node_id both = adds_sums ? nodes_.add_sums(id, lsched::joined(*one, *other), {x.what, y.what})
                                   : nodes_.add_join(id, how, x, y);
    result.push_back({begin, end, x.shift, both});
  });
  return result;
}

/// Combines the operands with weights from the sums in operand s. If s does not contain sums, adds a finding.
contents::memory contents::weighed(world_op id, const memory& lower, const memory& higher) {
  const region s = all_.at(id).s;
  const memory sums = read(id, s, k_dot_sums);
  const bool are_sums = sums.size() == 1 && sums.front().shift == 0;
  const products* const weights = are_sums ? nodes_.products_of(sums.front().what) : nullptr;
  if (weights == nullptr)
    object(id, s, s.offset(), s.offset() + k_dot_sums,
           " takes its weights from " + element_range{s.buffer(), s.offset(), s.offset() + k_dot_sums}.text() +
               ", which are not the three sums of two vectors");
  const products given = weights == nullptr ? products{} : *weights;
  memory result;
  for_each_pair(lower, higher, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
    result.push_back({begin, end, x.shift, nodes_.add_weighted(id, x, y, given)});
  });
  return result;
}

contents::memory contents::divided(world_op id, const memory& sums) {
  memory result = sums;
  for (segment& piece : result) piece.what = nodes_.add_quotient(id, piece);
  return result;
}

// --- lists and their lengths ---------------------------------------------------------------------------------

contents::memory contents::lengths_of(world_op id, const memory& lists) {
  memory result = lists;
  for (segment& piece : result)
    piece.what = nodes_.add(
        id, {.tree = joined_tree(kernel::measure, nodes_[piece.what].tree, 0), .input = k_no_input, .is_there = true},
        {});
  return result;
}

/// After kernel `lay_out`, lists have lengths but no items yet.
void contents::lay_out(world_op id, const memory& lengths) {
  const op& o = all_.at(id);
  const placement& place = placement_of(all_.rank_of(id), o.c);
  write(layouts_[place.memory], place.begin + o.c.offset(), o.count, lengths);
  write(id, o.c, o.count, {});
}

/// Writes to operand c. If c has packed lists, the written lists must have the lengths that kernel `lay_out` has set.
void contents::put(world_op id, std::uint64_t count, const memory& pieces) {
  const region target = all_.at(id).c;
  write(id, target, count, pieces);
  if (!program_of(id).buffers()[target.buffer()].is_packed()) return;
  const placement& place = placement_of(all_.rank_of(id), target);
  const std::uint64_t first = place.begin + target.offset();
  const memory lengths = part_of(layouts_[place.memory], first, first + count);
  std::uint64_t sound = 0;
  for_each_pair(lengths, pieces, [&](std::uint64_t begin, std::uint64_t end, const segment& length, const segment& s) {
    if (lays_out(begin, end, length, s)) sound += end - begin;
  });
  if (sound == count) return;
  object(id, target, target.offset(), target.offset() + count,
         " writes lists to buffer " + std::to_string(target.buffer()) +
             (lengths.empty() ? ", but no lay_out has set the lengths"
                              : ", but lay_out has set the lengths of other lists"));
}

/// Returns true if lengths [begin, end) are the lengths of the lists in `list`. Lengths from the kernel `measure` must
/// come from these lists. Lengths from the kernel `derive` match by index. Element i is then the length of part i of a
/// split value, or of element i of a value that was not split.
bool contents::lays_out(std::uint64_t begin, std::uint64_t end, const segment& length, const segment& list) const {
  const node &numbers = nodes_[length.what], &items = nodes_[list.what];
  if (numbers.is_derived && items.part != 0)
    return end - begin == 1 && static_cast<std::int64_t>(begin) - length.shift == nodes_.part_of(list.what).number;
  return (numbers.is_derived || numbers.tree == joined_tree(kernel::measure, items.tree, 0)) &&
         length.shift == list.shift;
}

}  // namespace lsched
