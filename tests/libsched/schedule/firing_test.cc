// Tests of the firing rule in round.h. The rule counts tokens, but the reference uses sets of ops. In the reference, an
// op has fired as soon as `need` of its predecessors have completed. The tests cover all DAGs of up to five ops, all
// values of `need`, and all orders in which ops can complete. The tests stop a round at every point, and begin a new
// round with the counters of the unfinished round.
#include "libsched/schedule/round.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <string>

namespace lsched {
namespace {

constexpr std::uint32_t k_most_ops = 5;
using op_set = std::uint32_t;  ///< a set of ops; bit i stands for op i
using counters = std::array<token_count, k_most_ops>;
using rule = bool (*)(token_count&, std::uint32_t need, round_no);

struct graph {
  std::uint32_t size = 0;
  std::array<op_set, k_most_ops> before{};  ///< predecessors of each op; they have lower indices than the op
  std::array<std::uint32_t, k_most_ops> need{};
};

/// Visits all DAGs whose deps lead from lower to higher op indices. Every other DAG equals one of these after its ops
/// are renumbered.
void for_each_graph(graph& of, std::uint32_t next, const std::function<void(const graph&)>& visit) {
  if (next == of.size) return visit(of);
  for (op_set before = 0; before < op_set{1} << next; ++before) {
    const auto in_degree = static_cast<std::uint32_t>(std::popcount(before));
    of.before[next] = before;
    for (std::uint32_t need = in_degree == 0 ? 0 : 1; need <= in_degree; ++need) {
      of.need[next] = need;
      for_each_graph(of, next + 1, visit);
    }
  }
}

/// The reference: returns the ops that have fired when the ops in `completed` have completed.
op_set fired_after(const graph& in, op_set completed) {
  op_set fired = 0;
  for (std::uint32_t id = 0; id < in.size; ++id)
    if (static_cast<std::uint32_t>(std::popcount(in.before[id] & completed)) >= in.need[id]) fired |= op_set{1} << id;
  return fired;
}

class explorer {
 public:
  explorer(const graph& in, rule fires) : in_(in), fires_(fires) {}

  void explore_round(round_no round) { explore(counters{}, 0, round); }
  const std::string& fault() const { return fault_; }
  std::uint64_t points() const { return points_; }

 private:
  /// Completes op `id`. Checks that the same successors fire as in the reference.
  void complete(counters& count, op_set& completed, std::uint32_t id, round_no round) {
    const op_set fired_before = fired_after(in_, completed);
    completed |= op_set{1} << id;
    const op_set expected = fired_after(in_, completed) & ~fired_before;
    op_set fired = 0;
    for (std::uint32_t to = 0; to < in_.size; ++to)
      if ((in_.before[to] >> id & 1) != 0 && fires_(count[to], in_.need[to], round)) fired |= op_set{1} << to;
    if (fired != expected && fault_.empty())
      fault_ = "in round " + std::to_string(round) + " the completion of op " + std::to_string(id) + " after set " +
               std::to_string(completed) + " fires set " + std::to_string(fired) + ", not " + std::to_string(expected);
  }

  void explore(const counters& count, op_set completed, round_no round) {
    ++points_;
    run_in_order(count, round + 1);
    run_in_order(count, round + 3);
    const op_set running = fired_after(in_, completed) & ~completed;
    for (std::uint32_t id = 0; id < in_.size; ++id) {
      if ((running >> id & 1) == 0) continue;
      counters next = count;
      op_set then = completed;
      complete(next, then, id, round);
      explore(next, then, round);
    }
  }

  /// Runs a whole round. Among the ops that have fired, the op with the lowest index always completes first.
  void run_in_order(counters count, round_no round) {
    op_set completed = 0;
    while (const op_set running = fired_after(in_, completed) & ~completed)
      complete(count, completed, static_cast<std::uint32_t>(std::countr_zero(running)), round);
  }

  const graph& in_;
  rule fires_;
  std::string fault_;
  std::uint64_t points_ = 0;
};

struct verdict {
  std::string fault;  ///< description of the first fault
  std::uint64_t graphs = 0, faulty = 0, points = 0;
};

verdict examine(rule fires, std::uint32_t size) {
  verdict all;
  graph start{.size = size};
  for_each_graph(start, 0, [&](const graph& in) {
    explorer one(in, fires);
    one.explore_round(1);
    ++all.graphs;
    all.points += one.points();
    if (one.fault().empty()) return;
    ++all.faulty;
    if (all.fault.empty()) all.fault = one.fault();
  });
  return all;
}

constexpr bool deliver(token_count& count, std::uint32_t need, round_no round) {
  return fires_at(count.add(round), need);
}

bool the_rule(token_count& count, std::uint32_t need, round_no round) { return deliver(count, need, round); }

TEST(firing, agrees_with_the_reference_on_every_dag_need_and_completion_order) {
  constexpr std::array<std::uint64_t, k_most_ops> graphs{1, 2, 10, 130, 4290};
  for (std::uint32_t size = 1; size <= k_most_ops; ++size) {
    const verdict all = examine(the_rule, size);
    EXPECT_EQ(all.graphs, graphs[size - 1]);
    EXPECT_EQ(all.faulty, 0u) << all.fault;
  }
}

// A point is the list of completed ops, in the order of completion. Without a dep, two ops have the points {}, {0},
// {0,1}, {1} and {1,0}. With a dep, they have the points {}, {0} and {0,1}.
TEST(firing, the_explorer_visits_each_point_of_each_order) { EXPECT_EQ(examine(the_rule, 2).points, 8u); }

// --- planted faults: rules that are wrong in one respect each ----------------------------------------------

TEST(firing, the_checker_catches_a_rule_that_fires_again_on_late_tokens) {
  const rule wrong = [](token_count& count, std::uint32_t need, round_no round) {
    if (count.stamp != round) count = {round, 0};
    return ++count.tokens >= need;
  };
  EXPECT_GT(examine(wrong, 3).faulty, 0u);
}

TEST(firing, the_checker_catches_a_rule_that_starts_counting_anew_after_firing) {
  const rule wrong = [](token_count& count, std::uint32_t need, round_no round) {
    if (count.stamp != round) count = {round, 0};
    if (++count.tokens != need) return false;
    count.tokens = 0;
    return true;
  };
  EXPECT_GT(examine(wrong, 3).faulty, 0u);
}

TEST(firing, the_checker_catches_a_rule_that_lets_tokens_cross_rounds) {
  const rule wrong = [](token_count& count, std::uint32_t need, round_no) { return ++count.tokens == need; };
  EXPECT_GT(examine(wrong, 2).faulty, 0u);
}

TEST(firing, the_checker_catches_a_rule_that_loses_the_token_that_opens_a_round) {
  const rule wrong = [](token_count& count, std::uint32_t need, round_no round) {
    if (count.stamp == round) return ++count.tokens == need;
    count = {round, 0};
    return false;
  };
  EXPECT_GT(examine(wrong, 2).faulty, 0u);
}

TEST(firing, the_checker_catches_a_rule_that_takes_any_token_for_enough) {
  const rule wrong = [](token_count& count, std::uint32_t, round_no round) { return deliver(count, 1, round); };
  EXPECT_GT(examine(wrong, 3).faulty, 0u);
}

// --- single examples ---------------------------------------------------------------------------------------

TEST(firing, a_quorum_fires_on_its_last_token_and_absorbs_the_late_ones) {
  token_count count;
  EXPECT_FALSE(deliver(count, 2, 1));
  EXPECT_TRUE(deliver(count, 2, 1));
  EXPECT_FALSE(deliver(count, 2, 1));
  EXPECT_FALSE(deliver(count, 2, 1));
}

TEST(firing, a_new_round_re_arms_a_counter_whatever_the_old_one_left_in_it) {
  for (std::uint32_t left = 0; left < 5; ++left) {
    token_count count;
    for (std::uint32_t i = 0; i < left; ++i) (void)deliver(count, 3, 7);
    EXPECT_FALSE(deliver(count, 3, 8));
    EXPECT_FALSE(deliver(count, 3, 8));
    EXPECT_TRUE(deliver(count, 3, 8));
  }
}

TEST(firing, an_op_that_needs_nothing_is_never_fired_by_a_token) {
  token_count count;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(deliver(count, 0, 1));
}

TEST(firing, a_register_satisfies_every_round_up_to_its_own_and_none_beyond) {
  EXPECT_FALSE(satisfies(0, 1));
  EXPECT_TRUE(satisfies(3, 1));
  EXPECT_TRUE(satisfies(3, 3));
  EXPECT_FALSE(satisfies(3, 4));
  EXPECT_TRUE(satisfies(k_last_round, k_last_round - 1));
}

static_assert([] {
  token_count count;
  return !deliver(count, 2, 1) && deliver(count, 2, 1);
}());

}  // namespace
}  // namespace lsched
