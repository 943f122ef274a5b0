// Tests of gTopk with all ranks in lockstep, on several trees of ranks, against a reference that records the
// contributors of each value.
#include <gtest/gtest.h>

#include <set>

#include "libsched/schedule/geometry.h"
#include "collectives/baselines/gtopk.h"
#include "tests/collectives/sparse/baseline_cases.h"

namespace lsched {
namespace {

/// A tree of ranks: the parent of each rank. Rank 0 is the root and its own parent. A child has a higher rank than its
/// parent.
using tree = std::vector<rank>;

std::vector<tree> trees_of(rank size) {
  std::vector<tree> all;
  for (const rank radix : {2, 4}) {
    const knomial shape(size, radix);
    tree made(static_cast<std::size_t>(size), 0);
    for (rank r = 1; r < size; ++r) made[static_cast<std::size_t>(r)] = shape.parent_of(r);
    all.push_back(made);
  }
  tree chain(static_cast<std::size_t>(size), 0);
  for (rank r = 1; r < size; ++r) chain[static_cast<std::size_t>(r)] = r - 1;
  all.push_back(chain);
  return all;
}

std::vector<std::size_t> children_of(const tree& in, std::size_t parent) {
  std::vector<std::size_t> all;
  for (std::size_t r = 1; r < in.size(); ++r)
    if (static_cast<std::size_t>(in[r]) == parent) all.push_back(r);
  return all;
}

// ---- the reference

/// A partial result, and the ranks that have contributed to each item.
struct traced_list {
  list items;
  std::map<std::uint32_t, std::set<std::size_t>> owners;
};

traced_list merged(dtype type, const traced_list& lower, const traced_list& upper, std::size_t k) {
  std::map<std::uint32_t, std::uint64_t> sums;
  for (const entry& it : lower.items) sums[it.index] = it.value;
  for (const entry& it : upper.items) {
    const auto [at, is_new] = sums.emplace(it.index, it.value);
    if (is_new) continue;
    const dtype wide = residual_of(type);
    const std::uint64_t sum = bits_of(wide, value_of(type, at->second) + value_of(type, it.value));
    at->second = rounded(type, sum);
  }
  list all;
  for (const auto& [index, value] : sums)
    if (magnitude_of(type, value) != 0) all.push_back({index, value});
  traced_list made{.items = largest_of(type, all, k), .owners = {}};
  for (const entry& it : made.items)
    for (const traced_list* from : {&lower, &upper})
      if (from->owners.contains(it.index))
        made.owners[it.index].insert(from->owners.at(it.index).begin(), from->owners.at(it.index).end());
  return made;
}

traced_list result_of(dtype type, const tree& in, const std::vector<list>& lists, std::size_t root, std::size_t k) {
  traced_list all{.items = lists[root], .owners = {}};
  for (const entry& it : all.items) all.owners[it.index].insert(root);
  for (const std::size_t child : children_of(in, root))
    all = merged(type, all, result_of(type, in, lists, child, k), k);
  return all;
}

// ---- the ranks

class gtopk_world {
 public:
  gtopk_world(const baseline_case& what, tree in, arrival_rule rule) : what_(what), in_(std::move(in)), rule_(rule) {
    for (std::size_t r = 0; r < in_.size(); ++r) {
      const auto children = static_cast<std::uint32_t>(children_of(in_, r).size());
      ranks_.emplace_back(problem_of(what, static_cast<rank>(r)), rule, children);
      memories_.emplace_back(what, ranks_[r].list_room(), ranks_[r].list_room());
    }
  }

  void select(std::size_t r, const elements& gradient) {
    const dense_in_memory given(what_.problem.type, gradient);
    rank_memory& mine = memories_[r];
    mine.n_sent = ranks_[r].select(mine.residual.data(), given.data(), mine.hint, mine.sent.data());
  }

  /// Merges the lists of children into the list of the parent, from the highest rank down. In this order, the list of a
  /// child is complete before it is merged into its parent's list.
  void reduce() {
    for (std::size_t r = in_.size(); r-- > 0;) {
      rank_memory& mine = memories_[r];
      for (const std::size_t child : children_of(in_, r))
        mine.n_sent = ranks_[r].merge(mine.sent_list(), memories_[child].sent_list(), mine.sent.data());
    }
  }

  void settle() {
    const rank_memory& root = memories_[0];
    for (std::size_t r = 0; r < in_.size(); ++r) {
      rank_memory& mine = memories_[r];
      if (rule_ == arrival_rule::exact && r > 0) {
        const auto parent = static_cast<std::size_t>(in_[r]);
        const auto siblings = children_of(in_, parent);
        const auto place = std::find(siblings.begin(), siblings.end(), r) - siblings.begin();
        ranks_[r].learn(mine.sent_list(), ranks_[parent].survivors_of(static_cast<std::uint32_t>(place)));
      }
      ranks_[r].settle(root.sent_list(), mine.residual.data(), mine.update.data());
    }
  }

  list partial(std::size_t r) const { return memories_[r].sent.content(memories_[r].n_sent); }
  elements residual(std::size_t r) const { return memories_[r].residual.content(); }
  elements update(std::size_t r) const { return memories_[r].update.content(); }
  bool is_intact() const {
    return std::all_of(memories_.begin(), memories_.end(), [](const rank_memory& it) { return it.is_intact(); });
  }
  std::vector<elements> residuals() const {
    std::vector<elements> all;
    for (const rank_memory& it : memories_) all.push_back(it.residual.content());
    return all;
  }

 private:
  const baseline_case& what_;
  tree in_;
  arrival_rule rule_;
  std::vector<gtopk> ranks_;
  std::deque<rank_memory> memories_;
};

void run(const baseline_case& what, const tree& in, arrival_rule rule) {
  const dtype type = what.problem.type;
  gtopk_world world(what, in, rule);
  std::vector<elements> residuals(in.size(), elements(what.problem.count, 0));
  for (round_no round = 1; round <= k_baseline_rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<list> lists;
    for (std::size_t r = 0; r < in.size(); ++r) {
      const elements gradient = gradient_of(what, static_cast<rank>(r), round);
      accumulate(what, residuals[r], gradient);
      lists.push_back(largest_of(type, sendable(what, residuals[r]), what.problem.k));
      world.select(r, gradient);
      ASSERT_EQ(world.partial(r), lists[r]) << "rank " << r;
    }
    const traced_list result = result_of(type, in, lists, 0, what.problem.k);
    world.reduce();
    ASSERT_EQ(world.partial(0), result.items);
    world.settle();
    for (std::size_t r = 0; r < in.size(); ++r) {
      settle(what, result.items, residuals[r], lists[r], [&](std::uint32_t index) {
        return rule == arrival_rule::published ? has_index(result.items, index)
                                               : result.owners.contains(index) && result.owners.at(index).contains(r);
      });
      ASSERT_EQ(world.residual(r), residuals[r]) << "rank " << r;
      ASSERT_EQ(world.update(r), update_of(what, result.items)) << "rank " << r;
    }
    ASSERT_TRUE(world.is_intact());
  }
}

void run_all(arrival_rule rule) {
  std::size_t number = 0;
  for_each_baseline_case([&](const baseline_case& what) {
    const std::vector<tree> trees = trees_of(what.problem.place.size);
    const std::size_t which = number++ % trees.size();
    SCOPED_TRACE("tree " + std::to_string(which));
    run(what, trees[which], rule);
  });
}

TEST(BaselineGTopK, keeps_the_largest_of_each_sum_and_what_is_not_in_the_result) { run_all(arrival_rule::exact); }
TEST(BaselineGTopK, takes_an_index_for_an_arrival_where_published) { run_all(arrival_rule::published); }

// ---- conservation

/// Runs rounds. Returns the total magnitude that they lose.
double lost_by(arrival_rule rule, rank ranks, dtype type, std::size_t which_tree, gradient_kind kind) {
  constexpr std::uint64_t count = 1000;
  const baseline_case what{.problem = {.count = count, .k = 50, .place = {.self = 0, .size = ranks}, .type = type},
                           .input = 0};
  gradient_source source({.kind = kind, .count = count, .ranks = ranks, .has_integers = true});
  const tree in = trees_of(ranks)[which_tree];
  gtopk_world world(what, in, rule);
  double lost = 0;
  for (round_no round = 1; round <= 6; ++round) {
    std::vector<elements> sums = world.residuals();
    for (std::size_t r = 0; r < in.size(); ++r) {
      const dense_in_memory drawn(type, elements(count, 0));
      source.draw(static_cast<rank>(r), round, type, drawn.data());
      world.select(r, drawn.content());
      accumulate(what, sums[r], drawn.content());
    }
    const std::vector<double> before = total_of(sums, type);
    world.reduce();
    world.settle();
    lost += lost_in_round(before, total_of(world.residuals(), type), world.partial(0), type);
  }
  return lost;
}

TEST(BaselineGTopK, loses_nothing_where_exact) {
  for (const rank ranks : k_baseline_ranks)
    for (const dtype type : {dtype::f32, dtype::f64})
      for (const gradient_kind kind : k_all_gradient_kinds)
        for (const std::size_t which : sizes{0, 1, 2})
          EXPECT_EQ(lost_by(arrival_rule::exact, ranks, type, which, kind), 0)
              << ranks << " ranks, tree " << which << ", " << name_of(kind);
}

TEST(BaselineGTopK, loses_some_where_published) {
  for (const rank ranks : {4, 5, 6, 7, 8})
    for (const std::size_t which : sizes{0, 2})
      EXPECT_GT(lost_by(arrival_rule::published, ranks, dtype::f32, which, gradient_kind::layered), 0)
          << ranks << " ranks, tree " << which;
}

}  // namespace
}  // namespace lsched
