#include "collectives/activation/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "collectives/allreduce/allreduce.h"
#include "libsched/schedule/geometry.h"
#include "tests/support/generators.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

// Tests of the activation: the signals by which the calls of some ranks wake all ranks for a round. In these tests an
// allreduce of one element follows the activation. If a rank is not woken, the rank does not contribute, and the
// allreduce ends on no rank.

namespace lsched::testing {
namespace {

std::vector<schedule_ptr> activated(rank size, activation_policy policy = activation_policy::solo) {
  const shape data{.count = 1, .what = kernel::sum};
  return whole_world(size, [&](world place) { return partial_allreduce(place, data, {.policy = policy}); });
}

std::vector<bool> only(rank size, rank who) {
  std::vector<bool> set(static_cast<std::size_t>(size), false);
  set[static_cast<std::size_t>(who)] = true;
  return set;
}

std::uint64_t most_signals(rank size) {
  const fold folded(size);
  return static_cast<std::uint64_t>(folded.core()) * static_cast<std::uint64_t>(folded.levels()) +
         2 * static_cast<std::uint64_t>(folded.rem());
}

/// Runs one round for each element of `callers`. In each round the ranks of the element call, and every rank
/// contributes. Returns the first fault: an error of the world, a missing contribution, a wrong number of signals, or a
/// rank that runs ahead. If rounds run one by one, a round with a single caller must cost exactly P-1 signals.
std::string fault_of(const std::vector<schedule_ptr>& programs, const std::vector<std::vector<bool>>& callers,
                     circumstances around) {
  const std::vector<bool> everybody(programs.size(), true);
  std::vector<round_plan> plans;
  for (const std::vector<bool>& calls : callers) plans.push_back({.calls = calls, .pending = everybody});
  symbolic_world all(programs, around);
  if (const std::string fault = all.run(plans); !fault.empty()) return fault;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (const std::string fault = all.allreduce_fault(i, everybody); !fault.empty()) return fault;
    const std::uint64_t signals = all.took(i).signals;
    const bool is_single = std::count(callers[i].begin(), callers[i].end(), true) == 1;
    const std::uint64_t ranks = programs.size();
    if (signals < ranks - 1 ||
        signals > (is_single && around.one_by_one ? ranks - 1 : most_signals(static_cast<rank>(ranks))))
      return "round " + std::to_string(i + 1) + " took " + std::to_string(signals) + " signals";
  }
  return all.furthest_ahead() > 1 ? "a rank ran ahead" : "";
}

std::string fault_in_any_order(const std::vector<schedule_ptr>& programs, const std::vector<std::vector<bool>>& callers,
                               std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (const order how : {order::shuffled, order::late_sends}) {
      const auto late = static_cast<rank>(seed * 5 % programs.size());
      for (const rank straggler : {k_no_rank, late}) {
        const circumstances around{.how = how, .seed = seed, .straggler = straggler};
        if (const std::string fault = fault_of(programs, callers, around); !fault.empty())
          return "seed " + std::to_string(seed) + ": " + fault;
      }
    }
  return {};
}

TEST(activation, one_caller_wakes_everybody_with_one_signal_each) {
  for (const rank size : world_sizes()) {
    const auto programs = activated(size);
    std::vector<std::vector<bool>> callers;
    for (rank who = 0; who < size; ++who) callers.push_back(only(size, who));
    EXPECT_EQ(fault_of(programs, callers, {.one_by_one = true}), "") << "P=" << size;
    EXPECT_EQ(fault_in_any_order(programs, callers, 1), "") << "P=" << size;
  }
}

TEST(activation, every_set_of_callers_wakes_everybody) {
  for (rank size = 1; size <= (sampled() ? 6 : 8); ++size) {
    std::vector<std::vector<bool>> callers;
    for (unsigned set = 1; set < 1u << size; ++set) {
      callers.emplace_back();
      for (rank r = 0; r < size; ++r) callers.back().push_back((set >> r & 1u) != 0);
    }
    EXPECT_EQ(fault_in_any_order(activated(size), callers, 3), "") << "P=" << size;
  }
}

TEST(activation, random_sets_of_callers_wake_everybody) {
  std::mt19937_64 random(20);
  for (const rank size : world_sizes()) {
    std::vector<std::vector<bool>> callers;
    for (const unsigned percent : {3u, 10u, 30u, 50u, 90u, 100u}) {
      callers.push_back(only(size, static_cast<rank>(random() % static_cast<std::uint64_t>(size))));
      for (std::size_t r = 0; r < callers.back().size(); ++r)
        if (random() % 100 < percent) callers.back()[r] = true;
    }
    EXPECT_EQ(fault_in_any_order(activated(size), callers, 2), "") << "P=" << size;
  }
}

TEST(activation, nobody_is_further_away_than_log_p_plus_two) {
  std::uint64_t spared = 0;  // number of world sizes at which all callers stay below the bound
  for (const rank size : world_sizes()) {
    const auto programs = activated(size);
    const auto bound = static_cast<std::uint64_t>(floor_log2(size) + 2);
    std::uint64_t worst = 0;
    for (rank who = 0; who < size; ++who) {
      symbolic_world all(programs, {.how = order::by_hops});
      const std::vector<bool> callers = only(size, who);
      ASSERT_EQ(all.run({{.calls = callers, .pending = callers}}), "");
      worst = std::max(worst, all.took(0).wake_hops);
    }
    EXPECT_LE(worst, bound) << "P=" << size;
    spared += worst < bound;
  }
  EXPECT_LT(spared, world_sizes().size());  // at some world size, some caller reaches the bound
}

TEST(activation, without_a_caller_nothing_happens) {
  const std::vector<bool> nobody(5, false);
  symbolic_world all(activated(5), {});
  EXPECT_NE(all.run({{.calls = nobody, .pending = nobody}}), "");
  EXPECT_EQ(all.took(0).signals + all.took(0).messages, 0u);
}

TEST(activation, solo_and_majority_have_the_same_ops) {
  for (rank size = 1; size <= 9; ++size) {
    const auto solo = activated(size, activation_policy::solo);
    const auto majority = activated(size, activation_policy::majority);
    for (std::size_t r = 0; r < solo.size(); ++r) {
      EXPECT_TRUE(std::ranges::equal(solo[r]->ops(), majority[r]->ops()));
      for (op_id id = 0; id < solo[r]->ops().size(); ++id)
        EXPECT_TRUE(std::ranges::equal(solo[r]->successors(id), majority[r]->successors(id)));
    }
  }
}

TEST(activation, full_waits_for_everybody_and_signals_nobody) {
  for (const rank size : {1, 2, 3, 6, 7, 8}) {
    const auto programs = activated(size, activation_policy::full);
    for (const schedule_ptr& program : programs)
      EXPECT_EQ(std::ranges::count_if(program->ops(), [](const op& it) { return is_signal(it.kind); }), 1);
    for (rank late = 0; late < size; ++late) {
      symbolic_world all(programs, {.straggler = late});
      EXPECT_EQ(all.run(2), "") << "P=" << size << " late=" << late;
    }
    if (size == 1) continue;
    std::vector<bool> all_but_one(static_cast<std::size_t>(size), true);
    all_but_one.back() = false;
    symbolic_world all(programs, {});
    EXPECT_NE(all.run({{.calls = all_but_one, .pending = all_but_one}}), "");
  }
}

TEST(activation, signals_leave_before_payload) {
  for (const rank size : {2, 3, 6, 7, 8, 13})
    for (const schedule_ptr& program : activated(size)) {
      const auto ops = program->ops();
      const auto is_signal_send = [](const op& it) { return it.kind == op_kind::signal_send; };
      const auto is_work = [](const op& it) { return is_payload(it.kind) || it.kind == op_kind::compute; };
      const auto first_work = std::ranges::find_if(ops, is_work);
      ASSERT_NE(first_work, ops.end());
      EXPECT_TRUE(std::ranges::any_of(ops.begin(), first_work, is_signal_send));
      EXPECT_FALSE(std::ranges::any_of(first_work, ops.end(), is_signal_send));
    }
}

// --- several arrivals, and rounds that wait for all ranks -----------------------------------------------------------

std::vector<schedule_ptr> started_by(rank size, std::string_view words) {
  const activation starts = *read_activation(words);
  const shape data{.count = 1, .what = kernel::sum};
  return whole_world(size, [&](world place) { return partial_allreduce(place, data, starts); });
}

std::vector<bool> some(rank size, rank first, rank number) {
  std::vector<bool> set(static_cast<std::size_t>(size), false);
  for (rank i = 0; i < number; ++i) set[static_cast<std::size_t>((first + i) % size)] = true;
  return set;
}

TEST(activation, a_quorum_of_any_ranks_wakes_everybody_and_one_less_nobody) {
  for (const rank size : {2, 3, 5, 6, 7, 8, 13})
    for (rank number = 2; number <= size; ++number) {
      const auto programs = started_by(size, "quorum(" + std::to_string(number) + ")");
      const std::vector<bool> everybody(static_cast<std::size_t>(size), true);
      for (rank first = 0; first < size; ++first) {
        symbolic_world enough(programs, {.seed = static_cast<std::uint64_t>(first) + 1});
        EXPECT_EQ(enough.run({{.calls = some(size, first, number), .pending = everybody}}), "");
        EXPECT_EQ(enough.allreduce_fault(0, everybody), "");
        const std::uint64_t arrivals = static_cast<std::uint64_t>(number) -
                                       (some(size, first, number)[0] ? 1u : 0u);  // the coordinator sends no arrival
        EXPECT_EQ(enough.took(0).signals, static_cast<std::uint64_t>(size) - 1 + arrivals);
        symbolic_world too_few(programs, {.seed = static_cast<std::uint64_t>(first) + 1});
        EXPECT_NE(too_few.run({{.calls = some(size, first, number - 1), .pending = everybody}}), "");
        EXPECT_EQ(too_few.took(0).messages, 0u) << "P=" << size << " K=" << number << " first=" << first;
      }
    }
}

TEST(activation, quorums_work_in_any_order) {
  for (const rank size : {2, 3, 5, 6, 7, 8, 33})
    for (const rank number : {rank{2}, (size + 1) / 2, size}) {
      if (number < 2) continue;
      const auto programs = started_by(size, "quorum(" + std::to_string(number) + ")");
      std::vector<round_plan> plans;
      for (rank first = 0; first < std::min(size, rank{9}); ++first)
        plans.push_back({.calls = some(size, first, number), .pending = some(size, first + 1, 1 + first % size)});
      for (std::uint64_t seed = 1; seed <= 20; ++seed)
        for (const order how : {order::shuffled, order::late_sends}) {
          symbolic_world all(programs, {.how = how, .seed = seed, .straggler = static_cast<rank>(seed) % size});
          EXPECT_EQ(all.run(plans), "") << "P=" << size << " K=" << number << " seed " << seed;
          for (std::size_t i = 0; i < plans.size(); ++i) EXPECT_EQ(all.allreduce_fault(i, plans[i].pending), "");
          EXPECT_LE(all.furthest_ahead(), 1u);
        }
    }
}

std::string with_grace(rank number) { return "quorum(" + std::to_string(number) + ")+grace(100)"; }

/// Without the end of the grace, a round starts if and only if all ranks that have not left have called.
TEST(activation, a_quorum_waits_for_the_grace_or_for_all_ranks) {
  for (const rank size : {3, 5, 6, 7, 2, 4, 8})
    for (rank number = 1; number < size; ++number) {
      const auto programs = started_by(size, with_grace(number));
      const std::vector<bool> everybody(static_cast<std::size_t>(size), true);
      for (rank first = 0; first < size; ++first) {
        const circumstances around{.seed = static_cast<std::uint64_t>(first) + 1};
        const auto signals_of = [&](const round_plan& plan, bool starts) {
          symbolic_world all(programs, around);
          EXPECT_EQ(all.run({plan}).empty(), starts) << "P=" << size << " K=" << number << " first=" << first;
          EXPECT_EQ(all.took(0).messages != 0, starts) << "P=" << size << " K=" << number << " first=" << first;
          return all.took(0).signals;
        };
        const std::vector<bool> enough = some(size, first, number);
        const std::uint64_t arrivals = static_cast<std::uint64_t>(number) - (enough[0] ? 1u : 0u);
        const std::uint64_t others = static_cast<std::uint64_t>(size) - 1;
        EXPECT_EQ(signals_of({.calls = enough, .pending = everybody, .passes_grace = true}, true), others + arrivals);
        EXPECT_EQ(signals_of({.calls = enough, .pending = everybody}, false), arrivals);
        signals_of({.calls = some(size, first, number - 1), .pending = everybody, .passes_grace = true}, false);
        signals_of({.calls = some(size, first, size - 1), .pending = everybody}, false);
        EXPECT_EQ(signals_of({.calls = everybody, .pending = everybody}, true), 2 * others);
        for (rank left = 1; left < size; ++left) {
          round_plan plan{.calls = some(size, first, size - left), .pending = everybody};
          for (rank i = size - left; i < size; ++i) plan.left.push_back((first + i) % size);
          signals_of(plan, true);
          plan.calls[static_cast<std::size_t>(first)] = false;
          signals_of(plan, false);
          plan.passes_grace = true;
          signals_of(plan, size - left - 1 >= number);
        }
      }
    }
}

TEST(activation, graces_work_in_any_order) {
  for (const rank size : {3, 5, 6, 7, 2, 33})
    for (const rank number : {rank{1}, rank{2}, (size + 1) / 2}) {
      if (number >= size) continue;
      const auto programs = started_by(size, with_grace(number) + "+every(4)");
      const std::vector<bool> everybody(static_cast<std::size_t>(size), true);
      std::vector<round_plan> plans;
      for (rank i = 0; i < 9; ++i) {
        const bool is_full = i % 4 == 3, passes = i % 3 != 0;
        plans.push_back({.calls = is_full || !passes ? everybody : some(size, i, number),
                         .pending = some(size, i + 1, 1 + i % size),
                         .is_full = is_full,
                         .passes_grace = passes});
      }
      for (std::uint64_t seed = 1; seed <= 20; ++seed)
        for (const order how : {order::shuffled, order::late_sends}) {
          symbolic_world all(programs, {.how = how, .seed = seed, .straggler = static_cast<rank>(seed) % size});
          EXPECT_EQ(all.run(plans), "") << "P=" << size << " K=" << number << " seed " << seed;
          for (std::size_t i = 0; i < plans.size(); ++i) EXPECT_EQ(all.allreduce_fault(i, plans[i].pending), "");
          EXPECT_LE(all.furthest_ahead(), 1u);
        }
    }
}

TEST(activation, a_quorum_of_all_ranks_has_no_grace) {
  for (const rank size : {3, 5, 6, 7, 1, 2}) {
    const auto with = started_by(size, with_grace(size));
    const auto without = started_by(size, "quorum(" + std::to_string(size) + ")");
    for (std::size_t r = 0; r < with.size(); ++r) EXPECT_TRUE(std::ranges::equal(with[r]->ops(), without[r]->ops()));
  }
}

/// A rank that runs ahead sends signals for a later round. Such a signal must not start a round that has to wait for
/// all ranks.
TEST(activation, every_third_round_waits_for_everybody) {
  for (const char* words : {"solo+every(3)", "majority+every(3)", "quorum(2)+every(3)", "all_of(2)+every(3)"})
    for (const rank size : {2, 3, 5, 6, 7, 8}) {
      const auto programs = started_by(size, words);
      const std::vector<bool> everybody(static_cast<std::size_t>(size), true);
      std::vector<round_plan> plans;
      for (rank i = 0; i < 9; ++i) {
        const bool is_full = i % 3 == 2;
        plans.push_back({.calls = is_full ? everybody : some(size, i, 2), .pending = everybody, .is_full = is_full});
      }
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        symbolic_world all(programs, {.seed = seed, .straggler = static_cast<rank>(seed) % size});
        EXPECT_EQ(all.run(plans), "") << words << " P=" << size << " seed " << seed;
        symbolic_world in_step(programs, {.seed = seed, .one_by_one = true});
        EXPECT_EQ(in_step.run(plans), "");
        for (std::size_t i = 2; i < plans.size(); i += 3) EXPECT_EQ(in_step.took(i).signals, 0u);
      }
      plans[2].calls.back() = false;
      symbolic_world incomplete(programs, {.seed = 5});
      EXPECT_NE(incomplete.run(plans), "") << words << " P=" << size;
    }
}

// --- sabotage ----------------------------------------------------------------------------------------------

std::string fault_with_single_callers(const std::vector<schedule_ptr>& programs) {
  const auto size = static_cast<rank>(programs.size());
  for (rank who = 0; who < size; ++who) {
    const std::string fault = fault_of(programs, {only(size, who)}, {.one_by_one = true});
    if (!fault.empty()) return fault;
  }
  return {};
}

TEST(activation_sabotage, every_dep_and_every_signal_is_missed) {
  std::size_t dropped = 0;
  for (const rank size : {2, 3, 5, 6, 7, 8, 11}) {
    const auto good = activated(size);
    ASSERT_EQ(fault_with_single_callers(good), "");
    for (std::size_t who = 0; who < good.size(); ++who)
      for (op_id id = 0; id < good[who]->ops().size(); ++id) {
        const op_kind kind = good[who]->ops()[id].kind;
        if (kind == op_kind::signal_recv)
          for (const op_id after : good[who]->successors(id)) {
            auto bad = good;
            bad[who] = without_dep(*good[who], id, after);
            ++dropped;
            EXPECT_NE(fault_with_single_callers(bad), "") << size << ", rank " << who << ": " << id << " -> " << after;
          }
        if (kind == op_kind::signal_send) {
          auto bad = good;
          bad[who] = with_op(*good[who], id, [](op& it) { it = {.need = it.need}; });
          ++dropped;
          EXPECT_NE(fault_with_single_callers(bad), "") << size << ", rank " << who << ": " << id;
        }
      }
  }
  EXPECT_GT(dropped, 300u);
}

/// An extra (a rank beyond the power of two) wakes its proxy. If the proxy then signals this extra, the signal is
/// superfluous.
TEST(activation_sabotage, a_superfluous_signal_is_noticed) {
  auto bad = activated(3);
  builder to({.self = 0, .size = 3});
  const buffer_id input = to.input(dtype::f32, 1);
  const buffer_id output = to.output(dtype::f32, 1);
  const op_id call = to.call();
  const op_id from_extra = to.signal_recv(1, k_activation_tag);
  const op_id from_across = to.signal_recv(2, k_activation_tag);
  to.any(to.signal_send(2, k_activation_tag, {call, from_extra}));
  to.any(to.signal_send(1, k_activation_tag, {call, from_extra, from_across}));
  const op_id gate = to.capture(kernel::sum, region(input, 0), 1, {call, from_extra, from_across});
  to.any(gate);
  to.set_exit(add_allreduce(to, {.count = 1, .what = kernel::sum}, input, output, gate).exit);
  to.set_activation({activation_policy::solo});
  to.declare_synchronising();
  bad[0] = *to.compile();
  EXPECT_NE(fault_with_single_callers(bad).find("took 3 signals"), std::string::npos) << fault_with_single_callers(bad);
}

}  // namespace
}  // namespace lsched::testing
