// Tests of the simulation of GOAL programs, and of the export of simulations as GOAL programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "bindings/cli/goal/goal.h"
#include "libsched/simulate/simulation.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/rooted/rooted.h"
#include "collectives/selection.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

constexpr picoseconds k_us = 1'000'000;
constexpr goal_scenario k_exact{.ns_per_byte = 1};

/// Returns a machine description. On this machine, a calc of length n takes n nanoseconds.
machine goal_machine() { return {.compute = 1'000'000}; }

std::vector<picoseconds> finish_of(const goal& program, const machine& where) {
  const auto world = import_goal(program, k_exact);
  EXPECT_TRUE(world) << world.error().text;
  if (!world) return {};
  const auto report = simulate_schedules(*world, {.where = where});
  EXPECT_TRUE(report) << report.error().text;
  return report ? report->finish : std::vector<picoseconds>{};
}

std::vector<picoseconds> finish_ns(const std::string& text) {
  const auto program = parse_goal_text(text);
  EXPECT_TRUE(program) << program.error().text;
  if (!program) return {};
  auto times = finish_of(*program, goal_machine());
  for (picoseconds& time : times) time /= 1000;
  return times;
}

/// Returns the GOAL program of a binomial reduction of 1024 bytes to rank 0, as LogGOPSim's generator writes it.
std::string binomial_reduction(unsigned ranks) {
  std::string text = "num_ranks " + std::to_string(ranks) + "\n";
  for (unsigned r = 0; r < ranks; ++r) {
    text += "rank " + std::to_string(r) + " {\n";
    const unsigned parent_step = std::bit_floor(r);
    if (r > 0) text += "up: send 1024b to " + std::to_string(r - parent_step) + "\n";
    for (unsigned step = r == 0 ? 1 : 2 * parent_step; r + step < ranks; step *= 2) {
      const std::string child = std::to_string(r + step);
      text += "r" + child + ": recv 1024b from " + child + "\n";
      if (r > 0) text += "up requires r" + child + "\n";
    }
    text += "}\n";
  }
  return text;
}

/// Returns LogGOPSim's program dissemination_16.goal for any number of ranks. The send of a round waits for the receive
/// of the previous round.
std::string dissemination(int ranks) {
  std::string text = "num_ranks " + std::to_string(ranks) + "\n";
  for (int r = 0; r < ranks; ++r) {
    text += "rank " + std::to_string(r) + " {\n";
    for (int step = 1; step < ranks; step *= 2) {
      const std::string now = std::to_string(step);
      text += "s" + now + ": send 1b to " + std::to_string((r + step) % ranks) + "\n";
      if (step > 1) text += "s" + now + " requires r" + std::to_string(step / 2) + "\n";
      text += "r" + now + ": recv 1b from " + std::to_string((r + ranks - step) % ranks) + "\n";
    }
    text += "}\n";
  }
  return text;
}

using times_ns = std::vector<picoseconds>;

TEST(goal_simulation, repeats_the_published_times_of_loggopsim) {
  EXPECT_EQ(finish_ns(binomial_reduction(8)), (times_ns{34'914, 24'776, 13'138, 13'138, 1500, 1500, 1500, 1500}));
  EXPECT_EQ(finish_ns(dissemination(16)), times_ns(16, 22'000));
}

// Each rank sends two messages of 4000 bytes to the other. The NIC sends the second message 24,994 ns after the first.
// The receive of the second message ends 2o + L + 23,994 ns later, at 54,488 ns. LogGOPSim computes 58,988 ns, because
// in LogGOPSim the bytes of a received message occupy the receiver's CPU, so the second send of the receiver waits.
TEST(goal_simulation, differs_from_loggopsim_if_a_send_waits_for_the_cpu_of_a_receiver) {
  const auto rank_of = [](int self) {
    const std::string peer = std::to_string(1 - self);
    return "rank " + std::to_string(self) + " {\nsend 4000b to " + peer + "\nsend 4000b to " + peer +
           "\nrecv 4000b from " + peer + "\nrecv 4000b from " + peer + "\n}\n";
  };
  EXPECT_EQ(finish_ns("num_ranks 2\n" + rank_of(0) + rank_of(1)), (times_ns{54'488, 54'488}));
}

TEST(goal_simulation, calcs_take_their_time_and_starts_are_not_ends) {
  const std::string ops = "num_ranks 1\nrank 0 {\na: calc 1000\nb: calc 70\n";
  EXPECT_EQ(finish_ns(ops + "b requires a\n}\n")[0], 1070);
  const std::string hop = "num_ranks 2\nrank 0 {\na: recv 1b from 1\nb: send 1b to 1\n";
  const std::string other = "}\nrank 1 {\na: recv 1b from 0\nb: calc 50000\nc: send 1b to 0\nc requires b\n}\n";
  EXPECT_EQ(finish_ns(hop + "b irequires a\n" + other)[0], 55'500);
  EXPECT_EQ(finish_ns(hop + "b requires a\n" + other)[1], 61'000);
}

// --- export of simulations -----------------------------------------------------------------------------------

std::vector<schedule_ptr> partial_world(rank size, activation_policy policy) {
  return testing::whole_world(size, [&](world place) {
    return generate("partial_allreduce", "recursive_doubling", place, {.count = 250, .what = kernel::sum},
                    {.policy = policy});
  });
}

goal_export exported(std::span<const schedule_ptr> ranks, const simulation& what, simulation_report& report) {
  simulation_record record;
  const auto played = simulate_schedules(ranks, what, &record);
  EXPECT_TRUE(played) << played.error().text;
  const auto made = export_goal(ranks, what, record);
  EXPECT_TRUE(made) << made.error().text;
  if (played) report = *played;
  return made ? *made : goal_export{};
}

TEST(goal_of_a_simulation, takes_as_long_as_the_simulation_when_it_is_simulated) {
  for (const rank size : {2, 3, 5, 7, 8, 13})
    for (rank initiator = 0; initiator < size; ++initiator) {
      simulation what{.where = goal_machine(), .skew = {.kind = skew_kind::linear, .scale = 1000 * k_us}};
      what.initiator = initiator;
      simulation_report report;
      const auto made = exported(partial_world(size, activation_policy::majority), what, report);
      EXPECT_EQ(finish_of(made.program, what.where), report.finish) << size << " " << initiator;
    }
}

/// If ops of a rank are ready at the same time, their order in the exported program may differ. This may change the
/// times by up to two message overheads.
TEST(goal_of_a_simulation, begins_when_its_ranks_do) {
  for (const algorithm& it : algorithms()) {
    const shape data = typical_shape(*it.of, 8, 250, dtype::f32, kernel::sum);
    if (it.of->activates || validate(it, {0, 8}, data, {})) continue;
    const auto ranks = testing::whole_world(8, [&](world place) { return it.generate(place, data, {}); });
    const simulation what{.where = goal_machine(), .skew = {.kind = skew_kind::linear, .scale = 3 * k_us}};
    simulation_report report;
    const auto made = exported(ranks, what, report);
    const auto replayed = finish_of(made.program, what.where);
    const auto slack = static_cast<double>(2 * what.where.levels.front().cost.o);
    ASSERT_EQ(replayed.size(), report.finish.size());
    for (std::size_t r = 0; r < replayed.size(); ++r)
      EXPECT_NEAR(static_cast<double>(replayed[r]), static_cast<double>(report.finish[r]), slack)
          << it.of->name << " " << it.name << " rank " << r;
  }
}

// --- exported messages ---------------------------------------------------------------------------------------

std::uint64_t count_of(const goal& program, goal_kind kind) {
  std::uint64_t count = 0;
  for (const goal_rank& me : program.ranks)
    count += static_cast<std::uint64_t>(std::ranges::count(me.ops, kind, &goal_op::kind));
  return count;
}

std::uint64_t sent_bytes(const goal& program) {
  std::uint64_t bytes = 0;
  for (const goal_rank& me : program.ranks)
    for (const goal_op& it : me.ops) bytes += it.kind == goal_kind::send ? it.size : 0;
  return bytes;
}

/// Exports three rounds of the world, and simulates each export.
void expect_the_same_messages(const std::vector<schedule_ptr>& ranks, const std::string& name) {
  const auto is_empty = [](const schedule& it, const op& one) {  // ops with a guard are skipped in some rounds
    return is_payload(one.kind) && it.guard_of(one) == nullptr && typical_bytes(it, one) == 0;
  };
  const bool has_empty = std::ranges::any_of(ranks, [&](const schedule_ptr& it) {
    return std::ranges::any_of(it->ops(), [&](const op& one) { return is_empty(*it, one); });
  });
  for (const round_no instance : {1u, 2u, 3u}) {
    simulation what{.where = goal_machine(), .instance = instance};
    simulation_report report;
    const goal_export made = exported(ranks, what, report);
    const std::string where = name + ", " + std::to_string(ranks.size()) + " ranks, round " + std::to_string(instance);
    EXPECT_EQ(count_of(made.program, goal_kind::send), report.messages + report.signals) << where;
    EXPECT_EQ(count_of(made.program, goal_kind::recv), report.messages + report.signals) << where;
    if (!has_empty) {
      EXPECT_EQ(sent_bytes(made.program), report.bytes + k_signal_bytes * report.signals) << where;
    }
    const auto again = import_goal(made.program, k_exact);
    ASSERT_TRUE(again) << where << ": " << again.error().text;
    const auto replayed = simulate_schedules(*again, {.where = what.where});
    ASSERT_TRUE(replayed) << where << ": " << replayed.error().text;
    EXPECT_EQ(replayed->messages, report.messages + report.signals) << where;
  }
}

std::vector<rank> sizes() {
  return testing::sampled() ? std::vector<rank>{3, 5, 8} : std::vector<rank>{3, 5, 6, 7, 4, 8, 13};
}

/// Returns activation policies that a world of this size supports.
std::vector<activation> policies_of(rank size) {
  const auto some = static_cast<std::uint32_t>(size + 1) / 2;
  return {{.policy = activation_policy::solo},
          {.policy = activation_policy::majority},
          {.policy = activation_policy::quorum, .number = some},
          {.policy = activation_policy::full},
          {.policy = activation_policy::solo, .full_every = 2}};
}

TEST(goal_of_a_simulation, has_the_messages_that_were_simulated) {
  for (const algorithm& it : algorithms())
    for (const rank size : sizes())
      for (const std::uint64_t count : {0u, 1u, 100u})
        for (const activation& starts : it.of->activates ? policies_of(size) : std::vector{activation{}}) {
          const shape data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
          if (validate(it, {0, size}, data, starts)) continue;
          const auto ranks = testing::whole_world(size, [&](world place) { return it.generate(place, data, starts); });
          expect_the_same_messages(ranks, std::string(it.of->name) + "/" + std::string(it.name) + ", " +
                                              words_for(starts) + ", count " + std::to_string(count));
        }
}

/// Exports round 1 of the world without a simulation, and expects the messages that a simulated round has.
void expect_the_messages_of_round_1(const std::vector<schedule_ptr>& ranks, const std::string& name) {
  const auto made = export_goal(ranks, k_exact);
  ASSERT_TRUE(made) << name << ": " << made.error().text;
  const auto report = simulate_schedules(ranks, {.where = goal_machine()});
  ASSERT_TRUE(report) << name << ": " << report.error().text;
  EXPECT_EQ(count_of(made->program, goal_kind::send), report->messages) << name;
  EXPECT_EQ(count_of(made->program, goal_kind::recv), report->messages) << name;
}

/// In some sparse algorithms, the typical length of a list is 0, and some messages are sent only in some rounds.
TEST(goal_of_a_simulation, has_no_messages_of_ops_whose_guards_do_not_hold) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : sizes())
      for (const std::uint64_t k : {0u, 1u, 10u})
        for (const balance_rule balance : {balance_rule::cost, balance_rule::always}) {
          sparse_problem problem{.count = 1000, .k = k, .period = 2, .balance = balance};
          const std::string name = std::string(how.name) + ", k " + std::to_string(k);
          const auto ranks = testing::whole_world(size, [&](world place) {
            problem.place = place;
            return how.generate(problem);
          });
          expect_the_same_messages(ranks, name);
          expect_the_messages_of_round_1(ranks, name);
          for (const activation& starts : policies_of(size))
            expect_the_same_messages(testing::whole_world(size,
                                                          [&](world place) {
                                                            problem.place = place;
                                                            return partial_sparse_allreduce(how, problem, starts);
                                                          }),
                                     name + ", " + words_for(starts));
        }
}

/// Each round of the world has a barrier of two signals. Rounds 2, 5, 8 and so on also have two messages.
TEST(goal_of_a_simulation, has_what_is_due_in_its_round) {
  const auto ranks = testing::whole_world(2, [](world place) {
    builder to(place);
    const buffer_id data = to.input(dtype::u8, 1), got = to.output(dtype::u8, 1);
    for (const op_id id : {to.send(1 - place.self, 0, {data, 0}, 1), to.recv(1 - place.self, 0, {got, 0}, 1)})
      to.set_guard(id, {.every = 3, .phase = 2});
    add_barrier(to, k_no_op);
    to.declare_synchronising();
    return to.compile();
  });
  for (const auto& [instance, sends] :
       {std::pair<round_no, std::uint64_t>(1, 2), {2, 2 + 2}, {3, 2}, {4, 2}, {5, 2 + 2}}) {
    simulation_report report;
    const goal_export made = exported(ranks, {.where = goal_machine(), .instance = instance}, report);
    EXPECT_EQ(count_of(made.program, goal_kind::send), sends) << "round " << instance;
  }
}

TEST(goal_of_a_simulation, requires_what_fired_first_there_and_says_so) {
  const auto ranks = testing::whole_world(3, [](world place) {
    builder to(place);
    const buffer_id data = place.self == 0 ? to.scratch(dtype::u8, 2) : to.input(dtype::u8, 1);
    if (place.self != 0) {
      to.send(0, 0, {data, 0}, 1);
      return to.compile();
    }
    const op_id first = to.recv(1, 0, {data, 0}, 1), second = to.recv(2, 0, {data, 1}, 1);
    const op_id either = to.nop({first, second});
    to.set_need(either, 1);
    return to.compile();
  });
  for (const std::uint64_t first : {1u, 2u}) {
    simulation what{.skew = {.kind = skew_kind::straggler, .scale = 500 * k_us}};
    while (start_times(what.skew, 3)(static_cast<rank>(3 - first)) == 0) ++what.skew.seed;  // delays the other rank
    simulation_report report;
    const auto made = exported(ranks, what, report);
    const goal_rank& me = made.program.ranks[0];
    std::uint32_t either = 0;
    while (me.ops[either].kind != goal_kind::calc) ++either;
    std::vector<std::uint32_t> sources;
    for (const goal_edge& it : me.edges)
      if (it.after == either) sources.push_back(me.ops[it.before].peer);
    EXPECT_EQ(sources, std::vector{static_cast<std::uint32_t>(first)});
    EXPECT_NE(made.description.find("resolved for one simulated scenario: skew straggler, noise none, seed "),
              std::string::npos)
        << made.description;
    EXPECT_NE(made.description.find("the deps that completed first are required"), std::string::npos)
        << made.description;
  }
}

}  // namespace
}  // namespace lsched
