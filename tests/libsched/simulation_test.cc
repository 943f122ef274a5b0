#include "libsched/simulation.h"

#include <gtest/gtest.h>

#include <random>

#include "collectives/selection.h"
#include "libsched/closed_form.h"
#include "libsched/schedule_world.h"
#include "libsched/sweep.h"
#include "libsched/window.h"

namespace lsched {
namespace {

constexpr picoseconds k_us = 1'000'000;

result<simulation_report> simulate_as_schedules(const simulation& what) {
  const auto& it = std::get<recursive_doubling_program>(what.what);
  std::vector<schedule_ptr> ranks;
  for (rank r = 0; r < it.size; ++r)
    ranks.push_back(*generate("allreduce", "recursive_doubling", {r, it.size},
                              {.count = it.bytes, .type = dtype::u8, .what = kernel::sum}));
  return simulate_schedules(ranks, what);
}

using engine = result<simulation_report> (*)(const simulation&);
const std::vector<engine> k_engines{[](const simulation& what) { return simulate_window(what); }, simulate_sweep,
                                    simulate_as_schedules};

void expect_refused(const simulation& what, status why, std::string_view words) {
  for (std::size_t i = 0; i < k_engines.size(); ++i) {
    const auto report = k_engines[i](what);
    ASSERT_FALSE(report) << "engine " << i << " says " << report->last();
    EXPECT_EQ(report.error().code, why) << i;
    EXPECT_NE(report.error().text.find(words), std::string::npos) << i << ": " << report.error().text;
  }
}

TEST(simulation, a_start_that_cannot_be_counted_names_its_rank) {
  simulation what{.what = recursive_doubling_program{40, 64}};
  what.skew = {.kind = skew_kind::empirical, .samples = {-k_us}};
  expect_refused(what, status::argument, "rank 0 would begin at -1 us");
  what.skew = {.kind = skew_kind::linear, .scale = 1'000'000'000'000 * k_us};
  expect_refused(what, status::argument, "starts lie between 0 and");
  what.skew = {.kind = skew_kind::rotating, .scale = 1'000'000'000'000 * k_us, .shift = 1'000'000'000'000 * k_us};
  expect_refused(what, status::argument, "starts lie between 0 and");
  what.skew = {.kind = skew_kind::lognormal, .scale = k_us, .sigma = 1000};
  expect_refused(what, status::argument, "starts lie between 0 and");
}

TEST(simulation, the_windowed_engine_knows_starts_up_to_37_minutes) {
  simulation what{.what = recursive_doubling_program{4, 64}};
  what.skew = {.kind = skew_kind::fixed, .scale = 3'600'000'000 * k_us, .ranks = {2}};
  const auto report = simulate_window(what);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, status::argument);
  EXPECT_EQ(report.error().peer, 2);
  EXPECT_TRUE(simulate_sweep(what));
}

TEST(simulation, time_that_cannot_be_counted_is_refused_and_never_wraps) {
  simulation what{.what = recursive_doubling_program{64, 60'000}};
  what.where.levels[0].cost.G = 1'000'000'000'000'000'000;
  expect_refused(what, status::unsupported, "it takes longer than");
  what.where.S = k_max_count;
  what.what = recursive_doubling_program{64, k_max_count};
  expect_refused(what, status::unsupported, "it takes longer than");
  what = {.what = recursive_doubling_program{64, 64}, .noise = {.kind = noise_kind::pareto, .alpha = 0.01}};
  expect_refused(what, status::unsupported, "it takes longer than");
}

TEST(simulation, bytes_that_cannot_be_counted_are_refused) {
  simulation what{.what = recursive_doubling_program{1 << 14, k_max_count}};
  what.where.levels[0].cost.G = 0;
  what.where.S = k_max_count;
  for (const engine play : {k_engines[0], k_engines[1]}) {
    const auto report = play(what);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().text, "more than 2^64 bytes are sent");
  }
}

TEST(simulation, a_closed_form_is_no_longer_than_time) {
  simulation what{.what = dissemination_program{1 << 20, k_max_count}};
  what.where.levels[0].cost.G = 1'000'000'000'000'000;
  const auto time = closed_form(what);
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().code, status::unsupported);
}

TEST(simulation, the_memory_of_schedules_is_counted) {
  const auto report = simulate_as_schedules({.what = recursive_doubling_program{4096, 1024}});
  ASSERT_TRUE(report);
  EXPECT_GT(report->memory / 4096, 3000u);  // 25 ops in a schedule and in a state, 12 receives in a hash map
}

// --- closed forms say what the windowed engine says, or nothing -----------------------------------------------

class random_machines {
 public:
  simulation next() {
    const rank two = rank{1} << pick({0, 1, 2, 3, 4, 5}), any = static_cast<rank>(pick({1, 2, 3, 5, 7, 8, 10, 16, 33}));
    const auto bytes = static_cast<std::uint64_t>(pick({0, 1, 8, 1024, 65'535, 65'536, 100'000}));
    const auto block = bytes * static_cast<std::uint64_t>(any);
    const std::vector<program> programs{recursive_doubling_program{two, bytes}, tree_program{two, bytes, 2, true},
                                        dissemination_program{any, bytes}, ring_program{any, block},
                                        gather_program{any, bytes}};
    simulation it{.what = programs[static_cast<std::size_t>(pick({0, 1, 2, 3, 4}))]};
    it.where.levels[0].cost = {.L = pick({0, 1000, 2'500'000, 70'000'000}),
                               .o = pick({1000, 200'000, 1'500'000}),
                               .g = pick({0, 1'000'000, 4'000'000, 50'000'000}),
                               .G = pick({0, 40'000, 6'000'000}),
                               .O = pick({0, 30'000, 2'000'000, 9'000'000})};
    it.where.S = static_cast<std::uint64_t>(pick({0, 10, 65'535, 1'000'000}));
    it.where.compute = pick({0, 1'000'000});
    it.where.rules = pick({0, 1}) == 0 ? semantics::libsched : semantics::loggopsim;
    return it;
  }

 private:
  std::int64_t pick(std::vector<std::int64_t> values) { return values[draw_() % values.size()]; }

  std::mt19937_64 draw_{5};
};

TEST(simulation, closed_forms_say_what_the_windowed_engine_says_or_refuse) {
  random_machines machines;
  std::array<int, 5> equal{}, refused{};
  for (int i = 0; i < 4000; ++i) {
    const simulation what = machines.next();
    const auto known = closed_form(what);
    const auto played = simulate_window(what);
    ++(known ? equal : refused)[what.what.index()];
    if (!known || !played) continue;
    const loggops& c = what.where.levels[0].cost;
    EXPECT_EQ(*known, played->last()) << what.what.index() << " P " << size_of(what.what) << " L " << c.L << " o "
                                      << c.o << " g " << c.g << " G " << c.G << " O " << c.O << " S " << what.where.S
                                      << (what.where.rules == semantics::libsched ? "" : " foreign");
  }
  for (std::size_t i = 0; i < equal.size(); ++i) {
    EXPECT_GT(equal[i], 200) << i;
    EXPECT_GT(refused[i], 50) << i;
  }
}

}  // namespace
}  // namespace lsched
