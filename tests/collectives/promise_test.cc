#include "collectives/promise.h"

#include <gtest/gtest.h>

#include "libsched/verify.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

constexpr shape k_most{.count = 6, .type = dtype::i32, .what = kernel::max};

std::vector<schedule_ptr> world_named(const std::string& name) {
  return whole_world(3, [&](world place) {
    builder to(place, name);
    to.reduce(kernel::sum, {to.input(dtype::f32, 4), 0}, {to.scratch(dtype::f32, 4), 0}, {to.output(dtype::f32, 4), 0},
              extent::imm(4));
    return to.compile();
  });
}

TEST(promise, a_registered_world_is_held_against_its_own_algorithm) {
  for (const algorithm& it : algorithms()) {
    const activation starts{it.needs->activates ? activation_policy::solo : activation_policy::none, 1};
    const shape data = it.needs->moves_data ? k_most : shape{};
    const auto world = *generate_world(it, 5, data, starts);
    const auto promise = promise_for(world, {});
    ASSERT_TRUE(promise);
    EXPECT_EQ(promise->by, &it);
    EXPECT_TRUE(promise->has_price);
    EXPECT_EQ(promise->what.price, it.cost_of(5, data, starts.policy));
    EXPECT_TRUE(verify(world, promise->what).holds());
  }
}

TEST(promise, an_unknown_algorithm_keeps_its_collectives_contents_at_any_price) {
  for (const char* name : {"allreduce/mine", "allreduce", "allreduce/"}) {
    const auto promise = promise_for(world_named(name), {});
    ASSERT_TRUE(promise);
    ASSERT_NE(promise->by, nullptr);
    EXPECT_EQ(promise->by->collective, "allreduce");
    EXPECT_FALSE(promise->has_price || promise->what.price);
    ASSERT_EQ(promise->what.ranges.size(), 3u);
    EXPECT_EQ(promise->what.ranges[2].end, 4u);
    EXPECT_EQ(promise->what.ranges[2].how, kernel::sum);
  }
}

TEST(promise, other_names_promise_nothing_unless_told_what) {
  for (const char* name : {"scan", "", "/", "scan/tree"}) {
    const auto world = world_named(name);
    EXPECT_EQ(promise_for(world, {})->by, nullptr) << name;
    EXPECT_TRUE(promise_for(world, {})->what.ranges.empty());
    EXPECT_EQ(promise_for(world, "allreduce")->what.ranges.size(), 3u);
  }
}

TEST(promise, the_kernel_is_that_of_the_first_rank_that_combines_anything) {
  const auto chain = whole_world(3, [](world place) {
    builder to(place, "chain");
    const buffer_id in = to.input(dtype::i64, 4), got = to.scratch(dtype::i64, 4), out = to.output(dtype::i64, 4);
    if (place.self < 2)
      to.copy({in, 0}, {out, 0}, extent::imm(4));
    else
      to.reduce(kernel::min, {in, 0}, {got, 0}, {out, 0}, extent::imm(4));
    return to.compile();
  });
  EXPECT_EQ(promise_for(chain, "allreduce")->what.ranges[0].how, kernel::min);
}

TEST(promise, a_collective_that_does_not_exist_is_refused_with_those_that_do) {
  const auto promise = promise_for(world_named("allreduce/tree"), "scan");
  ASSERT_FALSE(promise);
  EXPECT_EQ(promise.error().code, status::argument);
  EXPECT_NE(promise.error().text.find("\"scan\""), std::string::npos) << promise.error().text;
  EXPECT_NE(promise.error().text.find("\"partial_allreduce\""), std::string::npos) << promise.error().text;
}

}  // namespace
}  // namespace lsched::testing
