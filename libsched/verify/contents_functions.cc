// What functions make of nodes, by what their kernels say.
#include <algorithm>

#include "libsched/verify/contents.h"

namespace lsched {

using namespace symbolic;

namespace {

/// Which element of its node element i of a segment's memory holds.
std::int64_t number_at(std::uint64_t i, std::int64_t shift) { return static_cast<std::int64_t>(i) - shift; }

}  // namespace

std::uint64_t contents::size_of_source(world_op it) const {
  return all_.program(all_.rank_of(it)).buffers()[all_.at(it).a.buffer()].count;
}

/// All of its operands is written, and so is all of its target.
void contents::call(world_op it, symbolic_rule by) {
  const op& what = all_.at(it);
  const rank r = all_.rank_of(it);
  read(it, it, what.a, size_of_source(it), lower_);
  higher_.clear();
  if (what.b.exists()) read(it, it, what.b, all_.program(r).buffers()[what.b.buffer()].count, higher_);
  if (!out_.is_empty()) return;
  check_agreement(it);
  const std::uint64_t tree = called_tree(it);
  std::optional<segment> made;
  switch (by) {
    case symbolic_rule::part: made = split(it, tree); break;
    case symbolic_rule::fold: made = folded(it, tree); break;
    case symbolic_rule::whole: made = joined_parts(it, tree); break;
    default: made = derived(it, tree); break;
  }
  if (made) {
    node& result = nodes_[made->what];
    result.is_there = true;
    result.contributors = higher_.empty() ? fingerprint{} : nodes_[higher_.front().what].contributors;
    made->begin = 0, made->end = what.count;
    return write(r, what.c, what.count, {*made});
  }
  out_.add({.what = property::contents,
            .where = r,
            .op = all_.id_of(it),
            .buffer = what.a.buffer(),
            .end = size_of_source(it),
            .text = all_.words_for(it) + (by == symbolic_rule::part ? " takes apart what is not one thing"
                                          : by == symbolic_rule::fold
                                              ? " folds parts that are not alike"
                                              : " joins what are not all parts of one thing, in order")});
}

/// The expression of all that is in some memory.
std::uint64_t contents::tree_of(const memory& all) const {
  std::uint64_t tree = all.size();
  for (const segment& it : all)
    tree = joined_tree(kernel::derive, joined_tree(kernel::derive, tree, nodes_[it.what].tree),
                       joined_tree(kernel::derive, it.end - it.begin, static_cast<std::uint64_t>(it.shift)));
  return tree;
}

/// Of a function's result, which follows from all that it has read.
std::uint64_t contents::called_tree(world_op it) const {
  return joined_tree(all_.at(it).what, joined_tree(all_.at(it).what, parameter_of(it), tree_of(lower_)),
                     tree_of(higher_));
}

/// What functions go by is the same on all ranks that call them, and sums if it is combined at all.
void contents::check_agreement(world_op it) {
  const op& what = all_.at(it);
  if (!what.b.exists()) return;
  const auto [place, is_new] = agreed_.try_emplace(parameter_of(it), tree_of(higher_));
  const auto is_sum = [&](const segment& run) {
    const node& numbers = nodes_[run.what];
    return ((numbers.kernels | numbers.merges) & ~bit_of(kernel::sum)) == 0;
  };
  const bool are_sums = std::ranges::all_of(higher_, is_sum);
  if (are_sums && (is_new || place->second == tree_of(higher_))) return;
  out_.add({.what = property::expression,
            .where = all_.rank_of(it),
            .op = all_.id_of(it),
            .buffer = what.b.buffer(),
            .end = all_.program(all_.rank_of(it)).buffers()[what.b.buffer()].count,
            .text = all_.words_for(it) + (are_sums ? " goes by other numbers than the same function on other ranks"
                                                   : " goes by numbers that are combined by another kernel than sum")});
}

/// Of all of a node, or of one element.
std::optional<segment> contents::split(world_op it, std::uint64_t tree) {
  if (lower_.size() > 1) return std::nullopt;
  const segment from = lower_.empty() ? segment{} : lower_.front();  // of nothing there is nothing
  const std::uint64_t extent = nodes_[from.what].extent;
  const std::int64_t number = number_at(0, from.shift);
  const bool is_all = number == 0 && from.end == extent;
  if (!is_all && (from.end != 1 || extent == 0)) return std::nullopt;
  node made = nodes_.copy_of(from.what, it);
  made.part = nodes_.add_part({.whole = made.tree, .number = number, .of = is_all ? 1 : extent});
  if (!is_all) ++made.shares;
  made.extent = all_.at(it).count;
  made.tree = tree;
  return segment{.what = nodes_.add(it, made, {from.what})};
}

/// Of element `number` of `of`: that element, or if it is all there is, as many as there are in the target.
std::optional<segment> contents::made_of(world_op it, node made, std::int64_t number, std::uint64_t of) {
  const std::uint64_t count = all_.at(it).count;
  if (count != 1 && of != 1) return std::nullopt;
  made.extent = count == 1 ? of : count;
  return segment{.shift = count == 1 ? -number : 0, .what = nodes_.add(it, made, {made.lower})};
}

/// That element of all of them together.
std::optional<segment> contents::folded(world_op it, std::uint64_t tree) {
  if (lower_.empty()) return std::nullopt;
  const std::int64_t number = number_at(lower_.front().begin, lower_.front().shift);
  std::optional<segment> all;
  tree = joined_tree(kernel::fold, parameter_of(it), lower_.size());
  for (const segment& run : lower_) {
    if (run.end - run.begin != 1 || number_at(run.begin, run.shift) != number) return std::nullopt;
    const segment one{.end = 1, .shift = -number, .what = run.what};
    tree = joined_tree(kernel::fold, tree, nodes_[run.what].tree);
    all = all ? segment{.end = 1, .shift = -number, .what = nodes_.add_join(it, kernel::fold, *all, one)} : one;
  }
  for (const segment& run : higher_) tree = joined_tree(kernel::fold, tree, nodes_[run.what].tree);
  node made = nodes_.copy_of(all->what, it);
  made.kernels |= bit_of(kernel::fold);
  made.tree = tree;
  return made_of(it, made, number, made.extent);
}

/// Element q of what a split has made of each element of one node, elements in order: element q of that node, shared
/// out in another way. Or all elements of a node: what a split has made it of, or the node.
std::optional<segment> contents::joined_parts(world_op it, std::uint64_t tree) {
  if (lower_.empty()) return std::nullopt;
  const node& first = nodes_[lower_.front().what];
  const split_element taken = nodes_.part_of(lower_.front().what);
  const std::int64_t number = number_at(lower_.front().begin, lower_.front().shift);
  bool are_parts = first.part != 0 && lower_.size() == taken.of, are_elements = lower_.back().end == first.extent;
  for (const segment& run : lower_) {
    const node& one = nodes_[run.what];
    const split_element& other = nodes_.part_of(run.what);
    are_parts = are_parts && run.end - run.begin == 1 && other.whole == taken.whole &&
                other.number == static_cast<std::int64_t>(run.begin) && number_at(run.begin, run.shift) == number;
    are_elements = are_elements && run.shift == 0 && one.tree == first.tree;
  }
  if (!are_parts && !are_elements) return std::nullopt;
  if (are_parts) {
    tree = joined_tree(kernel::join, parameter_of(it), lower_.size());
    for (const segment& run : lower_) tree = joined_tree(kernel::join, tree, nodes_[run.what].tree);
  }
  node made = nodes_.copy_of(lower_.front().what, it);
  made.tree = tree;
  if (taken.of > 1) --made.shares;
  if (are_parts) return made_of(it, made, number, made.extent);
  return made_of(it, made, taken.number, first.part == 0 ? 1 : taken.of);
}

segment contents::derived(world_op it, std::uint64_t tree) {
  const node made{.tree = tree, .input = k_no_input, .is_derived = true, .extent = all_.at(it).count};
  return {.what = nodes_.add(it, made, {})};
}

}  // namespace lsched
