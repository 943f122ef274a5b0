// Symbolic execution of functions, as their kernels declare them.
#include <algorithm>

#include "libsched/verify/contents.h"

namespace lsched {

using namespace symbolic;

namespace {

/// The elements of a segment are elements of a node, moved by `shift`. Returns the index in the node for the index `i`
/// in the memory.
std::int64_t number_at(std::uint64_t i, std::int64_t shift) { return static_cast<std::int64_t>(i) - shift; }

}  // namespace

/// Calls a function, which reads its whole operands and writes its whole target.
void contents::call(world_op id, symbolic_rule rule) {
  const op& o = all_.at(id);
  const auto size_of_buffer = [&](region part) { return program_of(id).buffers()[part.buffer()].count; };
  const memory source = read(id, o.a, size_of_buffer(o.a));
  const memory steering = o.b.exists() ? read(id, o.b, size_of_buffer(o.b)) : memory{};
  if (!out_.is_empty()) return;
  if (o.b.exists()) check_agreement(id, steering);
  // The expression of a result must depend on everything that the function reads.
  const std::uint64_t tree =
      joined_tree(o.what, joined_tree(o.what, function_of(id), tree_of(source)), tree_of(steering));
  std::optional<segment> made;
  std::string why;
  switch (rule) {
    case symbolic_rule::part:
      made = split(id, tree, source);
      why = " splits data that is not one value";
      break;
    case symbolic_rule::fold:
      made = folded(id, source, steering);
      why = " folds parts that do not match";
      break;
    case symbolic_rule::whole:
      made = joined_parts(id, tree, source);
      why = " joins data that is not all parts of one value in order";
      break;
    default:
      made = segment{
          .what = nodes_.add(id, {.tree = tree, .input = k_no_input, .is_derived = true, .extent = o.count}, {})};
  }
  if (!made) return object(id, o.a, 0, size_of_buffer(o.a), why);
  node& result = nodes_[made->what];
  result.is_there = true;
  result.contributors = steering.empty() ? fingerprint{} : nodes_[steering.front().what].contributors;
  made->begin = 0, made->end = o.count;
  write(id, o.c, o.count, {*made});
}

/// Returns the hash of the expressions of a whole memory.
std::uint64_t contents::tree_of(const memory& all) const {
  std::uint64_t tree = all.size();
  for (const segment& run : all)
    tree = joined_tree(kernel::derive, joined_tree(kernel::derive, tree, nodes_[run.what].tree),
                       joined_tree(kernel::derive, run.end - run.begin, static_cast<std::uint64_t>(run.shift)));
  return tree;
}

std::uint64_t contents::joined_tree_of(kernel how, std::uint64_t tree, const memory& all) const {
  for (const segment& run : all) tree = joined_tree(how, tree, nodes_[run.what].tree);
  return tree;
}

/// Checks operand b, which controls a function. The operand must be equal on all ranks that call the function. No
/// kernel other than `sum` may have combined the operand.
void contents::check_agreement(world_op id, const memory& steering) {
  const std::uint64_t tree = tree_of(steering);
  const auto [place, is_new] = agreed_.try_emplace(function_of(id), tree);
  const bool are_sums = std::ranges::all_of(steering, [&](const segment& run) {
    const node& numbers = nodes_[run.what];
    return ((numbers.kernels | numbers.merges) & ~bit_of(kernel::sum)) == 0;
  });
  if (are_sums && (is_new || place->second == tree)) return;
  const std::uint16_t buffer = all_.at(id).b.buffer();
  out_.add(all_.about(property::expression, id, {buffer, 0, program_of(id).buffers()[buffer].count},
                      all_.words_for(id) + (are_sums ? " uses other numbers than the same function on other ranks"
                                                     : " uses numbers that are combined by another kernel than sum")));
}

/// Splits a whole node, or one element of a node.
std::optional<segment> contents::split(world_op id, std::uint64_t tree, const memory& source) {
  if (source.size() > 1) return std::nullopt;
  const segment from = source.empty() ? segment{} : source.front();  // an empty source has no contributions
  const std::uint64_t extent = nodes_[from.what].extent;
  const std::int64_t number = number_at(0, from.shift);
  const bool is_all = number == 0 && from.end == extent;
  if (!is_all && (from.end != 1 || extent == 0)) return std::nullopt;
  node made = nodes_.copy_of(from.what, id);
  made.part = nodes_.add_part({.whole = made.tree, .number = number, .of = is_all ? 1 : extent});
  if (!is_all) ++made.shares;
  made.extent = all_.at(id).count;
  made.tree = tree;
  return segment{.what = nodes_.add(id, made, {from.what})};
}

/// Returns the segment for the result `made`: element `number` of a value with `of` elements. If `of` is 1, the result
/// fills the whole target.
std::optional<segment> contents::made_of(world_op id, node made, std::int64_t number, std::uint64_t of) {
  const std::uint64_t count = all_.at(id).count;
  if (count != 1 && of != 1) return std::nullopt;
  made.extent = count == 1 ? of : count;
  return segment{.shift = count == 1 ? -number : 0, .what = nodes_.add(id, made, {made.lower})};
}

/// Joins the same element of all nodes in the source. If the source contains whole nodes with several elements, joins
/// these nodes.
std::optional<segment> contents::folded(world_op id, const memory& source, const memory& steering) {
  if (source.empty()) return std::nullopt;
  const bool are_whole = std::ranges::all_of(source, [&](const segment& run) {
    const node& one = nodes_[run.what];
    return number_at(run.begin, run.shift) == 0 && run.end - run.begin == one.extent && one.shares == 0;
  });
  const std::int64_t number = number_at(source.front().begin, source.front().shift);
  std::optional<segment> all;
  for (const segment& run : source) {
    const bool is_same = run.end - run.begin == 1 && number_at(run.begin, run.shift) == number;
    if (!are_whole && !is_same) return std::nullopt;
    const segment one{.end = 1, .shift = -number, .what = run.what};
    all = all ? segment{.end = 1, .shift = -number, .what = nodes_.add_join(id, kernel::fold, *all, one)} : one;
  }
  node made = nodes_.copy_of(all->what, id);
  made.kernels |= bit_of(kernel::fold);
  made.tree = joined_tree_of(
      kernel::fold, joined_tree_of(kernel::fold, joined_tree(kernel::fold, function_of(id), source.size()), source),
      steering);
  return made_of(id, made, number, are_whole ? 1 : made.extent);
}

/// Joins the parts of a split, in two cases. If each element of a node was split, and the source contains part q of
/// every element, in order, the result is element q of that node. If the source contains all elements of one node, the
/// result is the value that was split into that node, or the node itself.
std::optional<segment> contents::joined_parts(world_op id, std::uint64_t tree, const memory& source) {
  if (source.empty()) return std::nullopt;
  const node& first = nodes_[source.front().what];
  const split_element taken = nodes_.part_of(source.front().what);
  const std::int64_t number = number_at(source.front().begin, source.front().shift);
  bool are_parts = first.part != 0 && source.size() == taken.of, are_elements = source.back().end == first.extent;
  for (const segment& run : source) {
    const split_element& other = nodes_.part_of(run.what);
    are_parts = are_parts && run.end - run.begin == 1 && other.whole == taken.whole &&
                other.number == static_cast<std::int64_t>(run.begin) && number_at(run.begin, run.shift) == number;
    are_elements = are_elements && run.shift == 0 && nodes_[run.what].tree == first.tree;
  }
  if (!are_parts && !are_elements) return std::nullopt;
  const std::uint64_t elements = first.part == 0 ? 1 : taken.of;
  node made = nodes_.copy_of(source.front().what, id);
  made.tree = are_parts
                  ? joined_tree_of(kernel::join, joined_tree(kernel::join, function_of(id), source.size()), source)
                  : tree;
  if (taken.of > 1) --made.shares;
  return are_parts ? made_of(id, made, number, made.extent) : made_of(id, made, taken.number, elements);
}

}  // namespace lsched
