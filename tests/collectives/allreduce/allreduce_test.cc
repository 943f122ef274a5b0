#include "collectives/allreduce/allreduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "collectives/rooted/rooted.h"
#include "libsched/schedule/geometry.h"
#include "tests/support/generators.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

std::vector<schedule_ptr> allreduces(rank size, const shape& data, generator generate = allreduce_recursive_doubling) {
  return whole_world(size, [&](world place) { return generate(place, data, {}); });
}

struct named_allreduce {
  const char* name;
  generator generate;
};

/// The suite of tests that every allreduce algorithm must pass. Tests outside this suite check the pattern of recursive
/// doubling.
class any_allreduce : public ::testing::TestWithParam<named_allreduce> {
 protected:
  static std::vector<schedule_ptr> made(rank size, const shape& data) {
    return allreduces(size, data, GetParam().generate);
  }
  static result<schedule_ptr> generate(world place, const shape& data) { return GetParam().generate(place, data, {}); }
};

INSTANTIATE_TEST_SUITE_P(, any_allreduce,
                         ::testing::Values(named_allreduce{"recursive_doubling", allreduce_recursive_doubling},
                                           named_allreduce{"tree", allreduce_tree},
                                           named_allreduce{"flat", allreduce_flat}),
                         [](const auto& it) { return it.param.name; });

shape sums(std::uint64_t count, bool in_place = false) {
  return {.count = count, .type = dtype::f32, .what = kernel::sum, .in_place = in_place};
}

/// Runs `rounds` rounds. Returns the first error of the world or of a result, or an empty text.
std::string fault_of(const std::vector<schedule_ptr>& programs, circumstances around, std::size_t rounds) {
  symbolic_world all(programs, around);
  if (const std::string fault = all.run(rounds); !fault.empty()) return fault;
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::string fault = all.allreduce_fault(i, std::vector<bool>(programs.size(), true));
    if (!fault.empty()) return fault;
  }
  return {};
}

/// Runs rounds with several orders of events and several stragglers. Returns the first error, or an empty text.
std::string fault_in_any_order(const std::vector<schedule_ptr>& programs, bool in_place, std::uint64_t seeds) {
  const auto size = static_cast<rank>(programs.size());
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (const order how : {order::shuffled, order::late_sends})
      for (const rank late : {k_no_rank, static_cast<rank>(seed) % size}) {
        const circumstances around{.how = how, .seed = seed, .straggler = late, .in_place = in_place};
        if (const std::string fault = fault_of(programs, around, 3); !fault.empty()) return fault;
      }
  return {};
}

TEST_P(any_allreduce, every_contribution_is_in_once_in_rank_order_with_the_same_bits) {
  for (const rank size : full() ? world_sizes() : few_world_sizes())
    for (const std::uint64_t count : full() ? counts_for(size) : few_counts_for(size))
      for (const bool in_place : {false, true}) {
        const auto programs = made(size, sums(count, in_place));
        EXPECT_EQ(fault_in_any_order(programs, in_place, count == 1 ? 12 : 1), "")
            << "P=" << size << " count=" << count << " in_place=" << in_place;
      }
}

/// A schedule that was generated for in-place buffers also works out of place, except for the schedule of a single
/// rank, which does nothing.
TEST_P(any_allreduce, in_place_schedules_work_out_of_place_too) {
  for (const rank size : world_sizes())
    EXPECT_EQ(fault_in_any_order(made(size, sums(1, true)), size == 1, 1), "") << "P=" << size;
}

TEST_P(any_allreduce, nobody_is_more_than_one_round_ahead) {
  for (const rank size : {2, 3, 6, 8}) {
    const auto programs = made(size, sums(5));
    for (const schedule_ptr& program : programs) EXPECT_TRUE(program->is_synchronising());
    symbolic_world all(programs, {.seed = 3});
    EXPECT_EQ(all.run(40), "");
    EXPECT_EQ(all.furthest_ahead(), 1u);
  }
}

TEST_P(any_allreduce, of_one_rank_is_a_copy_and_in_place_nothing) {
  const auto copying = generate({.self = 0, .size = 1}, sums(4));
  const auto resting = generate({.self = 0, .size = 1}, sums(4, true));
  ASSERT_TRUE(copying && resting);
  EXPECT_EQ((*copying)->ops()[0].what, kernel::copy);
  ASSERT_EQ((*resting)->ops().size(), 1u);
  EXPECT_EQ((*resting)->ops()[0].kind, op_kind::nop);
}

TEST_P(any_allreduce, takes_every_reduction_that_its_type_supports) {
  for (const dtype type : k_all_dtypes)
    for (const kernel what : k_all_reductions) {
      const auto leaf = generate({.self = 1, .size = 3}, {.count = 2, .type = type, .what = what});
      const auto core = generate({.self = 2, .size = 3}, {.count = 2, .type = type, .what = what});
      EXPECT_EQ(leaf.has_value(), supports(what, type)) << name_of(what) << " " << name_of(type);
      EXPECT_EQ(core.has_value(), supports(what, type)) << name_of(what) << " " << name_of(type);
    }
}

TEST_P(any_allreduce, is_a_pure_function) {
  for (const rank self : {0, 1, 5}) {
    const world place{.self = self, .size = 6};
    EXPECT_EQ(**generate(place, sums(9)), **generate(place, sums(9)));
  }
}

TEST(allreduce, largest_counts_and_worlds_compile) {
  EXPECT_TRUE(allreduce_recursive_doubling({.self = 6, .size = 7}, sums(k_max_count)));
  const auto huge = allreduce_recursive_doubling({.self = 2147483646, .size = 2147483647}, sums(1));
  ASSERT_TRUE(huge);
  EXPECT_EQ((*huge)->ops().size(), 3u * 30 + 1);
}

TEST_P(any_allreduce, bad_requests_are_refused_with_the_reason) {
  const auto refusal = [](world place, const shape& data) {
    const auto it = generate(place, data);
    return it ? std::string("accepted") : std::string(name_of(it.error().code)) + " " + it.error().text;
  };
  EXPECT_NE(refusal({.self = 4, .size = 4}, sums(1)).find("rank 4 is outside its world"), std::string::npos);
  EXPECT_NE(refusal({.self = 0, .size = 0}, sums(1)).find("at least one rank"), std::string::npos);
  EXPECT_NE(refusal({}, {.count = 1, .what = kernel::copy}).find("not a reduction"), std::string::npos);
  EXPECT_NE(refusal({}, {.count = 1, .what = kernel::bxor}).find("not defined for f32"), std::string::npos);
  EXPECT_NE(refusal({}, sums(k_max_count + 1)).find("exceeds the largest"), std::string::npos);
}

// --- as a fragment -----------------------------------------------------------------------------------------

/// Returns a schedule in which the application's call starts a sum, and the end of the sum starts a barrier.
result<schedule_ptr> composed(world place) {
  builder to(place);
  const shape data = sums(3);
  const buffer_id input = to.input(data.type, data.count);
  const buffer_id output = to.output(data.type, data.count);
  const fragment sum = add_allreduce(to, data, input, output, to.call());
  to.set_exit(add_barrier(to, sum.exit).exit);
  to.declare_synchronising();
  return to.compile();
}

TEST(allreduce, as_a_fragment_starts_at_its_entry_and_ends_at_its_exit) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 8, 12}) {
    const auto programs = whole_world(size, composed);
    EXPECT_EQ(fault_in_any_order(programs, false, 3), "") << "P=" << size;
    for (const schedule_ptr& program : programs)
      for (const op_id root : program->roots())
        EXPECT_TRUE(is_signal(program->ops()[root].kind)) << "P=" << size;  // roots: the call, receives of the barrier
  }
}

// --- sabotage ----------------------------------------------------------------------------------------------

TEST_P(any_allreduce, sabotage_every_dep_that_is_not_implied_is_missed) {
  std::size_t dropped = 0;
  for (const rank size : {2, 3, 5, 7, 8})
    for (const bool in_place : {false, true}) {
      const auto good = made(size, sums(1, in_place));
      for (std::size_t who = 0; who < good.size(); ++who)
        for (op_id before = 0; before < good[who]->ops().size(); ++before)
          for (const op_id after : good[who]->successors(before)) {
            if (is_implied(*good[who], before, after)) continue;
            auto bad = good;
            bad[who] = without_dep(*good[who], before, after);
            ++dropped;
            EXPECT_NE(fault_in_any_order(bad, in_place, 40), "")
                << "P=" << size << " in_place=" << in_place << " rank " << who << ": " << before << " -> " << after;
          }
    }
  EXPECT_GT(dropped, 200u);
}

/// A schedule that was generated for out-of-place buffers must fail if input and output share memory. This shows that
/// `in_place` has an effect.
TEST_P(any_allreduce, sabotage_an_ordinary_schedule_must_not_run_in_place) {
  for (rank size = 2; size <= 33; ++size)
    EXPECT_NE(fault_of(made(size, sums(1)), {.how = order::late_sends, .in_place = true}, 1), "") << "P=" << size;
}

/// The changes are made to rank 4 of 6. This rank is not a proxy and has the index 2 among the four ranks of the core.
/// It exchanges data with rank 5, then with rank 0.
TEST(allreduce_sabotage, a_changed_op_is_noticed) {
  const auto good = allreduces(6, sums(1));
  const auto with = [&](op_kind kind, const std::function<void(op&)>& change) {
    auto bad = good;
    const auto ops = good[4]->ops();
    const auto first = std::ranges::find(ops, kind, &op::kind);
    bad[4] = with_op(*good[4], static_cast<op_id>(first - ops.begin()), change);
    return fault_in_any_order(bad, false, 1);
  };
  const auto says = [](const std::string& fault, std::string_view words) {
    return fault.find(words) != std::string::npos ? ::testing::AssertionSuccess()
                                                  : ::testing::AssertionFailure() << fault;
  };
  EXPECT_TRUE(says(with(op_kind::send, [](op& it) { it.peer = 3; }), "finds no receiver at rank 3"));
  EXPECT_TRUE(says(with(op_kind::send, [](op& it) { it.tag = 17; }), "finds no receiver at rank 5"));
  EXPECT_TRUE(says(with(op_kind::send,
                        [](op& it) {
                          it.peer = 0;
                          it.tag = 3;
                        }),
                   "sends a message that has already arrived"));
  EXPECT_TRUE(says(with(op_kind::recv, [](op& it) { it.peer = 3; }), "finds no receiver at rank 4"));
  EXPECT_TRUE(says(with(op_kind::compute, [](op& it) { std::swap(it.a, it.b); }), "not in rank order"));
  EXPECT_TRUE(says(with(op_kind::compute, [](op& it) { it.b = it.a; }), "rank 4 is in 2 times"));
  EXPECT_TRUE(says(with(op_kind::compute, [](op& it) { it.what = kernel::max; }), "another expression"));
  EXPECT_TRUE(says(with(op_kind::compute, [](op& it) { ++it.need; }), "waits forever"));
  EXPECT_TRUE(says(with(op_kind::send, [](op& it) { it = {.need = it.need}; }), "waits forever"));
}

TEST_P(any_allreduce, sabotage_a_reduction_that_never_fires_is_noticed) {
  auto bad = made(2, sums(1));
  for (schedule_ptr& program : bad)
    for (op_id id = 0; id < program->ops().size(); ++id)
      if (program->ops()[id].kind == op_kind::compute) program = with_op(*program, id, [](op& it) { ++it.need; });
  const std::string fault = fault_of(bad, {}, 1);
  EXPECT_NE(fault.find("(compute) never fires"), std::string::npos) << fault;
}

/// With three ranks, rank 0 is the proxy of the extra rank 1. Here the proxy ignores the extra, as if the number of
/// ranks were a power of two.
TEST(allreduce_sabotage, a_proxy_that_forgets_its_extra_is_noticed) {
  const auto good = allreduces(3, sums(1));
  auto bad = good;
  for (op_id id = 0; id < good[0]->ops().size(); ++id)
    if (good[0]->ops()[id].kind == op_kind::compute) {  // this op adds the contribution of the extra
      bad[0] = with_op(*good[0], id, [](op& it) {
        it.what = kernel::copy;
        it.b = {};
      });
      break;
    }
  EXPECT_NE(fault_of(bad, {}, 1).find("rank 1 is in 0 times"), std::string::npos) << fault_of(bad, {}, 1);
}

TEST_P(any_allreduce, sabotage_a_rank_with_another_count_is_noticed) {
  auto bad = made(5, sums(4));
  bad[3] = made(5, sums(5))[3];
  EXPECT_NE(fault_of(bad, {}, 1).find("elements"), std::string::npos);
}

}  // namespace
}  // namespace lsched::testing
