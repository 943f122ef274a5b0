
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string_view>

#include "collectives/allreduce/allreduce.h"
#include "collectives/rooted/rooted.h"
#include "tests/support/generators.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

constexpr activation k_solo{.policy = activation_policy::solo};

shape sums(std::uint64_t count) { return {.count = count, .what = kernel::sum}; }

using partial = std::function<result<schedule_ptr>(world, const shape&, const activation&)>;

std::vector<schedule_ptr> partials(rank size, std::uint64_t count, const activation& starts = k_solo,
                                   const partial& generate = partial_allreduce) {
  return whole_world(size, [&](world place) { return generate(place, sums(count), starts); });
}

/// Returns the algorithms whose messages are whole vectors. A symbolic_world cannot run other algorithms.
std::vector<partial> whole_partials() {
  const std::set<std::string_view> whole{"recursive_doubling", "tree", "flat", "recursive_multiplying"};
  std::vector<partial> some;
  for (const algorithm& it : algorithms())
    if (it.of == &k_partial_allreduce && whole.contains(it.name))
      some.emplace_back(std::bind_front(&algorithm::generate, &it));
  EXPECT_EQ(some.size(), 4u);
  return some;
}

/// Returns plans of rounds. Each plan has a random set of callers (at least one rank, or all ranks), and a random set
/// of ranks with a pending contribution. The second set is empty in one plan, and has all ranks in another plan.
std::vector<round_plan> random_plans(std::mt19937_64& random, std::size_t size, bool everybody_calls) {
  std::vector<round_plan> plans;
  for (const unsigned percent : {0u, 20u, 50u, 100u}) {
    round_plan plan{.calls = std::vector<bool>(size, everybody_calls), .pending = std::vector<bool>(size)};
    for (std::size_t r = 0; r < size; ++r) {
      plan.pending[r] = random() % 100 < percent;
      if (random() % 4 == 0) plan.calls[r] = true;
    }
    plan.calls[random() % size] = true;
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::string fault_of(const std::vector<schedule_ptr>& programs, const std::vector<round_plan>& plans,
                     circumstances around) {
  symbolic_world all(programs, around);
  if (const std::string fault = all.run(plans); !fault.empty()) return fault;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (const std::string fault = all.allreduce_fault(i, plans[i].pending); !fault.empty()) return fault;
  return all.furthest_ahead() > 1 ? "a rank ran ahead" : "";
}

std::string fault_in_any_order(const std::vector<schedule_ptr>& programs, bool everybody_calls, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (const order how : {order::shuffled, order::late_sends}) {
      std::mt19937_64 random(seed);
      const auto plans = random_plans(random, programs.size(), everybody_calls);
      const auto late = static_cast<rank>(random() % programs.size());
      const std::string fault = fault_of(programs, plans, {.how = how, .seed = seed, .straggler = late});
      if (!fault.empty()) return "seed " + std::to_string(seed) + ": " + fault;
    }
  return {};
}

TEST(partial, exactly_what_was_pending_is_in_and_null_where_nothing_was) {
  for (const partial& generate : whole_partials())
    for (const rank size : full() ? world_sizes() : few_world_sizes())
      for (const std::uint64_t count : full() ? counts_for(size) : few_counts_for(size))
        for (const auto policy : {activation_policy::solo, activation_policy::majority, activation_policy::full}) {
          const auto programs = partials(size, count, {.policy = policy}, generate);
          EXPECT_EQ(fault_in_any_order(programs, policy == activation_policy::full, count == 1 ? 8 : 1), "")
              << programs[0]->name() << " P=" << size << " count=" << count << " " << name_of(policy);
        }
}

TEST(partial, every_pending_set_works) {
  for (const rank size : {2, 3, 5, 6, 7}) {
    std::vector<round_plan> plans;
    for (unsigned set = 0; set < 1u << size; ++set) {
      plans.push_back({.calls = std::vector<bool>(static_cast<std::size_t>(size), false), .pending = {}});
      for (rank r = 0; r < size; ++r) plans.back().pending.push_back((set >> r & 1u) != 0);
      plans.back().calls[set % static_cast<unsigned>(size)] = true;
    }
    for (const partial& generate : whole_partials())
      EXPECT_EQ(fault_of(partials(size, 2, k_solo, generate), plans, {.seed = 4}), "") << "P=" << size;
  }
}

/// A rank that has offered nothing has a null contribution, which moves no bytes. If one rank contributes, the round
/// moves as many bytes as a broadcast. If no rank contributes, the round moves no bytes.
TEST(partial, null_moves_no_bytes) {
  for (const rank size : {2, 7, 8, 32}) {
    const auto programs = partials(size, 10);
    const auto ranks = static_cast<std::uint64_t>(size);
    for (rank active = 0; active < size; ++active) {
      const std::vector<bool> nobody(ranks, false);
      std::vector<bool> one = nobody;
      one[static_cast<std::size_t>(active)] = true;
      symbolic_world all(programs, {.seed = 9});
      ASSERT_EQ(all.run({{.calls = one, .pending = one}, {.calls = one, .pending = nobody}}), "");
      const bool is_extra = size == 7 && active % 2 != 0;  // the proxy of the extra sends the sum back to the extra
      EXPECT_EQ(all.took(0).bytes, (ranks - 1 + (is_extra ? 1 : 0)) * 10 * size_of(dtype::f32)) << active;
      EXPECT_EQ(all.took(1).bytes, 0u);
    }
  }
}

TEST(partial, the_round_does_not_wait_for_activation_ops_that_never_fire) {
  for (const schedule_ptr& program : partials(6, 1)) {
    std::size_t leaves_beside_the_exit = 0;
    for (op_id id = 0; id < program->ops().size(); ++id)
      leaves_beside_the_exit += program->successors(id).empty() && id != program->exit();
    EXPECT_GT(leaves_beside_the_exit, 0u);
    EXPECT_TRUE(program->successors(program->exit()).empty());
  }
}

TEST(partial, carries_its_activation_and_its_promise) {
  const activation starts{.policy = activation_policy::majority, .seed = 77};
  const auto made = partial_allreduce({.self = 2, .size = 3}, sums(1), starts);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->starts(), starts);
  EXPECT_TRUE((*made)->is_synchronising());
  EXPECT_EQ(count_of(**made, buffer_role::input), 1u);
  EXPECT_EQ(count_of(**made, buffer_role::output), 1u);
}

TEST(partial, bad_requests_are_refused_with_the_reason) {
  const world place{.self = 0, .size = 2};
  const auto without_policy = partial_allreduce(place, sums(1), {});
  ASSERT_FALSE(without_policy);
  EXPECT_EQ(without_policy.error().code, status::argument);
  EXPECT_NE(without_policy.error().text.find("solo"), std::string::npos);
  const auto in_place = partial_allreduce(place, {.count = 1, .what = kernel::sum, .in_place = true}, k_solo);
  ASSERT_FALSE(in_place);
  EXPECT_EQ(in_place.error().code, status::constraint);
  EXPECT_NE(in_place.error().text.find("in place"), std::string::npos);
}

// --- other collectives behind the same activation ----------------------------------------------------------

fragment allreduce_and_barrier(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const fragment sum = add_allreduce(to, data, input, output, entry);
  return {.entry = entry, .exit = add_barrier(to, sum.exit).exit};
}

TEST(partial, composes_with_any_synchronising_algorithm) {
  const algorithm dense{.of = &k_allreduce, .name = "sum_and_barrier", .add = allreduce_and_barrier};
  const algorithm woken = *partial_of(dense);
  for (const rank size : world_sizes()) {
    const auto programs = whole_world(size, [&](world place) { return woken.generate(place, sums(3), k_solo); });
    EXPECT_EQ(fault_in_any_order(programs, false, 2), "") << "P=" << size;
  }
}

TEST(partial, an_algorithm_that_needs_everybody_or_does_not_synchronise_has_no_partial_form) {
  EXPECT_EQ(find("partial_allreduce", "circulant"), nullptr);
  EXPECT_FALSE(partial_of(*find("allreduce", "circulant")));
  EXPECT_FALSE(partial_of(*find("bcast", "flat")));
  EXPECT_FALSE(partial_of(*find("partial_allreduce", "tree")));
}

TEST(partial, buckets_add_up_to_the_vector) {
  const auto error_of = [](std::uint64_t count, std::vector<std::uint64_t> buckets) {
    shape data = sums(count);
    data.buckets = std::move(buckets);
    const auto made = partial_allreduce({0, 3}, data, k_solo);
    return made ? "" : made.error().text;
  };
  EXPECT_EQ(error_of(5, {2, 0, 3}), "");
  EXPECT_EQ(error_of(0, {0}), "");
  EXPECT_NE(error_of(5, {2, 4}).find("more elements than the vector, which has 5"), std::string::npos);
  EXPECT_NE(error_of(5, {2}).find("ends 3 elements before"), std::string::npos);
  EXPECT_NE(error_of(1, {~0ull, 2}).find("more elements"), std::string::npos);
}

// --- sabotage ----------------------------------------------------------------------------------------------

TEST(partial_sabotage, a_collective_that_does_not_wait_for_the_gate_is_noticed) {
  std::size_t dropped = 0;
  for (const rank size : {2, 3, 5, 6}) {
    const auto good = partials(size, 1);
    for (std::size_t who = 0; who < good.size(); ++who) {
      const auto ops = good[who]->ops();
      const auto is_capture = [](const op& it) { return it.kind == op_kind::capture; };
      const auto gate = static_cast<op_id>(std::ranges::find_if(ops, is_capture) - ops.begin());
      for (const op_id after : good[who]->successors(gate)) {
        if (ops[after].kind == op_kind::recv) continue;  // receives may start before the gate opens
        if (is_implied(*good[who], gate, after)) continue;
        ++dropped;
        auto bad = good;
        bad[who] = without_dep(*good[who], gate, after);
        EXPECT_NE(fault_in_any_order(bad, false, 20), "") << "P=" << size << " rank " << who << " op " << after;
      }
    }
  }
  EXPECT_EQ(dropped, 2u + 2 + 4 + 4);  // the first send of each rank that is not a proxy
}

TEST(partial_sabotage, a_gate_that_wants_every_wake_is_noticed) {
  const auto good = partials(4, 1);
  auto bad = good;
  const auto ops = good[1]->ops();
  for (op_id id = 0; id < ops.size(); ++id)
    if (ops[id].kind == op_kind::capture) bad[1] = with_op(*good[1], id, [](op& it) { it.need = 3; });
  EXPECT_NE(fault_in_any_order(bad, false, 1), "");
}

}  // namespace
}  // namespace lsched::testing
