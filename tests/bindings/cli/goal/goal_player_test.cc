// Tests of the player that runs GOAL programs by the rules of the simulator LogGOPSim. The player is compared with an
// oracle that follows the published source of LogGOPSim (tests/support/loggopsim_oracle.h) and shares no code with the
// player.
#include "bindings/cli/goal/goal_player.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "bindings/requests/requests.h"
#include "bindings/simulation/simulation.h"
#include "collectives/selection.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "tests/support/loggopsim_oracle.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

constexpr picoseconds k_ns = 1000;
constexpr femtoseconds k_ns_per_byte = 1'000'000;

machine machine_of(const loggopsim_parameters& with) {
  machine where{.S = with.most_eager};
  where.levels[0].cost = {.L = static_cast<picoseconds>(with.latency) * k_ns,
                          .o = static_cast<picoseconds>(with.overhead) * k_ns,
                          .g = static_cast<picoseconds>(with.gap) * k_ns,
                          .G = static_cast<femtoseconds>(with.gap_per_byte) * k_ns_per_byte,
                          .O = static_cast<femtoseconds>(with.overhead_per_byte) * k_ns_per_byte};
  return where;
}

/// Runs the program with the player and with the oracle. Returns the first difference, or an empty text.
std::string difference(const goal& program, const loggopsim_parameters& with) {
  const auto wanted = run_loggopsim(program, with);
  const auto got = play_goal(program, machine_of(with));
  if (!wanted && !got) return {};
  if (!wanted) return "wanted: " + wanted.error().text;
  if (!got) return "got: " + got.error().text;
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    if (got->finish[r] != static_cast<picoseconds>((*wanted)[r]) * k_ns)
      return "rank " + std::to_string(r) + ": " + std::to_string(got->finish[r] / k_ns) + " ns instead of " +
             std::to_string((*wanted)[r]);
  return {};
}

// --- programs by hand ------------------------------------------------------------------------------------------------

std::vector<picoseconds> finish_ns(const std::string& text) {
  const auto program = parse_goal_text(text);
  const auto report = program ? play_goal(*program, {}) : result<simulation_report>(program.error());
  EXPECT_TRUE(report) << report.error().text;
  std::vector<picoseconds> times;
  if (!report) return times;
  for (const picoseconds time : report->finish) times.push_back(time / k_ns);
  return times;
}

TEST(goal_player, takes_messages_while_a_send_waits_for_its_nic) {
  const auto rank_of = [](int self) {
    const std::string peer = std::to_string(1 - self);
    return "rank " + std::to_string(self) + " {\ns1: send 4000b to " + peer + "\ns2: send 4000b to " + peer +
           "\nr1: recv 4000b from " + peer + "\nr2: recv 4000b from " + peer + "\n}\n";
  };
  EXPECT_EQ(finish_ns("num_ranks 2\n" + rank_of(0) + rank_of(1)), (std::vector<picoseconds>{58'988, 58'988}));
}

TEST(goal_player, notices_a_wrong_parameter) {
  const goal program = *parse_goal_text("num_ranks 2\nrank 0 {\nsend 9b to 1\n}\nrank 1 {\nrecv 9b from 0\n}\n");
  EXPECT_EQ(difference(program, {}), "");
  machine where;
  where.levels[0].cost.G += 1000;  // a longer time per byte
  EXPECT_NE(play_goal(program, where)->finish[1], static_cast<picoseconds>((*run_loggopsim(program))[1]) * k_ns);
}

TEST(goal_player, names_what_is_left) {
  const auto why = [](const std::string& text) {
    const auto report = play_goal(*parse_goal_text(text), {});
    return report ? std::string() : std::string(name_of(report.error().code)) + ": " + report.error().text;
  };
  EXPECT_EQ(why("num_ranks 2\nrank 0 {\n}\nrank 1 {\nrecv 1b from 0\n}\n"),
            "LSCHED_ERR_STATE: rank 1, op 0 waits forever for a message from rank 0");
  EXPECT_EQ(why("num_ranks 2\nrank 0 {\nsend 1b to 1\n}\nrank 1 {\n}\n"),
            "LSCHED_ERR_UNMATCHED: rank 0, op 0 sends to rank 1, which does not receive it");
  EXPECT_EQ(why("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n"),
            "LSCHED_ERR_STATE: rank 0 has ops that never become ready");
}

// --- random programs -------------------------------------------------------------------------------------------------

/// A random program with several CPUs and NICs, receives from any rank, messages of several sizes, edges of both kinds,
/// and rendezvous. Some programs end in a deadlock.
class drawn_program {
 public:
  explicit drawn_program(std::uint64_t seed) : draw_(seed) {
    program.ranks.resize(1 + pick(5));
    for (std::uint64_t messages = pick(12); messages > 0; --messages) add_message();
    for (goal_rank& mine : program.ranks) {
      for (std::uint64_t calcs = pick(3); calcs > 0; --calcs) mine.ops.push_back({.size = pick(3000), .cpu = cpu()});
      for (goal_op& one : mine.ops) std::swap(one, mine.ops[pick(mine.ops.size())]);
      for (std::uint32_t id = 1; id < mine.ops.size(); ++id)
        if (pick(2) == 0) mine.edges.push_back({static_cast<std::uint32_t>(pick(id)), id, pick(4) == 0});
      sort_edges(mine);
    }
    with = {.latency = mostly(2500, 100),
            .overhead = mostly(1500, 50),
            .gap = mostly(1000, 10),
            .gap_per_byte = pick(7),
            .overhead_per_byte = mostly(0, 3),
            .most_eager = mostly(65'535, 100)};
  }

  goal program;
  loggopsim_parameters with;

 private:
  std::uint64_t pick(std::uint64_t below) { return draw_() % below; }
  std::uint64_t mostly(std::uint64_t usual, std::uint64_t below) { return pick(3) != 0 ? usual : pick(below); }
  std::uint8_t cpu() { return static_cast<std::uint8_t>(pick(cpus_)); }
  std::uint8_t nic() { return static_cast<std::uint8_t>(pick(nics_)); }
  std::uint64_t bytes() { return 1 + (pick(3) == 0 ? pick(4000) : pick(64)); }

  void add_message() {
    const auto from = static_cast<std::uint32_t>(pick(program.ranks.size()));
    const auto to = static_cast<std::uint32_t>(pick(program.ranks.size()));
    const auto tag = static_cast<std::uint32_t>(pick(2));
    const std::uint64_t sent = bytes();
    program.ranks[from].ops.push_back({sent, to, tag, goal_kind::send, cpu(), nic()});
    program.ranks[to].ops.push_back({pick(10) == 0 ? bytes() : sent, pick(9) == 0 ? k_goal_any : from,
                                     pick(9) == 0 ? k_goal_any : tag, goal_kind::recv, cpu(), nic()});
  }

  std::mt19937_64 draw_;
  std::uint64_t cpus_ = pick(3) == 0 ? 1 + pick(3) : 1, nics_ = pick(3) == 0 ? 1 + pick(2) : 1;
};

void expect_equal_times(std::uint64_t programs) {
  std::uint64_t ended = 0;
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    const drawn_program drawn(seed);
    ASSERT_EQ(difference(drawn.program, drawn.with), "") << "seed " << seed << "\n" << to_goal_text(drawn.program);
    ended += run_loggopsim(drawn.program, drawn.with) ? 1u : 0u;
  }
  EXPECT_GT(ended, programs / 2);
}

TEST(goal_player, agrees_with_the_oracle_about_drawn_programs) { expect_equal_times(10'000); }
TEST(goal_player_soak, agrees_with_the_oracle_about_drawn_programs) { expect_equal_times(2'000'000); }

// --- everything that generators write --------------------------------------------------------------------------------

std::vector<rank> sizes() { return testing::sampled() ? std::vector<rank>{5, 8} : std::vector<rank>{8, 13, 37}; }

std::uint64_t g_compared = 0;

void expect_equal_times(const std::vector<schedule_ptr>& ranks, const std::string& name) {
  const auto made = export_goal(ranks, goal_scenario{});
  ASSERT_TRUE(made) << name << ": " << made.error().text;
  EXPECT_EQ(difference(made->program, {}), "") << name;
  EXPECT_EQ(difference(made->program, {.gap_per_byte = 1, .most_eager = 256}), "") << name << ", rendezvous";
  ++g_compared;
}

TEST(goal_player, agrees_with_the_oracle_about_every_schedule) {
  for (const algorithm& it : algorithms())
    for (const rank size : sizes())
      for (const std::uint64_t count : {1u, 1000u})
        for (const activation_policy policy : {activation_policy::solo, activation_policy::full}) {
          const activation starts = it.of->activates ? activation{.policy = policy} : activation{};
          if (!it.of->activates && policy != activation_policy::solo) continue;
          const shape data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
          if (validate(it, {0, size}, data, starts)) continue;
          expect_equal_times(testing::whole_world(size, [&](world place) { return it.generate(place, data, starts); }),
                             std::string(it.of->name) + "/" + std::string(it.name) + ", " + std::to_string(size) +
                                 " ranks, count " + std::to_string(count));
        }
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : sizes()) {
      sparse_problem problem{.count = 1000, .k = 10};
      const auto ranks = testing::whole_world(size, [&](world place) {
        problem.place = place;
        return how.generate(problem);
      });
      expect_equal_times(ranks, std::string(how.name) + ", " + std::to_string(size) + " ranks");
    }
  EXPECT_GT(g_compared, 100u);
  RecordProperty("worlds", std::to_string(g_compared));
}

}  // namespace
}  // namespace lsched
