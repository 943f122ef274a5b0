// Tests of the engine with a lane (executor of compute jobs). The test decides when jobs end. The tests cover results,
// ownership of memory while a job is in flight, failure and removal. In all other tests on a lockstep world, random
// ranks have lanes, too.
#include "libsched/engine/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "collectives/allreduce/allreduce.h"
#include "libsched/schedule/builder.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"

namespace lsched {
namespace {

using testing::fake_lane;
using testing::lockstep_world;
using lanes = lockstep_world::lanes;
using integers = std::vector<std::int64_t>;

std::size_t index(rank r) { return static_cast<std::size_t>(r); }

struct allreduce_bench {
  allreduce_bench(lockstep_world& ranks, std::uint64_t count) : world(ranks) {
    inputs.assign(index(world.size()), integers(count));
    outputs = inputs;
    for (rank r = 0; r < world.size(); ++r)
      for (std::size_t i = 0; i < count; ++i) inputs[index(r)][i] = (r + 1) * 1000 + static_cast<std::int64_t>(i);
    its = world.commit([&](rank r) {
      const shape data{count, dtype::i64, kernel::sum, false};
      return commit_request{"allreduce",
                            allreduce_recursive_doubling({r, world.size()}, data),
                            {{reinterpret_cast<const std::byte*>(inputs[index(r)].data())},
                             {reinterpret_cast<std::byte*>(outputs[index(r)].data())}}};
    });
  }
  integers expected() const {
    integers sum(inputs[0].size());
    for (const integers& input : inputs)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
    return sum;
  }
  void expect_right() const {
    for (rank r = 0; r < world.size(); ++r)
      EXPECT_EQ(outputs[index(r)], expected()) << "rank " << r << "; " << world.describe();
  }

  lockstep_world& world;
  std::vector<integers> inputs, outputs;
  std::vector<instance*> its;
};

TEST(lane, results_are_right_whatever_it_takes_and_whenever_it_ends) {
  std::uint64_t taken = 0;
  std::uint64_t refused = 0;
  for (const rank size : {3, 5, 6, 7, 4, 8})
    for (const std::uint64_t count : {0u, 1u, 2u, 37u})
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        lockstep_world world(size, seed, {}, lanes::all);
        allreduce_bench bench(world, count);
        ASSERT_FALSE(bench.its.empty());
        for (int round = 0; round < 3; ++round) ASSERT_TRUE(world.run_round(bench.its));
        bench.expect_right();
        for (rank r = 0; r < size; ++r) {
          taken += world.lane_of(r)->taken();
          refused += world.lane_of(r)->refused();
          EXPECT_EQ(world.at(r).counters().lane_jobs, world.lane_of(r)->taken());
          EXPECT_FALSE(count == 0 && world.lane_of(r)->taken() + world.lane_of(r)->refused() != 0)
              << "a job without elements";
        }
        world.remove(bench.its);
        if (HasFailure()) return;
      }
  EXPECT_GT(taken, 1000u);
  EXPECT_GT(refused, 100u);
}

/// A world in which every rank has started a round. The lanes hold all jobs, so the ranks wait.
struct held_world {
  explicit held_world(rank size)
      : owned(std::make_unique<lockstep_world>(size, 11, inproc_options{}, lanes::all)),
        world(*owned),
        bench(world, 5) {
    for (rank r = 0; r < size; ++r) {
      world.lane_of(r)->hold(true);
      lockstep_world::start(world.at(r), *bench.its[index(r)]);
    }
    for (int n = 0; n < 20 && busy().empty(); ++n) world.settle();
  }
  ~held_world() { owned.reset(); }  // the world ends before `bench`, because jobs may write to buffers of `bench`

  /// Returns the ranks with a job in flight.
  std::vector<rank> busy() {
    std::vector<rank> found;
    for (rank r = 0; r < world.size(); ++r)
      if (bench.its[index(r)]->jobs != 0) found.push_back(r);
    return found;
  }
  std::unique_ptr<lockstep_world> owned;
  lockstep_world& world;
  allreduce_bench bench;
};

TEST(lane, a_round_waits_for_its_jobs) {
  for (const rank size : {3, 5, 6, 7}) {
    held_world held(size);
    ASSERT_FALSE(held.busy().empty());
    const rank r = held.busy().front();
    engine& where = held.world.at(r);
    instance& it = *held.bench.its[index(r)];
    EXPECT_EQ(it.finished, 0u);
    EXPECT_TRUE(where.is_busy());
    EXPECT_TRUE(where.is_listening());
    EXPECT_EQ(where.remove(it), status::busy);
    EXPECT_EQ(where.bind(it, {}), status::state);
    EXPECT_NE(where.describe_wait(it, nullptr).find("on oneTBB workers"), std::string::npos)
        << where.describe_wait(it, nullptr);
    for (rank each = 0; each < size; ++each) held.world.lane_of(each)->hold(false);
    ASSERT_TRUE(held.world.run_until(
        [&] { return std::ranges::all_of(held.bench.its, [](auto* one) { return one->finished == 1; }); }));
    EXPECT_FALSE(where.is_busy());
    held.bench.expect_right();
    held.world.remove(held.bench.its);
  }
}

TEST(lane, a_failure_is_told_when_the_lane_has_let_go_of_the_memory) {
  held_world held(5);
  ASSERT_FALSE(held.busy().empty());
  const rank r = held.busy().front();
  engine& where = held.world.at(r);
  instance& it = *held.bench.its[index(r)];
  where.fail_all(status::peer, 3);
  EXPECT_EQ(it.verdict, status::ok) << "after the outcome the caller may free memory that the lane still writes";
  EXPECT_TRUE(where.is_busy());
  EXPECT_EQ(where.remove(it), status::busy);
  (void)where.take_published();
  while (held.world.lane_of(r)->end_one()) {
  }
  EXPECT_TRUE(where.step());
  EXPECT_EQ(it.verdict, status::peer);
  EXPECT_EQ(it.culprit, 3);
  EXPECT_EQ(it.finished, 0u);
  EXPECT_TRUE(where.take_published());
  EXPECT_FALSE(where.is_busy());
  EXPECT_EQ(where.remove(it), status::ok);
  held.world.forget(r, &it);
}

TEST(lane, an_engine_that_ends_waits_for_its_jobs) {
  held_world held(3);
  ASSERT_FALSE(held.busy().empty());
  held.owned.reset();  // the destructor of the fake lane fails the test if a job remains
}

void add(const void* a, const void* b, void* c, std::uint64_t count, void* calls) {
  ++*static_cast<int*>(calls);
  for (std::uint64_t i = 0; i < count; ++i)
    static_cast<std::int64_t*>(c)[i] = static_cast<const std::int64_t*>(a)[i] + static_cast<const std::int64_t*>(b)[i];
}

TEST(lane, never_gets_the_applications_own_arithmetic) {
  lockstep_world world(1, 3, {}, lanes::all);
  integers x{1, 2, 3}, y{10, 20, 30}, sum(3);
  int calls = 0;
  builder to({0, 1}, "user");
  const region a(to.input(dtype::i64, 3), 0), b(to.input(dtype::i64, 3), 0), c(to.output(dtype::i64, 3), 0);
  to.reduce(kernel::user, a, b, c, 3);
  const auto program = to.compile();
  ASSERT_TRUE(program) << program.error().text;
  const auto its = world.commit([&](rank) {
    commit_request wanted{"user",
                          program,
                          {{reinterpret_cast<const std::byte*>(x.data()), reinterpret_cast<const std::byte*>(y.data())},
                           {reinterpret_cast<std::byte*>(sum.data())}}};
    wanted.options.user = {add, &calls, 1};
    return wanted;
  });
  ASSERT_FALSE(its.empty());
  for (int round = 0; round < 20; ++round) ASSERT_TRUE(world.run_round(its));
  EXPECT_EQ(sum, (integers{11, 22, 33}));
  EXPECT_EQ(calls, 20);
  EXPECT_EQ(world.lane_of(0)->taken() + world.lane_of(0)->refused(), 0u);
  world.remove(its);
}

}  // namespace
}  // namespace lsched
