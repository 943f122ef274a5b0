#include "libsched/simulate/loggops.h"

#include <gtest/gtest.h>

#include "libsched/schedule/builder.h"
#include "tests/support/simulated_world.h"

namespace lsched {
namespace {

constexpr picoseconds k_ns = 1000;

std::vector<picoseconds> finish_ns(std::span<const schedule_ptr> ranks, const machine& where) {
  std::vector<picoseconds> times;
  for (const picoseconds time : testing::simulated(ranks, {.where = where}).finish) times.push_back(time / k_ns);
  return times;
}

std::vector<schedule_ptr> reduction() { return testing::collective_world(8, "reduce", "binomial", 1024); }

machine loggopsim_machine() { return {.rules = semantics::loggopsim}; }

// Printed in LogGOPSim's README.
TEST(loggopsim_semantics, binomial_reduce_on_8_ranks_takes_what_is_published) {
  const std::vector<picoseconds> published{34914, 1500, 13138, 1500, 24776, 1500, 13138, 1500};
  EXPECT_EQ(finish_ns(reduction(), loggopsim_machine()), published);
}

// Printed in LogGOPSim's documentation.
TEST(loggopsim_semantics, dissemination_on_16_ranks_takes_what_is_published) {
  const auto ranks = testing::whole_world(16, [](world place) {
    builder to(place);
    const buffer_id data = to.input(dtype::u8, 1), landing = to.scratch(dtype::u8, 4);
    op_id got = k_no_op;
    for (std::uint32_t j = 0; j < 4; ++j) {
      const op_id sent = to.send(ring_after(place.self, 1 << j, 16), j, {data, 0}, 1);
      to.dep(got, sent);
      got = to.recv(ring_before(place.self, 1 << j, 16), j, {landing, j}, 1, {sent});
    }
    return to.compile();
  });
  EXPECT_EQ(finish_ns(ranks, loggopsim_machine()), std::vector<picoseconds>(16, 22000));
}

TEST(loggopsim_semantics, notices_a_wrong_parameter) {
  machine where = loggopsim_machine();
  where.levels[0].cost.G += 1'000;  // a picosecond per byte
  EXPECT_NE(finish_ns(reduction(), where)[0], 34914);
}

TEST(message_cost, bytes_below_a_picosecond_add_up_exactly) {
  EXPECT_EQ(time_of(1, 40'000), 40);                // 25 GB/s
  EXPECT_EQ(time_of(1'000'000, 2'500), 2'500'000);  // 400 GB/s
  EXPECT_EQ(time_of(1, 499), 0);
  EXPECT_EQ(time_of(1, 500), 1);
  EXPECT_EQ(time_of(std::uint64_t{1} << 40, 6'000'000), (std::int64_t{1} << 40) * 6000);  // an hour of one message
}

TEST(message_cost, nothing_costs_what_a_byte_costs) {
  const machine where;
  EXPECT_EQ(cost_of(where, 0, 0).gap.time, cost_of(where, 0, 1).gap.time);
  EXPECT_EQ(cost_of(where, 0, 0).sender.time, cost_of(where, 0, 1).sender.time);
}

TEST(message_cost, each_piece_is_the_sum_of_its_parts) {
  machine where;
  where.levels[0].cost = {.L = 1000, .o = 200, .g = 50, .G = 40'000, .O = 10'000};
  for (const semantics rules : {semantics::libsched, semantics::loggopsim}) {
    where.rules = rules;
    const message_cost cost = cost_of(where, 0, 1001);
    for (const charge& it : {cost.overhead, cost.sender, cost.latency, cost.gap, cost.tail, cost.receiver})
      EXPECT_EQ(it.time,
                it.parts.L * 1000 + it.parts.o * 200 + it.parts.g * 50 + it.parts.G_bytes * 40 + it.parts.O_bytes * 10);
  }
}

TEST(machine, the_smallest_group_that_has_both_ranks_decides) {
  const machine where{.levels = {{.ranks = 2}, {.ranks = 8}, {}}};
  EXPECT_EQ(where.level_of(0, 1), 0u);
  EXPECT_EQ(where.level_of(1, 2), 1u);
  EXPECT_EQ(where.level_of(7, 8), 2u);
}

}  // namespace
}  // namespace lsched
