#include "libsched/verify/contents.h"

#include <algorithm>
#include <string>

#include "libsched/postcondition/modular.h"

namespace lsched {
namespace {

/// What a kernel makes, to a promise about contributions.
enum class making : std::uint8_t {
  contributions,  ///< those of its operands
  by_function,    ///< likewise, but what has become of them only functions know: for promises by functions
  nobodys,        ///< numbers that may steer what becomes of contributions, but are in no promised range
};

/// This is the one rule. A value is the last of these that anything in it is (contents::add).
making making_of(kernel what) {
  if (what == kernel::dot_norms || what == kernel::measure || what == kernel::derive) return making::nobodys;
  return is_function(what) ? making::by_function : making::contributions;
}

std::uint32_t bit_of(kernel what) { return 1u << static_cast<unsigned>(what); }

constexpr std::uint32_t k_no_input = ~std::uint32_t{0};

/// Which element of its node element i of a segment's memory holds.
std::int64_t number_at(std::uint64_t i, std::int64_t shift) { return static_cast<std::int64_t>(i) - shift; }

std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

}  // namespace

fingerprint contents::leaf_of(rank contributor, std::uint32_t input) const {
  return {weight_of_leaf(weights_, leaf_tree(contributor, input)), 1};
}

/// The order of the group is the prime less one, so that many steps less are as many steps back.
fingerprint contents::shifted(fingerprint it, std::int64_t by) const {
  if (by == 0) return it;
  const std::uint64_t steps = by > 0 ? static_cast<std::uint64_t>(by) : k_prime - 1 - static_cast<std::uint64_t>(-by);
  for (std::size_t i = 0; i < it.weights.size(); ++i)
    it.weights[i] = modular_product(it.weights[i], modular_power(weights_.shift_steps[i], steps));
  return it;
}

// --- setting up --------------------------------------------------------------------------------------------

contents::contents(const assembly& all, const overlay& in_place, finding_list& out)
    : all_(all), weights_(the_weights()), out_(out), nodes_{{.input = k_no_input}}, products_(1), parts_(1) {
  for (rank r = 0; r < all.size(); ++r) set_up(r, in_place);
  layouts_.resize(memories_.size());
}

/// Inputs that a capture fills hold nothing before.
void contents::set_up(rank r, const overlay& in_place) {
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
    memories_[placements_.back().memory].push_back({begin, begin + it.count, shift, add_leaf(r, number, it.count)});
  }
}

contents::node_id contents::add_leaf(rank contributor, std::uint32_t input, std::uint64_t extent) {
  nodes_.push_back({.contributions = leaf_of(contributor, input),
                    .tree = leaf_tree(contributor, input),
                    .lowest = contributor,
                    .highest = contributor,
                    .input = input,
                    .extent = extent,
                    .census = leaf_of(contributor, input)});
  return static_cast<node_id>(nodes_.size() - 1);
}

/// Every node that an op makes. `of`: what becomes part of it; not what the op goes by.
contents::node_id contents::add(world_op by, node made, std::initializer_list<node_id> of) {
  made.least_by = k_no_world_op;
  for (const node_id it : of) made.least_by = least_of(made.least_by, nodes_[it].least_by);
  if (making_of(all_.at(by).what) != making::contributions) made.least_by = least_of(made.least_by, by);
  nodes_.push_back(made);
  return static_cast<node_id>(nodes_.size() - 1);
}

/// Of two that are alike, the one that came first.
world_op contents::least_of(world_op x, world_op y) const {
  if (x == k_no_world_op || y == k_no_world_op) return std::min(x, y);
  return making_of(all_.at(x).what) >= making_of(all_.at(y).what) ? x : y;
}

/// The same contributions, as `by` hands them on; and nothing of what they were besides, as sums or a part.
contents::node contents::copy_of(node_id original, world_op by) const {
  node it = nodes_[original];
  it.lower = original, it.higher = k_nothing;
  it.joined_by = by;
  it.products = it.part = 0;
  it.is_derived = false;
  return it;
}

/// The result is shifted as its lower operand is.
contents::node_id contents::add_join(world_op by, kernel how, const segment& lower, const segment& higher) {
  const node& x = nodes_[lower.what];
  const node& y = nodes_[higher.what];
  const fingerprint other = shifted(y.contributions, lower.shift - higher.shift);
  return add(by,
             {.contributions = joined(x.contributions, other),
              .tree = joined_tree(how, x.tree, y.tree),
              .lower = lower.what,
              .higher = higher.what,
              .joined_by = by,
              .lowest = std::min(x.lowest, y.lowest),
              .highest = std::max(x.highest, y.highest),
              .kernels = x.kernels | y.kernels | bit_of(how),
              .is_in_rank_order = x.is_in_rank_order && y.is_in_rank_order && x.highest < y.lowest,
              .is_there = x.is_there || y.is_there,
              .shares = std::max(x.shares, y.shares),
              .extent = x.extent == y.extent ? x.extent : 0,
              .census = joined(x.census, y.census)},
             {lower.what, higher.what});
}

/// `by`: what the coefficients follow from.
contents::node_id contents::add_adaptive(world_op op, const segment& lower, const segment& higher, const products& by) {
  const node_id joined = add_join(op, kernel::adasum, lower, higher);
  node& it = nodes_[joined];
  it.tree = adaptive_tree(nodes_[lower.what].tree, nodes_[higher.what].tree, by);
  return joined;
}

/// The three sums, elements 0 to 2. `of`: the sums that these are the sums of.
contents::node_id contents::add_products(world_op by, const products& all, std::initializer_list<node_id> of) {
  const auto number = static_cast<std::uint32_t>(products_.size());
  products_.push_back(all);
  return add(by, {.tree = all.weights[0], .input = k_no_input, .products = number}, of);
}

/// The same contributions; by what they are divided, the expression says.
contents::node_id contents::add_quotient(world_op op, const segment& sum) {
  node it = copy_of(sum.what, op);
  it.tree = divided_tree(it.tree, all_.at(op).tag);
  it.kernels |= bit_of(kernel::divide);
  return add(op, it, {sum.what});
}

// --- executing ---------------------------------------------------------------------------------------------

void contents::run(const progress& round) {
  for (const world_op it : round.order())
    if (!round.was_void(it)) execute(it);
}

void contents::execute(world_op it) {
  const op& what = all_.at(it);
  const rank r = all_.rank_of(it);
  const std::uint64_t count = what.count;
  if (what.kind == op_kind::compute && what.what == kernel::dot_norms) return multiply(it, count);
  if (count == 0) return;
  if (what.kind == op_kind::compute && is_function(what.what)) return call(it);
  switch (what.kind) {
    case op_kind::recv: {
      const world_op from = all_.partner(it);
      read(from, from, all_.at(from).a, count, lower_);
      return put(it, what.c, count, lower_);
    }
    case op_kind::compute:
      read(it, it, what.a, count, lower_);
      if (what.what == kernel::copy) return put(it, what.c, count, lower_);
      if (what.what == kernel::measure) return measure(it, lower_);
      if (what.what == kernel::lay_out) return lay_out(it, lower_);
      if (what.what == kernel::divide) {
        divide(it, lower_);
        return write(r, what.c, count, joined_);
      }
      read(it, it, what.b, count, higher_);
      if (what.what == kernel::adasum) read(it, it, what.s, k_dot_sums, sums_);
      combine(it, lower_, higher_);
      return write(r, what.c, count, joined_);
    case op_kind::capture: capture(r, what, count); return write(r, what.c, count, lower_);
    default: return;
  }
}

/// Sums of nothing are sums, too.
void contents::multiply(world_op it, std::uint64_t count) {
  const op& what = all_.at(it);
  products all{};
  if (count != 0) {
    read(it, it, what.a, count, lower_);
    read(it, it, what.b, count, higher_);
    for_each_pair(lower_, higher_, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
      // An element of one vector times another element of the other is of no use: it counts as of other vectors.
      const std::uint64_t higher = nodes_[y.what].tree + static_cast<std::uint64_t>(x.shift - y.shift);
      const auto first = begin - static_cast<std::uint64_t>(x.shift);
      all = joined(all, products_of(nodes_[x.what].tree, higher, first, first + (end - begin)));
    });
  }
  write(all_.rank_of(it), what.c, k_dot_sums, {{.end = k_dot_sums, .what = add_products(it, all, {})}});
}

/// The products that the sums just read are of.
std::optional<products> contents::products_read() const {
  if (sums_.size() != 1 || sums_.front().shift != 0 || nodes_[sums_.front().what].products == 0) return std::nullopt;
  return products_[nodes_[sums_.front().what].products];
}

// --- partial schedules -------------------------------------------------------------------------------------

/// What is captured may have been merged from several calls of its rank, by the capture's kernel.
void contents::capture(rank r, const op& what, std::uint64_t count) {
  const auto mine = all_.program(r).buffers();
  const auto before = mine.first(what.c.buffer());
  const auto number =
      std::count_if(before.begin(), before.end(), [](const buffer& it) { return it.role == buffer_role::input; });
  const node_id leaf = add_leaf(r, static_cast<std::uint32_t>(number), mine[what.c.buffer()].count);
  nodes_[leaf].kernels = bit_of(what.what);
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
  if (at == end) return check_presence(reader, part, into);
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
  return one.is_there ? one.census == other.census : one.contributions == other.contributions;
}

/// What a rank did not contribute is null. What a partial schedule reads as one value has to be there as a whole or not
/// at all, and to count the same ranks throughout, whoever contributes.
void contents::check_presence(world_op reader, region part, const memory& pieces) {
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

// --- lists -------------------------------------------------------------------------------------------------

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
    return end - begin == 1 && number_at(begin, length.shift) == parts_[what.part].number;
  const std::uint64_t measured = joined_tree(kernel::measure, what.tree, 0);
  return (nodes_[length.what].is_derived || nodes_[length.what].tree == measured) && length.shift == list.shift;
}

/// What is in a length is nobody's contribution.
void contents::measure(world_op by, const memory& lists) {
  joined_.clear();
  for (const segment& it : lists) {
    const std::uint64_t tree = joined_tree(kernel::measure, nodes_[it.what].tree, 0);
    const node_id length = add(by, {.tree = tree, .input = k_no_input, .is_there = true}, {});
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

template <class Visit>
void contents::for_each_pair(const memory& lower, const memory& higher, const Visit& visit) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < lower.size() && j < higher.size()) {
    const std::uint64_t begin = std::max(lower[i].begin, higher[j].begin);
    const std::uint64_t end = std::min(lower[i].end, higher[j].end);
    if (begin < end) visit(begin, end, lower[i], higher[j]);
    lower[i].end == end ? ++i : ++j;
  }
}

void contents::combine(world_op by, const memory& lower, const memory& higher) {
  joined_.clear();
  const kernel how = all_.at(by).what;
  const std::optional<products> given = how == kernel::adasum ? products_read() : std::nullopt;
  if (how == kernel::adasum && !given) object_to_sums(by);
  for_each_pair(lower, higher, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
    const std::uint32_t one = nodes_[x.what].products, other = nodes_[y.what].products;
    const bool adds_sums = how == kernel::sum && one != 0 && other != 0 && x.shift == y.shift;
    const node_id both = adds_sums ? add_products(by, joined(products_[one], products_[other]), {x.what, y.what})
                         : given   ? add_adaptive(by, x, y, *given)
                                   : add_join(by, how, x, y);
    joined_.push_back({begin, end, x.shift, both});
  });
}

void contents::divide(world_op by, const memory& what) {
  joined_.clear();
  for (const segment& it : what) joined_.push_back({it.begin, it.end, it.shift, add_quotient(by, it)});
}

void contents::object_to_sums(world_op reader) {
  const op& what = all_.at(reader);
  const std::uint64_t end = what.s.offset() + k_dot_sums;
  out_.add({.what = property::contents,
            .where = all_.rank_of(reader),
            .op = all_.id_of(reader),
            .buffer = what.s.buffer(),
            .begin = what.s.offset(),
            .end = end,
            .text = all_.words_for(reader) + " combines by elements " + range_text(what.s.offset(), end) +
                    " of buffer " + std::to_string(what.s.buffer()) +
                    ", which are not the three sums of any two vectors"});
}

// --- functions ---------------------------------------------------------------------------------------------

std::uint64_t contents::size_of_source(world_op it) const {
  return all_.program(all_.rank_of(it)).buffers()[all_.at(it).a.buffer()].count;
}

/// All of its operands is written, and so is all of its target.
void contents::call(world_op it) {
  const op& what = all_.at(it);
  const rank r = all_.rank_of(it);
  read(it, it, what.a, size_of_source(it), lower_);
  higher_.clear();
  if (what.b.exists()) read(it, it, what.b, all_.program(r).buffers()[what.b.buffer()].count, higher_);
  if (!out_.is_empty()) return;
  check_agreement(it);
  const std::uint64_t tree = called_tree(what);
  std::optional<segment> made;
  switch (what.what) {
    case kernel::split: made = split(it, tree); break;
    case kernel::fold: made = folded(it, tree); break;
    case kernel::join: made = joined_parts(it, tree); break;
    default: made = derived(it, tree); break;
  }
  if (made) {
    node& result = nodes_[made->what];
    result.is_there = true;
    result.census = higher_.empty() ? fingerprint{} : nodes_[higher_.front().what].census;
    made->begin = 0, made->end = what.count;
    return write(r, what.c, what.count, {*made});
  }
  out_.add({.what = property::contents,
            .where = r,
            .op = all_.id_of(it),
            .buffer = what.a.buffer(),
            .end = size_of_source(it),
            .text = all_.words_for(it) + (what.what == kernel::split ? " takes apart what is not one thing"
                                          : what.what == kernel::fold
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
std::uint64_t contents::called_tree(const op& what) const {
  return joined_tree(what.what, joined_tree(what.what, what.tag, tree_of(lower_)), tree_of(higher_));
}

/// What functions go by is the same on all ranks that call them, and sums if it is combined at all.
void contents::check_agreement(world_op it) {
  const op& what = all_.at(it);
  if (!what.b.exists()) return;
  const auto [place, is_new] = agreed_.try_emplace(what.tag, tree_of(higher_));
  const auto is_sum = [&](const segment& run) { return (nodes_[run.what].kernels & ~bit_of(kernel::sum)) == 0; };
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
std::optional<contents::segment> contents::split(world_op it, std::uint64_t tree) {
  if (lower_.size() > 1) return std::nullopt;
  const segment from = lower_.empty() ? segment{} : lower_.front();  // of nothing there is nothing
  const std::uint64_t extent = nodes_[from.what].extent;
  const std::int64_t number = number_at(0, from.shift);
  const bool is_all = number == 0 && from.end == extent;
  if (!is_all && (from.end != 1 || extent == 0)) return std::nullopt;
  node made = copy_of(from.what, it);
  made.part = static_cast<std::uint32_t>(parts_.size());
  parts_.push_back({.whole = made.tree, .number = number, .of = is_all ? 1 : extent});
  if (!is_all) ++made.shares;
  made.extent = all_.at(it).count;
  made.tree = tree;
  return segment{.what = add(it, made, {from.what})};
}

/// Of element `number` of `of`: that element, or if it is all there is, as many as there are in the target.
std::optional<contents::segment> contents::made_of(world_op it, node made, std::int64_t number, std::uint64_t of) {
  const std::uint64_t count = all_.at(it).count;
  if (count != 1 && of != 1) return std::nullopt;
  made.extent = count == 1 ? of : count;
  return segment{.shift = count == 1 ? -number : 0, .what = add(it, made, {made.lower})};
}

/// That element of all of them together.
std::optional<contents::segment> contents::folded(world_op it, std::uint64_t tree) {
  if (lower_.empty()) return std::nullopt;
  const std::int64_t number = number_at(lower_.front().begin, lower_.front().shift);
  std::optional<segment> all;
  tree = joined_tree(kernel::fold, all_.at(it).tag, lower_.size());
  for (const segment& run : lower_) {
    if (run.end - run.begin != 1 || number_at(run.begin, run.shift) != number) return std::nullopt;
    const segment one{.end = 1, .shift = -number, .what = run.what};
    tree = joined_tree(kernel::fold, tree, nodes_[run.what].tree);
    all = all ? segment{.end = 1, .shift = -number, .what = add_join(it, kernel::fold, *all, one)} : one;
  }
  for (const segment& run : higher_) tree = joined_tree(kernel::fold, tree, nodes_[run.what].tree);
  node made = copy_of(all->what, it);
  made.kernels |= bit_of(kernel::fold);
  made.tree = tree;
  return made_of(it, made, number, made.extent);
}

/// Element q of what a split has made of each element of one node, elements in order: element q of that node, shared
/// out in another way. Or all elements of a node: what a split has made it of, or the node.
std::optional<contents::segment> contents::joined_parts(world_op it, std::uint64_t tree) {
  if (lower_.empty()) return std::nullopt;
  const node& first = nodes_[lower_.front().what];
  const split_element taken = parts_[first.part];
  const std::int64_t number = number_at(lower_.front().begin, lower_.front().shift);
  bool are_parts = first.part != 0 && lower_.size() == taken.of, are_elements = lower_.back().end == first.extent;
  for (const segment& run : lower_) {
    const node& one = nodes_[run.what];
    const split_element& other = parts_[one.part];
    are_parts = are_parts && run.end - run.begin == 1 && other.whole == taken.whole &&
                other.number == static_cast<std::int64_t>(run.begin) && number_at(run.begin, run.shift) == number;
    are_elements = are_elements && run.shift == 0 && one.tree == first.tree;
  }
  if (!are_parts && !are_elements) return std::nullopt;
  if (are_parts) {
    tree = joined_tree(kernel::join, all_.at(it).tag, lower_.size());
    for (const segment& run : lower_) tree = joined_tree(kernel::join, tree, nodes_[run.what].tree);
  }
  node made = copy_of(lower_.front().what, it);
  made.tree = tree;
  if (taken.of > 1) --made.shares;
  if (are_parts) return made_of(it, made, number, made.extent);
  return made_of(it, made, taken.number, first.part == 0 ? 1 : taken.of);
}

contents::segment contents::derived(world_op it, std::uint64_t tree) {
  const node made{.tree = tree, .input = k_no_input, .is_derived = true, .extent = all_.at(it).count};
  return {.what = add(it, made, {})};
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
  if (wanted.what == promised_content::moved) return leaf_of(wanted.source, wanted.input);
  fingerprint few;
  for (const rank r : wanted.among) few = joined(few, leaf_of(r, wanted.input));
  if (!wanted.among.empty()) return few;
  const auto [place, is_new] = everybody_.try_emplace(wanted.input);
  for (rank r = 0; is_new && r < all_.size(); ++r) place->second = joined(place->second, leaf_of(r, wanted.input));
  return place->second;
}

bool contents::check_segment(const promised_range& wanted, const segment& found, std::uint16_t buffer) {
  const node& it = nodes_[found.what];
  const bool is_moved = wanted.what == promised_content::moved;
  // A leaf of element i - shift belongs where element input_begin + i - begin is wanted.
  const auto moved = static_cast<std::int64_t>(wanted.input_begin) - static_cast<std::int64_t>(wanted.begin);
  const bool is_right = it.contributions == shifted(expected(wanted), moved + found.shift);
  const auto bad = [&](property what, const std::string& why) {
    object(what, wanted, buffer, found.begin, found.end, why);
    return false;
  };
  if (!is_right) return bad(property::contents, explain(wanted, found));
  if (const std::string why = words_for_least(wanted, it); !why.empty()) return bad(property::contents, why);
  if (it.shares != 0) return bad(property::contents, "what functions have made of one element of several is in it");
  if (is_moved && it.joined_by != k_no_world_op) return bad(property::contents, "divided, and not as it was");
  if (is_moved) return true;
  const std::uint32_t of_means = wanted.has_means ? bit_of(kernel::sum) | bit_of(kernel::divide) : 0;
  if ((it.kernels & ~(bit_of(wanted.how) | bit_of(wanted.merged) | of_means)) != 0)
    return bad(property::contents, "combined by another kernel than " + std::string(name_of(wanted.how)));
  if (wanted.is_in_rank_order && !it.is_in_rank_order)
    return bad(property::expression, "an operand of a higher rank comes before one of a lower rank");
  if (wanted.tree != 0 && it.tree != wanted.tree)
    return bad(property::expression, "combined in another shape than the one promised");
  if (it.is_there && all_.program(wanted.holder).is_partial() && it.census != expected(wanted))
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

// --- explaining --------------------------------------------------------------------------------------------

/// By rank: how often its input is in the node; the largest number: that often, or more. Operands have lower numbers
/// than what they were joined to.
std::vector<std::uint64_t> contents::copies_in(node_id top, std::uint32_t input) const {
  std::vector<std::uint64_t> uses(top + std::size_t{1}, 0);
  std::vector<std::uint64_t> copies(static_cast<std::size_t>(all_.size()), 0);
  uses[top] = 1;
  for (node_id at = top + 1; at-- > 0;) {
    if (uses[at] == 0) continue;
    const node& it = nodes_[at];
    if (it.joined_by != k_no_world_op) {
      uses[it.lower] = saturating_sum(uses[it.lower], uses[at]);
      uses[it.higher] = saturating_sum(uses[it.higher], uses[at]);
    } else if (it.input == input) {
      std::uint64_t& there = copies[static_cast<std::size_t>(it.lowest)];
      there = saturating_sum(there, uses[at]);
    }
  }
  return copies;
}

/// Why a range may not hold what is least of a contribution in it; or an empty string.
std::string contents::words_for_least(const promised_range& wanted, const node& found) const {
  if (found.least_by == k_no_world_op) return {};
  const making least = making_of(all_.at(found.least_by).what);
  if (least == making::by_function && is_function(wanted.how)) return {};
  return "what " + all_.words_for(found.least_by) + " made is in it, and " +
         (least == making::nobodys ? "that is nobody's contribution" : "a function may make anything of contributions");
}

std::string contents::explain(const promised_range& wanted, const segment& found) const {
  const std::vector<std::uint64_t> copies = copies_in(found.what, wanted.input);
  const auto is_wanted = [&](rank r) {
    if (wanted.what == promised_content::moved) return r == wanted.source;
    return wanted.among.empty() || std::binary_search(wanted.among.begin(), wanted.among.end(), r);
  };
  for (rank r = 0; r < all_.size(); ++r) {
    const std::uint64_t there = copies[static_cast<std::size_t>(r)];
    const std::string whose = "the contribution of rank " + std::to_string(r);
    const bool is_least = there == k_saturated;
    if (there > 1)
      return whose + " is in it " + (is_least ? "at least " : "") + std::to_string(there) + " times, " +
             words_for_two_ways(found.what, r, wanted.input);
    if (there == 0 && is_wanted(r)) return whose + " is missing; " + words_for_loss(r, wanted.input);
    if (there == 1 && !is_wanted(r)) return whose + " is in it, but should not be";
  }
  return "the contributions come from other elements than they should";
}

/// By node: whether that leaf is in it.
std::vector<bool> contents::holders_of(rank contributor, std::uint32_t input) const {
  std::vector<bool> holds(nodes_.size(), false);
  for (node_id at = 0; at < nodes_.size(); ++at) {
    const node& it = nodes_[at];
    holds[at] = it.joined_by == k_no_world_op ? it.lowest == contributor && it.input == input
                                              : holds[it.lower] || holds[it.higher];
  }
  return holds;
}

/// The joins from the leaf up to the node, along the higher operand at the first fork, or along the lower.
std::string contents::words_for_way(node_id top, const std::vector<bool>& holds, bool from_higher) const {
  std::vector<std::string> steps;
  bool is_forked = false;
  for (node_id at = top; nodes_[at].joined_by != k_no_world_op;) {
    const node& it = nodes_[at];
    const bool is_fork = holds[it.lower] && holds[it.higher];
    const bool takes_higher = is_fork && !is_forked ? from_higher : !holds[it.lower];
    is_forked = is_forked || is_fork;
    steps.push_back((takes_higher ? "b of " : "a of ") + all_.words_for(it.joined_by));
    at = takes_higher ? it.higher : it.lower;
  }
  std::string text = "as operand ";
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    text += (step == steps.rbegin() ? "" : ", then ") + *step;
  return text;
}

std::string contents::words_for_two_ways(node_id top, rank contributor, std::uint32_t input) const {
  const std::vector<bool> holds = holders_of(contributor, input);
  return "once " + words_for_way(top, holds, false) + ", and once " + words_for_way(top, holds, true);
}

/// Of the nodes that hold it and are operands of none that does, the one with the fewest leaves: where it got lost.
std::string contents::words_for_loss(rank contributor, std::uint32_t input) const {
  const std::vector<bool> holds = holders_of(contributor, input);
  std::vector<bool> is_used(nodes_.size(), false);
  for (const node& it : nodes_)
    if (it.joined_by != k_no_world_op) is_used[it.lower] = is_used[it.higher] = true;
  const node* last = nullptr;
  for (node_id at = 0; at < nodes_.size(); ++at)
    if (holds[at] && !is_used[at] && (last == nullptr || nodes_[at].contributions.size < last->contributions.size))
      last = &nodes_[at];
  if (last == nullptr || last->joined_by == k_no_world_op) return "no op has combined it with another";
  return "it got as far as " + all_.words_for(last->joined_by);
}

}  // namespace lsched
