// What arithmetic makes of two nodes, or of one.
#include <algorithm>

#include "libsched/verify/contents.h"
#include "libsched/verify/range_text.h"

namespace lsched {

using namespace symbolic;

/// Sums of nothing are sums, too.
void contents::multiply(world_op it, std::uint64_t count) {
  const op& what = all_.at(it);
  products all{};
  if (count != 0) {
    read(it, it, what.a, count, lower_);
    read(it, it, what.b, count, higher_);
    for_each_pair(lower_, higher_, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
      // An element of one vector times another element of the other is of no use: it counts as of other vectors.
      const auto first = begin - static_cast<std::uint64_t>(x.shift);
      all = joined(all, products_of(nodes_[x.what].tree, nodes_.tree_beside(x, y), first, first + (end - begin)));
    });
  }
  write(all_.rank_of(it), what.c, k_dot_sums, {{.end = k_dot_sums, .what = nodes_.add_sums(it, all, {})}});
}

void contents::combine(world_op by, const memory& lower, const memory& higher) {
  joined_.clear();
  const kernel how = all_.at(by).what;
  for_each_pair(lower, higher, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
    const products* const one = nodes_.products_of(x.what);
    const products* const other = nodes_.products_of(y.what);
    const bool adds_sums = how == kernel::sum && one != nullptr && other != nullptr && x.shift == y.shift;
    const node_id both = adds_sums ? nodes_.add_sums(by, lsched::joined(*one, *other), {x.what, y.what})
                                   : nodes_.add_join(by, how, x, y);
    joined_.push_back({begin, end, x.shift, both});
  });
}

/// By the sums in s. What are no such sums is a finding.
void contents::weigh(world_op by, const memory& lower, const memory& higher) {
  joined_.clear();
  read(by, by, all_.at(by).s, k_dot_sums, sums_);
  const bool are_sums = sums_.size() == 1 && sums_.front().shift == 0;
  const products* const weights = are_sums ? nodes_.products_of(sums_.front().what) : nullptr;
  if (weights == nullptr) object_to_sums(by);
  const products given = weights == nullptr ? products{} : *weights;
  for_each_pair(lower, higher, [&](std::uint64_t begin, std::uint64_t end, const segment& x, const segment& y) {
    joined_.push_back({begin, end, x.shift, nodes_.add_weighted(by, x, y, given)});
  });
}

void contents::divide(world_op by, const memory& what) {
  joined_.clear();
  for (const segment& it : what) joined_.push_back({it.begin, it.end, it.shift, nodes_.add_quotient(by, it)});
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

}  // namespace lsched
