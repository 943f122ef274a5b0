#include "libsched/alike_world.h"

#include <gtest/gtest.h>

#include <bit>

#include "collectives/selection.h"
#include "collectives/sparse_allreduce.h"
#include "libsched/builder.h"
#include "libsched/schedule_world.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

using generator = std::function<result<schedule_ptr>(world)>;

simulation machine_of(std::uint64_t most_eager, picoseconds g, femtoseconds compute) {
  simulation what;
  what.where.S = most_eager;
  what.where.compute = compute;
  what.where.levels[0].cost.g = g;
  return what;
}

/// How far the one rank is from any of all; they are alike.
picoseconds gap(const alike_world& one, const std::vector<schedule_ptr>& all, const simulation& what) {
  const auto folded = simulate_alike(one, what), whole = simulate_schedules(all, what);
  EXPECT_TRUE(folded) << folded.error().text;
  EXPECT_TRUE(whole) << whole.error().text;
  if (!folded || !whole) return k_forever;
  EXPECT_EQ(folded->messages, whole->messages);
  EXPECT_EQ(folded->signals, whole->signals);
  EXPECT_EQ(folded->bytes, whole->bytes);
  EXPECT_EQ(folded->active, whole->active);
  EXPECT_EQ(folded->finish.size(), whole->finish.size());
  picoseconds most = 0;
  for (std::size_t r = 0; r < all.size(); ++r) most = std::max(most, std::abs(folded->finish[r] - whole->finish[r]));
  return most;
}

/// Whatever is found alike takes as long as all ranks of it.
TEST(AlikeWorld, one_rank_takes_as_long_as_each_of_all) {
  std::size_t alike = 0;
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 16}) {
      const shape data = typical_shape(*it.of, size, 32, dtype::f32, kernel::sum);
      if (it.of->activates || objection(it, {0, size}, data, {})) continue;
      const generator make = [&](world place) { return it.generate(place, data, {}); };
      const auto one = fold_world(size, make);
      if (!one) {
        EXPECT_EQ(one.error().code, status::unsupported) << it.name;
        continue;
      }
      ++alike;
      const auto all = testing::whole_world(size, make);
      EXPECT_EQ(gap(*one, all, machine_of(65'535, 1'000'000, 0)), 0) << it.of->name << "/" << it.name << " " << size;
    }
  EXPECT_GT(alike, 100u);
}

class AlikeSparse : public ::testing::TestWithParam<const char*> {};

/// Work differs by who copies how much before its own list and after; typical shares are rounded up.
TEST_P(AlikeSparse, is_every_rank_of_it) {
  constexpr picoseconds k_share = 1000;
  for (const rank size : {1, 2, 4, 8, 16, 64})
    for (const std::uint64_t k : {1u, 10u, 500u})
      for (const round_no round : {1u, 2u})
        for (const std::uint64_t most_eager : {65'535u, 100u}) {
          const generator make = [&](world place) {
            return find_sparse(GetParam())->generate({.count = 20'000, .k = k, .place = place});
          };
          const auto one = fold_world(size, make);
          ASSERT_TRUE(one) << size << ": " << one.error().text;
          for (const femtoseconds compute : {0, 250'000}) {
            simulation what = machine_of(most_eager, 1'000'000, compute);
            what.instance = round;
            const picoseconds all = simulate_alike(*one, what)->last();
            EXPECT_LE(gap(*one, testing::whole_world(size, make), what), compute == 0 ? 0 : all / k_share)
                << size << " ranks, k " << k << ", round " << round << ", S " << most_eager;
          }
        }
}

INSTANTIATE_TEST_SUITE_P(all, AlikeSparse, ::testing::Values("oktopk", "topka", "topkdsa", "gaussiank"));

std::string refusal(rank size, const generator& make) {
  const auto made = fold_world(size, make);
  return made ? "" : made.error().text;
}

TEST(AlikeWorld, who_differs_is_named) {
  const auto chain = [](world place) {
    builder to(place);
    const buffer_id data = to.scratch(dtype::u8, 1);
    if (place.self != 0) to.recv(place.self - 1, 0, {data, 0}, 1);
    if (place.self + 1 < place.size) to.send(place.self + 1, 0, {data, 0}, 1);
    return to.compile();
  };
  EXPECT_EQ(refusal(3, chain), "rank 1 does not do what rank 0 does");
  const auto growing = [](world place) {
    builder to(place);
    const auto bytes = [&](rank r) { return r == 0 ? std::uint64_t{1} : std::uint64_t{2}; };
    const buffer_id data = to.scratch(dtype::u8, 4);
    const rank next = (place.self + 1) % place.size, last = (place.self + place.size - 1) % place.size;
    to.send(next, 0, {data, 0}, bytes(place.self));
    to.recv(last, 0, {data, 2}, bytes(last));
    return to.compile();
  };
  EXPECT_EQ(refusal(3, growing), "rank 1 does not do what rank 0 does");
  EXPECT_NE(refusal(0, growing), "");
}

/// Two copies and an op behind one of them.
TEST(AlikeWorld, deps_and_guards_are_the_same) {
  const auto copies = [](rank after_the_second, rank seldom) {
    return [=](world place) {
      builder to(place);
      const buffer_id data = to.scratch(dtype::u8, 4);
      const op_id one = to.copy({data, 0}, {data, 1}, 1), other = to.copy({data, 2}, {data, 3}, 1);
      to.set_guard(one, {.every = place.self == seldom ? 3u : 2u});
      const op_id last = to.nop({place.self == after_the_second ? other : one});
      to.set_exit(to.nop({last, one, other}));
      to.declare_synchronising();
      return to.compile();
    };
  };
  EXPECT_EQ(refusal(3, copies(k_no_rank, k_no_rank)), "");
  EXPECT_EQ(refusal(3, copies(2, k_no_rank)), "rank 2 does not do what rank 0 does");
  EXPECT_EQ(refusal(3, copies(k_no_rank, 1)), "rank 1 does not do what rank 0 does");
}

/// Two rings, of which rank 1 names the messages the other way round.
TEST(AlikeWorld, messages_have_to_be_for_the_same_op_everywhere) {
  const auto rings = [](bool is_alike) {
    return [is_alike](world place) {
      builder to(place);
      const buffer_id data = to.scratch(dtype::u8, 4);
      const rank next = (place.self + 1) % place.size, last = (place.self + place.size - 1) % place.size;
      for (const std::uint32_t tag : {0u, 1u}) to.send(next, tag, {data, 0}, 1);
      for (const std::uint32_t i : {0u, 1u}) {
        const std::uint32_t tag = !is_alike && place.self == 1 ? 1 - i : i;
        to.recv(last, tag, {data, 1 + i}, 1);
      }
      return to.compile();
    };
  };
  EXPECT_EQ(refusal(3, rings(true)), "");
  EXPECT_EQ(refusal(3, rings(false)), "what an op sends is not received by one op of all ranks");
}

TEST(AlikeWorld, machines_that_make_a_difference_are_refused) {
  const auto one = fold_world(4, [](world place) {
    return generate("allreduce", "recursive_doubling", place, {.count = 1, .type = dtype::f32, .what = kernel::sum},
                    {});
  });
  ASSERT_TRUE(one);
  const auto code_for = [&](const simulation& what) {
    const auto report = simulate_alike(*one, what);
    return report ? status::ok : report.error().code;
  };
  EXPECT_EQ(code_for({}), status::ok);
  EXPECT_EQ(code_for({.skew = {.kind = skew_kind::linear}}), status::unsupported);
  EXPECT_EQ(code_for({.noise = {.jitter = 1}}), status::unsupported);
  simulation levels;
  levels.where.levels = {{.ranks = 2}, {}};
  EXPECT_EQ(code_for(levels), status::unsupported);
  simulation instant;
  instant.where.levels[0].cost = {.L = 0, .o = 0};
  EXPECT_EQ(code_for(instant), status::argument);
  EXPECT_EQ(fold_world(4,
                       [](world place) {
                         return generate("partial_allreduce", "recursive_doubling", place,
                                         {.count = 1, .type = dtype::f32, .what = kernel::sum},
                                         {.policy = activation_policy::solo});
                       })
                .error()
                .code,
            status::unsupported);
}

}  // namespace
}  // namespace lsched
