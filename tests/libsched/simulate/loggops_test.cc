#include "libsched/simulate/loggops.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

TEST(message_cost, bytes_below_a_picosecond_add_up_exactly) {
  EXPECT_EQ(time_of(1, 40'000), 40);                // 25 GB/s
  EXPECT_EQ(time_of(1'000'000, 2'500), 2'500'000);  // 400 GB/s
  EXPECT_EQ(time_of(1, 499), 0);
  EXPECT_EQ(time_of(1, 500), 1);
  EXPECT_EQ(time_of(std::uint64_t{1} << 40, 6'000'000), (std::int64_t{1} << 40) * 6000);  // almost two hours
}

TEST(message_cost, nothing_costs_what_a_byte_costs) {
  const machine where;
  EXPECT_EQ(cost_of(where, 0, 0).gap.time, cost_of(where, 0, 1).gap.time);
  EXPECT_EQ(cost_of(where, 0, 0).sender.time, cost_of(where, 0, 1).sender.time);
}

TEST(message_cost, each_piece_is_the_sum_of_its_parts) {
  machine where;
  where.levels[0].cost = {.L = 1000, .o = 200, .g = 50, .G = 40'000, .O = 10'000};
  const message_cost cost = cost_of(where, 0, 1001);
  for (const charge& it : {cost.overhead, cost.sender, cost.latency, cost.gap, cost.tail, cost.receiver})
    EXPECT_EQ(it.time,
              it.parts.L * 1000 + it.parts.o * 200 + it.parts.g * 50 + it.parts.G_bytes * 40 + it.parts.O_bytes * 10);
}

TEST(machine, the_smallest_group_that_has_both_ranks_decides) {
  const machine where{.levels = {{.ranks = 2}, {.ranks = 8}, {}}};
  EXPECT_EQ(where.level_of(0, 1), 0u);
  EXPECT_EQ(where.level_of(1, 2), 1u);
  EXPECT_EQ(where.level_of(7, 8), 2u);
}

}  // namespace
}  // namespace lsched
