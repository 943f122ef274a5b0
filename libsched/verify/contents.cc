#include "libsched/verify/contents.h"

#include <algorithm>
#include <string>

#include "libsched/verify/explanation.h"
#include "libsched/verify/range_text.h"

namespace lsched {

using namespace symbolic;

// --- setting up --------------------------------------------------------------------------------------------

contents::contents(const assembly& all, const aliasing& in_place, finding_list& out)
    : all_(all), out_(out), nodes_(all) {
  for (rank r = 0; r < all.size(); ++r) set_up(r, in_place);
  layouts_.resize(memories_.size());
}

/// Inputs that a capture fills hold nothing before.
void contents::set_up(rank r, const aliasing& in_place) {
  const schedule& mine = all_.program(r);
  first_buffer_.push_back(placements_.size());
  const std::size_t first_memory = memories_.size();
  memories_.resize(first_memory + mine.buffers().size());
  std::vector<bool> is_captured(mine.buffers().size(), false);
  for (const op& it : mine.ops())
    if (it.kind == op_kind::capture) is_captured[it.c.buffer()] = true;
  std::uint32_t inputs = 0;
  const auto placements = placements_of(mine, in_place);
  for (std::size_t b = 0; b < placements.size(); ++b) {
    const std::uint64_t begin = placements[b].begin;
    placements_.push_back({first_memory + placements[b].memory, begin});
    const buffer& it = mine.buffers()[b];
    if (it.role != buffer_role::input) continue;
    const std::uint32_t number = inputs++;
    if (is_captured[b] || it.count == 0) continue;
    const auto shift = static_cast<std::int64_t>(begin);
    memories_[placements_.back().memory].push_back(
        {begin, begin + it.count, shift, nodes_.add_leaf(r, number, it.count)});
  }
}

// --- executing ---------------------------------------------------------------------------------------------

void contents::run(const progress& round) {
  for (const world_op it : round.order())
    if (!round.was_void(it)) execute(it);
}

void contents::execute(world_op it) {
  const op& what = all_.at(it);
  const rank r = all_.rank_of(it);
  if (what.kind == op_kind::compute) return compute(it, row_of(what.what).symbol);
  if (what.count == 0) return;
  if (what.kind == op_kind::recv) {
    const world_op from = all_.partner(it);
    read(from, from, all_.at(from).a, what.count, lower_);
    put(it, what.c, what.count, lower_);
  } else if (what.kind == op_kind::capture) {
    capture(r, what, what.count);
    write(r, what.c, what.count, lower_);
  }
}

void contents::compute(world_op it, symbolic_rule by) {
  const op& what = all_.at(it);
  if (by == symbolic_rule::sums) return multiply(it, what.count);
  if (what.count == 0) return;
  if (is_function(what.what)) return call(it, by);
  read(it, it, what.a, what.count, lower_);
  switch (by) {
    case symbolic_rule::copy: return put(it, what.c, what.count, lower_);
    case symbolic_rule::lengths: return measure(it, lower_);
    case symbolic_rule::layout: return lay_out(it, lower_);
    case symbolic_rule::quotient: divide(it, lower_); break;
    case symbolic_rule::weighted:
      read(it, it, what.b, what.count, higher_);
      weigh(it, lower_, higher_);
      break;
    default:
      read(it, it, what.b, what.count, higher_);
      combine(it, lower_, higher_);
      break;
  }
  write(all_.rank_of(it), what.c, what.count, joined_);
}

// --- partial schedules -------------------------------------------------------------------------------------

/// What is captured may have been merged from several calls of its rank, by the capture's kernel.
void contents::capture(rank r, const op& what, std::uint64_t count) {
  const auto mine = all_.program(r).buffers();
  const auto before = mine.first(what.c.buffer());
  const auto number =
      std::count_if(before.begin(), before.end(), [](const buffer& it) { return it.role == buffer_role::input; });
  const node_id leaf = nodes_.add_leaf(r, static_cast<std::uint32_t>(number), mine[what.c.buffer()].count);
  nodes_[leaf].merges = bit_of(what.what);
  lower_.assign(1, {.end = count, .shift = -static_cast<std::int64_t>(what.c.offset()), .what = leaf});
}

/// The segments of a region, as if it began at 0. Gaps are findings.
void contents::read(world_op it, world_op reader, region part, std::uint64_t count, memory& into) {
  const placement& under = placement_of(all_.rank_of(it), part);
  const memory& from = memories_[under.memory];
  const std::uint64_t begin = under.begin + part.offset();
  const std::uint64_t end = begin + count;
  into.clear();
  std::uint64_t at = begin;
  auto next = std::upper_bound(from.begin(), from.end(), begin,
                               [](std::uint64_t place, const segment& s) { return place < s.end; });
  for (; next != from.end() && next->begin < end && next->begin <= at; ++next) {
    const std::uint64_t stop = std::min(end, next->end);
    into.push_back({at - begin, stop - begin, next->shift - static_cast<std::int64_t>(begin), next->what});
    at = stop;
  }
  if (at == end) return check_segment_states(reader, part, into);
  const std::uint64_t gap_end = (next != from.end() ? std::min(end, next->begin) : end) - under.begin;
  at -= under.begin;
  out_.add({.what = property::contents,
            .where = all_.rank_of(reader),
            .op = all_.id_of(reader),
            .buffer = part.buffer(),
            .begin = at,
            .end = gap_end,
            .text = all_.words_for(reader) + " reads elements " + range_text(at, gap_end) + " of buffer " +
                    std::to_string(part.buffer()) + ", which nothing has written"});
}

/// Whether both are there or not, and count the same ranks, whoever contributes.
bool contents::counts_as(const node& one, const node& other) {
  if (one.is_there != other.is_there) return false;
  return one.is_there ? one.contributors == other.contributors : one.contributions == other.contributions;
}

/// What a rank did not contribute is null. What a partial schedule reads as one value has to be there as a whole or not
/// at all, and to count the same ranks throughout, whoever contributes.
void contents::check_segment_states(world_op reader, region part, const memory& pieces) {
  if (!all_.program(all_.rank_of(reader)).is_partial()) return;
  const auto differs = [&](const segment& it) { return !counts_as(nodes_[it.what], nodes_[pieces.front().what]); };
  const auto other = std::ranges::find_if(pieces, differs);
  if (other == pieces.end()) return;
  out_.add({.what = property::contents,
            .where = all_.rank_of(reader),
            .op = all_.id_of(reader),
            .buffer = part.buffer(),
            .begin = part.offset() + other->begin,
            .end = part.offset() + other->end,
            .text = all_.words_for(reader) + " reads elements " +
                    range_text(part.offset(), part.offset() + pieces.back().end) + " of buffer " +
                    std::to_string(part.buffer()) + " as one value, but from " +
                    std::to_string(part.offset() + other->begin) + " on other ranks' contributions are in them"});
}

void contents::write(rank r, region part, std::uint64_t count, const memory& pieces) {
  const placement& under = placement_of(r, part);
  write(memories_[under.memory], under.begin + part.offset(), count, pieces);
}

void contents::write(memory& target, std::uint64_t at, std::uint64_t count, const memory& pieces) {
  const std::uint64_t end = at + count;
  auto first = std::upper_bound(target.begin(), target.end(), at,
                                [](std::uint64_t place, const segment& s) { return place < s.end; });
  auto last = first;
  memory rest;  // what is left of the segments at both ends, around the new ones
  if (first != target.end() && first->begin < at) rest.push_back({first->begin, at, first->shift, first->what});
  for (const segment& s : pieces)
    rest.push_back({s.begin + at, s.end + at, s.shift + static_cast<std::int64_t>(at), s.what});
  for (; last != target.end() && last->begin < end; ++last)
    if (last->end > end) rest.push_back({end, last->end, last->shift, last->what});
  const auto place = target.erase(first, last);
  target.insert(place, rest.begin(), rest.end());
}

// --- checking ----------------------------------------------------------------------------------------------

void contents::check(const postcondition& promise) {
  for (const promised_range& wanted : promise.ranges) {
    if (out_.is_full()) return;
    if (wanted.what != promised_content::nothing && wanted.begin < wanted.end) check_range(wanted, promise);
  }
}

void contents::object(property what, const promised_range& wanted, std::uint16_t buffer, std::uint64_t begin,
                      std::uint64_t end, const std::string& why) {
  out_.add({.what = what,
            .where = wanted.holder,
            .buffer = buffer,
            .begin = begin,
            .end = end,
            .text = "rank " + std::to_string(wanted.holder) + " output " + std::to_string(wanted.output) +
                    " elements " + range_text(begin, end) + ": " + why});
}

void contents::check_range(const promised_range& wanted, const postcondition& promise) {
  if (wanted.holder < 0 || wanted.holder >= all_.size())
    return object(property::contents, wanted, k_no_buffer, wanted.begin, wanted.end, "there is no such rank");
  const auto buffers = all_.program(wanted.holder).buffers();
  std::uint16_t number = 0;
  std::uint32_t outputs_before = wanted.output;
  for (; number < buffers.size(); ++number)
    if (buffers[number].role == buffer_role::output && outputs_before-- == 0) break;
  if (number == buffers.size() || buffers[number].count < wanted.end)
    return object(property::contents, wanted, k_no_buffer, wanted.begin, wanted.end, "there are none");
  memory found;
  std::uint64_t at = wanted.begin;
  const placement& under = placement_of(wanted.holder, region(number, 0));
  for (const segment& it : memories_[under.memory]) {
    if (it.end <= under.begin + wanted.begin || it.begin >= under.begin + wanted.end) continue;
    // From here on elements are those of the output.
    const segment part{std::max(it.begin, under.begin + wanted.begin) - under.begin,
                       std::min(it.end, under.begin + wanted.end) - under.begin,
                       it.shift - static_cast<std::int64_t>(under.begin), it.what};
    if (part.begin != at) return object(property::contents, wanted, number, at, part.begin, "nothing has written them");
    at = part.end;
    if (!check_segment(wanted, part, number)) return;
    found.push_back(part);
  }
  if (at != wanted.end) return object(property::contents, wanted, number, at, wanted.end, "nothing has written them");
  if (wanted.what == promised_content::reduced && promise.is_same_everywhere) compare_expression(wanted, found, number);
}

/// All contributors, of elements that have not moved.
fingerprint contents::expected(const promised_range& wanted) {
  if (wanted.what == promised_content::moved) return nodes_.leaf_of(wanted.source, wanted.input);
  fingerprint few;
  for (const rank r : wanted.among) few = joined(few, nodes_.leaf_of(r, wanted.input));
  if (!wanted.among.empty()) return few;
  const auto [place, is_new] = everybody_.try_emplace(wanted.input);
  for (rank r = 0; is_new && r < all_.size(); ++r)
    place->second = joined(place->second, nodes_.leaf_of(r, wanted.input));
  return place->second;
}

bool contents::check_segment(const promised_range& wanted, const segment& found, std::uint16_t buffer) {
  const node& it = nodes_[found.what];
  const bool is_moved = wanted.what == promised_content::moved;
  // A leaf of element i - shift belongs where element input_begin + i - begin is wanted.
  const auto moved = static_cast<std::int64_t>(wanted.input_begin) - static_cast<std::int64_t>(wanted.begin);
  const bool is_right = it.contributions == nodes_.shifted(expected(wanted), moved + found.shift);
  const auto bad = [&](property what, const std::string& why) {
    object(what, wanted, buffer, found.begin, found.end, why);
    return false;
  };
  if (!is_right) return bad(property::contents, explanation(all_, nodes_).words_for(wanted, found));
  if (const std::string why = explanation(all_, nodes_).words_for_least(wanted, it); !why.empty())
    return bad(property::contents, why);
  if (it.shares != 0) return bad(property::contents, "what functions have made of one element of several is in it");
  if (is_moved && it.joined_by != k_no_world_op) return bad(property::contents, "divided, and not as it was");
  if (is_moved) return true;
  const std::uint32_t of_means = wanted.has_means ? bit_of(kernel::sum) | bit_of(kernel::divide) : 0;
  const bool are_merges_right = (it.merges & ~(bit_of(wanted.how) | bit_of(wanted.merged))) == 0;
  if (!are_merges_right || (it.kernels & ~(bit_of(wanted.how) | of_means)) != 0)
    return bad(property::contents, "combined by another kernel than " + std::string(name_of(wanted.how)));
  if (wanted.is_in_rank_order && !it.is_in_rank_order)
    return bad(property::expression, "an operand of a higher rank comes before one of a lower rank");
  if (wanted.tree != 0 && it.tree != wanted.tree)
    return bad(property::expression, "combined in another shape than the one promised");
  if (it.is_there && all_.program(wanted.holder).is_partial() && it.contributors != expected(wanted))
    return bad(property::contents, "those who are counted are others than those whose contributions it has");
  return true;
}

/// Against the first holder of the same range. Neighbours with equal trees are one.
void contents::compare_expression(const promised_range& wanted, const memory& found, std::uint16_t buffer) {
  expression mine;
  for (const segment& it : found) {
    const std::uint64_t tree = nodes_[it.what].tree;
    if (!mine.empty() && std::get<2>(mine.back()) == tree)
      std::get<1>(mine.back()) = it.end;
    else
      mine.emplace_back(it.begin, it.end, tree);
  }
  const auto [place, is_new] = first_.try_emplace({wanted.output, wanted.begin, wanted.end}, wanted.holder, mine);
  if (is_new || place->second.second == mine) return;
  object(property::expression, wanted, buffer, wanted.begin, wanted.end,
         "combined in another way than at rank " + std::to_string(place->second.first) + ", so the bits may differ");
}

}  // namespace lsched
