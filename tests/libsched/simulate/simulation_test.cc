#include "libsched/simulate/simulation.h"

#include <gtest/gtest.h>

#include "tests/support/simulated_world.h"

namespace lsched {
namespace {

using testing::doubling_world;
using testing::k_us;

void expect_refused(std::span<const schedule_ptr> ranks, const simulation& what, status why, std::string_view words) {
  const auto report = simulate_schedules(ranks, what);
  ASSERT_FALSE(report) << report->last();
  EXPECT_EQ(report.error().code, why);
  EXPECT_NE(report.error().text.find(words), std::string::npos) << report.error().text;
}

TEST(simulation, a_start_that_cannot_be_counted_names_its_rank) {
  const auto ranks = doubling_world(40, 64);
  simulation what;
  what.skew = {.kind = skew_kind::rotating, .scale = k_us, .shift = -k_us};
  expect_refused(ranks, what, status::argument, "rank 0 would begin at -1 us");
  what.skew = {.kind = skew_kind::linear, .scale = 1'000'000'000'000 * k_us};
  expect_refused(ranks, what, status::argument, "use starts from 0 to");
  what.skew = {.kind = skew_kind::rotating, .scale = 1'000'000'000'000 * k_us, .shift = 1'000'000'000'000 * k_us};
  expect_refused(ranks, what, status::argument, "use starts from 0 to");
  what.skew = {.kind = skew_kind::lognormal, .scale = k_us, .sigma = 1000};
  expect_refused(ranks, what, status::argument, "use starts from 0 to");
}

TEST(simulation, time_that_cannot_be_counted_is_refused_and_never_wraps) {
  simulation what;
  what.where.levels[0].cost.G = 1'000'000'000'000'000'000;
  expect_refused(doubling_world(64, 60'000), what, status::unsupported, "the round takes longer than");
  what.where.S = k_max_count;
  expect_refused(doubling_world(64, k_max_count), what, status::unsupported, "the round takes longer than");
  what = {.noise = {.mean = k_forever}};
  expect_refused(doubling_world(64, 64), what, status::unsupported, "the round takes longer than");
}

TEST(simulation, bytes_that_cannot_be_counted_are_refused) {
  simulation what;
  what.where.levels[0].cost.G = 0;
  what.where.S = k_max_count;
  expect_refused(doubling_world(1 << 14, k_max_count), what, status::unsupported, "more than 2^64 bytes");
}

// All ranks share one packed schedule, so nearly all memory is the state of the ranks and the pending events.
TEST(simulation, a_rank_takes_fewer_than_192_bytes) {
  const auto report = testing::simulated(doubling_world(1 << 14, 1024), {.skew = {.kind = skew_kind::lognormal}});
  EXPECT_GT(report.memory >> 14, 40u);
  EXPECT_LT(report.memory >> 14, 192u);
}

}  // namespace
}  // namespace lsched
