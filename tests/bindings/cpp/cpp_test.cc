// Tests of the C++ header as a user's program includes it. This file includes no other header of the library. A helper
// runs ranks as threads.
#include "bindings/cpp/lsched.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/support/cpp_ranks.h"
#include "tests/support/wait_until.h"

namespace {

using namespace std::chrono_literals;
using lsched::testing::as_ranks;

constexpr std::chrono::seconds k_limit = 20s;

template <class T>
constexpr bool k_is_move_only = std::is_nothrow_move_constructible_v<T>&& std::is_move_assignable_v<T> &&
                                !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(k_is_move_only<lsched::world> && k_is_move_only<lsched::schedule> && k_is_move_only<lsched::builder> &&
              k_is_move_only<lsched::partial_collective<float>>);
static_assert(lsched::element<double> && !lsched::element<char*> && !lsched::element<bool>);

TEST(CppHeader, adasum_sums_what_is_orthogonal_tensor_by_tensor) {
  as_ranks(3, [](lsched::world& world) {
    std::vector<double> vector(6, 5.0);  // elements 3 to 5, the second tensor, are equal on all ranks
    for (std::int32_t i = 0; i < 3; ++i) vector[static_cast<std::size_t>(i)] = i == world.rank() ? i + 1.0 : 0.0;
    const std::vector<lsched_tensor> tensors{{0, 3}, {3, 3}};
    lsched::schedule sum = world.adasum<double>(vector, vector, tensors);
    sum.run(k_limit);
    EXPECT_EQ(vector, (std::vector<double>{1, 2, 3, 5, 5, 5}));
    EXPECT_EQ(sum.non_finite_tensors(), 0u);
    if (world.rank() == 1) vector[4] = std::numeric_limits<double>::quiet_NaN();
    sum.run(k_limit);
    std::vector<std::uint8_t> is_non_finite(2);
    EXPECT_EQ(sum.non_finite_tensors(is_non_finite), 1u);
    EXPECT_EQ(is_non_finite, (std::vector<std::uint8_t>{0, 1}));
    EXPECT_THROW(sum.non_finite_tensors(std::span(is_non_finite).first(1)), lsched::error);
    sum.close();
  });
}

TEST(CppHeader, spans_of_different_sizes_on_one_rank_fail_the_create_on_all_ranks) {
  as_ranks(3, [](lsched::world& world) {
    std::vector<double> input(4, world.rank()), output(4);
    const std::span<const double> given(input.data(), world.rank() == 1 ? 3 : 4);
    const std::function<void()> creates[] = {[&] { (void)world.allreduce<double>(given, output); },
                                             [&] { (void)world.adasum<double>(given, output); },
                                             [&] { (void)world.sparse<double>(given, output, 2); }};
    for (const auto& create : creates) {
      if (world.rank() == 1) {
        EXPECT_THROW(create(), std::invalid_argument);
      } else {
        EXPECT_THROW(create(), lsched::error);
      }
      lsched::schedule sum = world.allreduce<double>(input, output);
      sum.run(k_limit);
      EXPECT_EQ(output, std::vector<double>(4, 3.0));
      sum.close();
    }
  });
}

TEST(CppHeader, allreduce_runs_in_and_out_of_place) {
  as_ranks(3, [](lsched::world& world) {
    std::vector<float> input(5, static_cast<float>(world.rank() + 1));
    std::vector<float> output(5);
    lsched::schedule sum = world.allreduce<float>(input, output);
    sum.run(k_limit);
    EXPECT_EQ(output, std::vector<float>(5, 6.0f));

    std::vector<std::int64_t> both{world.rank(), -world.rank()};
    lsched::schedule most = world.allreduce<std::int64_t>(std::span(both), LSCHED_MAX);
    const lsched::ticket round = most.start();
    round.wait(k_limit);
    EXPECT_TRUE(round.test());
    EXPECT_EQ(both, (std::vector<std::int64_t>{2, 0}));
    most.close();
    EXPECT_FALSE(most);
  });
}

TEST(CppHeader, a_verdict_has_figures_or_findings) {
  const lsched::verification good = lsched::verify_collective("allreduce", 5, 7, {.algorithm = "tree"});
  EXPECT_TRUE(good.holds());
  EXPECT_EQ(good.figures.messages, 8u);
  EXPECT_TRUE(good.findings.empty() && good.notes.empty());

  constexpr std::string_view k_nobody_sends =
      "libsched schedule 2\nname \"deaf\"\nrank 0 of 2\nflags\nactivation none seed 0\n"
      "op 0 signal_recv from 1 tag 3\nexit 0\n"
      "libsched schedule 2\nname \"deaf\"\nrank 1 of 2\nflags\nactivation none seed 0\nop 0 nop\nexit 0\n";
  const lsched::verification bad = lsched::verify_text(k_nobody_sends);
  EXPECT_FALSE(bad.holds());
  ASSERT_EQ(bad.findings.size(), 1u);
  EXPECT_EQ(bad.findings[0].peer, 1);
  EXPECT_THROW((void)lsched::verify_text("rubbish"), lsched::error);
  EXPECT_THROW((void)lsched::verify_text(k_nobody_sends, {.is_required = true}), lsched::error);
  EXPECT_THROW((void)lsched::verify_text(k_nobody_sends, {.reduction = LSCHED_SUM}), lsched::error);
}

TEST(CppHeader, a_simulation_has_a_time_for_each_rank) {
  lsched::simulate_desc desc;
  desc.collective = "allreduce";
  desc.algorithm = "ring";
  desc.ranks = 5;
  desc.count = 7;
  const lsched::simulation good = lsched::simulate(desc);
  ASSERT_EQ(good.finish_ps.size(), 5u);
  EXPECT_EQ(*std::max_element(good.finish_ps.begin(), good.finish_ps.end()), good.figures.last_ps);
  EXPECT_EQ(good.figures.messages, 5u * 8);

  constexpr std::string_view k_alone =
      "libsched schedule 2\nname \"\"\nrank 0 of 1\nflags\nactivation none seed 0\nop 0 nop\nexit 0\n";
  EXPECT_EQ(lsched::simulate_text(k_alone).finish_ps, std::vector<std::uint64_t>{0});
  EXPECT_THROW((void)lsched::simulate_text("rubbish"), lsched::error);
}

TEST(CppHeader, what_is_printed_can_be_loaded) {
  as_ranks(3, [](lsched::world& world) {
    std::vector<float> input(5, static_cast<float>(world.rank() + 1)), output(5), again(5);
    const std::string text = world.allreduce<float>(input, output).print();
    const void* inputs[] = {input.data()};
    void* outputs[] = {again.data()};
    lsched::schedule sum = world.load(text, inputs, outputs);
    sum.run(k_limit);
    EXPECT_EQ(again, std::vector<float>(5, 6.0f));
    try {
      (void)world.load(text + "exit", inputs, outputs);
      ADD_FAILURE() << "two exits are accepted";
    } catch (const lsched::error& why) {
      EXPECT_EQ(why.status(), LSCHED_ERR_ARGUMENT);
      const std::string_view said = why.diagnostic().text;
      EXPECT_NE(said.find("column 1: expected 'libsched' but found 'exit'"), said.npos) << said;
    }
  });
}

/// The map x -> a * x + b.
struct affine {
  std::int64_t a, b;
};

TEST(CppHeader, arithmetic_of_the_program_s_own) {
  const auto one_after_the_other = [](const affine& first, const affine& then) noexcept {
    return affine{then.a * first.a, then.a * first.b + then.b};
  };
  as_ranks(3, [&](lsched::world& world) {
    const lsched_user_op how = lsched::user_op<std::int64_t, affine>(one_after_the_other);
    const std::int64_t r = world.rank();
    std::vector<std::int64_t> input{r + 2, r, 1, 10 * r}, output(4);
    world.allreduce<std::int64_t>(input, output, how).run(k_limit);
    EXPECT_EQ(output, (std::vector<std::int64_t>{24, 6, 1, 30}));  // ((2x + 0) * 3 + 1) * 4 + 2
  });
}

TEST(CppHeader, barrier_and_print_work_on_moved_schedules) {
  as_ranks(2, [](lsched::world& world) {
    lsched::schedule first = world.barrier();
    lsched::schedule second = std::move(first);
    EXPECT_FALSE(first);
    second.run(k_limit);
    EXPECT_EQ(second.print().rfind("libsched schedule 3\n", 0), 0u);
    EXPECT_NE(second.print(LSCHED_PRINT_DOT).find("digraph"), std::string::npos);
  });
}

TEST(CppHeader, partial_allreduce_delivers_every_offer_once) {
  as_ranks(3, [](lsched::world& world) {
    auto partial = world.partial<std::int64_t>(2, {.activation = "majority", .lag = LSCHED_ACCUMULATE, .seed = 3});
    std::vector<std::int64_t> result(2);
    std::int64_t total = 0;
    const auto take = [&](lsched::ticket which) {
      const lsched::report report = partial.collect(which, result, k_limit);
      EXPECT_EQ(report.last.ranks, 3u);
      if (report.has_result) total += result[0];
    };
    for (std::int64_t call = 0; call < 10; ++call) take(partial.offer(std::vector<std::int64_t>{1, call}));
    partial.leave();
    take(lsched::ticket({partial.handle(), UINT64_MAX}));
    EXPECT_EQ(total, 30);
    const lsched_partial_stats stats = partial.stats();
    EXPECT_GE(stats.rounds, 10u);
    EXPECT_EQ(stats.in_time + stats.late, 10u);
    EXPECT_EQ(partial.print(LSCHED_PRINT_STATS).rfind("{\"schedule\":\"partial_allreduce", 0), 0u);
    EXPECT_EQ(partial.print(LSCHED_PRINT_STATS).back(), '}');
    partial.close(k_limit);
  });
}

TEST(CppHeader, offers_have_weights_and_ages) {
  as_ranks(3, [](lsched::world& world) {
    auto mean = world.partial<double>(2, {.buckets = {1, 1},
                                          .activation = "full",
                                          .divisor = LSCHED_DIVIDE_BY_OFFERS,
                                          .age = LSCHED_AGE_TABLE,
                                          .age_factors = {1, 0.5}});
    const std::uint64_t weight = static_cast<std::uint64_t>(world.rank()) + 1;
    const std::vector<double> one(1, static_cast<double>(weight)), both(2, static_cast<double>(weight));
    const std::vector<std::span<const double>> parts{one, one};
    std::vector<double> result(2);
    for (int turn = 0; turn < 3; ++turn) {
      if (turn == 2) mean.offer_bucket(0, one), mean.offer_bucket(1, one);
      const lsched::ticket which = turn == 0   ? mean.offer(both, weight)
                                   : turn == 1 ? mean.offer(std::span(parts), weight)
                                               : mean.offer_end(weight);
      const lsched::report report = mean.collect(which, result, k_limit);
      EXPECT_EQ(report.offers, 6u);
      EXPECT_EQ(report.mine, weight);
      EXPECT_EQ(report.age_factor, 1);
      EXPECT_EQ(result, std::vector<double>(2, 14.0 / 6));
    }
    mean.close(k_limit);
  });
}

TEST(CppHeader, partial_collectives_take_buckets_and_know_their_sizes) {
  as_ranks(3, [](lsched::world& world) {
    auto sums = world.partial<std::int64_t>(3, {.buckets = {1, 2}, .activation = "full"});
    const std::array<std::int64_t, 3> mine{world.rank(), 1, 2};
    const std::array<std::span<const std::int64_t>, 2> given{std::span(mine).first(1), std::span(mine).last(2)};
    std::array<std::int64_t, 3> sum{};
    const std::array<std::span<std::int64_t>, 2> taken{std::span(sum).last(1), std::span(sum).first(2)};
    sums.collect(sums.offer(given), taken, k_limit);
    EXPECT_EQ(sum, (std::array<std::int64_t, 3>{3, 6, 3}));
    std::span<const std::int64_t> view;
    EXPECT_TRUE(sums.collect_view(sums.offer(mine), view, k_limit).has_result);
    EXPECT_EQ((std::vector<std::int64_t>{view.begin(), view.end()}), (std::vector<std::int64_t>{3, 3, 6}));
    EXPECT_THROW(sums.offer(std::span(given).first(1)), std::invalid_argument);
    EXPECT_THROW(sums.collect({}, std::array{taken[1], taken[0]}, k_limit), std::invalid_argument);
    auto gather = world.partial<std::int64_t>(2, {.collective = "allgather"});
    EXPECT_EQ(gather.contribution_count(), 2u);
    EXPECT_EQ(gather.result_count(), 6u);
    auto scatter = world.partial<std::int64_t>(2, {.collective = "reduce_scatter_block"});
    EXPECT_EQ(scatter.contribution_count(), 6u);
    EXPECT_EQ(scatter.result_count(), 2u);
    sums.close(k_limit);
    gather.close(k_limit);
    scatter.close(k_limit);
  });
}

TEST(CppHeader, worlds_are_split_and_creates_need_not_wait) {
  as_ranks(3, [](lsched::world& world) {
    lsched::world half = world.split(world.rank() == 2 ? -1 : 0, -world.rank());
    EXPECT_EQ(static_cast<bool>(half), world.rank() != 2);
    if (half) {
      EXPECT_EQ(half.rank(), 1 - world.rank());
    }
    const std::vector<std::int32_t> ranks{2, 0, 1};
    lsched::world turned = world.split_ranks(ranks, 5);
    turned.set_nonblocking(true);
    std::vector<double> one(1, turned.rank());
    lsched::schedule sum = turned.allreduce<double>(one, one);
    const lsched::ticket round = sum.start();
    sum.create_wait(k_limit);
    round.wait(k_limit);
    EXPECT_EQ(one, std::vector<double>(1, 3.0));
    sum.close();
  });
}

TEST(CppHeader, an_exchange_opens_a_world_and_may_throw) {
  const auto echo = [](std::span<const std::byte> mine, std::span<std::byte> all) {
    std::copy(mine.begin(), mine.end(), all.begin());
  };
  EXPECT_EQ(lsched::world::open_with(0, 1, echo).size(), 1);
  const auto fail = [](std::span<const std::byte>, std::span<std::byte>) { throw std::out_of_range("no store"); };
  EXPECT_THROW((void)lsched::world::open_with(0, 1, fail), std::out_of_range);
}

TEST(CppHeader, builder_makes_a_schedule) {
  as_ranks(3, [](lsched::world& world) {
    lsched::builder ring(world, "ring");
    const lsched_slot in = ring.input<double>(1);
    const lsched_slot out = ring.output<double>(2);
    const std::int32_t right = (world.rank() + 1) % world.size();
    const std::int32_t left = (world.rank() + world.size() - 1) % world.size();
    ring.send(right, 0, {in, 0, 1});
    const lsched_op arrival = ring.recv(left, 0, {out, 0, 1});
    const lsched_op sum = ring.reduce(LSCHED_SUM, {in, 0, 1}, {out, 0, 1}, {out, 1, 1});
    ring.dep(arrival, sum);
    ring.any(sum);
    const double mine = world.rank();
    std::array<double, 2> got{};
    const void* inputs[] = {&mine};
    void* outputs[] = {got.data()};
    lsched::schedule shift = ring.commit(inputs, outputs);
    shift.run(k_limit);
    EXPECT_EQ(got, (std::array<double, 2>{static_cast<double>(left), static_cast<double>(left) + mine}));
  });
}

// Rank 1 does not enter the round before the cancel, so it does not read the buffers of rank 0.
TEST(CppHeader, an_exception_cancels_the_schedule_of_a_round) {
  std::atomic<bool> is_cancelled = false;
  as_ranks(2, [&](lsched::world& world) {
    std::vector<double> data(5000);
    lsched_status answer = LSCHED_OK;
    try {
      lsched::schedule sum = world.allreduce<double>(data);
      if (world.rank() == 1) {
        EXPECT_TRUE(lsched::testing::wait_until([&] { return is_cancelled.load(); }));
      }
      sum.run(world.rank() == 0 ? std::chrono::milliseconds(10) : std::chrono::milliseconds(k_limit));
    } catch (const lsched::error& why) {
      answer = why.status();
    }
    if (world.rank() == 0) is_cancelled = true;
    EXPECT_EQ(answer, world.rank() == 0 ? LSCHED_ERR_TIMEOUT : LSCHED_ERR_CANCELLED);
  });
}

TEST(CppHeader, failures_throw_with_status_and_detail) {
  lsched::world alone = std::move(lsched::world::open_threads(1).front());
  std::vector<float> data(4);
  try {
    lsched::schedule none = alone.allreduce<float>(std::span(data), LSCHED_SUM, "no such algorithm");
    FAIL() << "an unknown algorithm was accepted";
  } catch (const lsched::error& why) {
    EXPECT_EQ(why.status(), LSCHED_ERR_ARGUMENT);
    EXPECT_NE(std::string(why.what()).find("LSCHED_ERR_ARGUMENT: "), std::string::npos) << why.what();
    EXPECT_NE(std::string(why.diagnostic().text).find("no such algorithm"), std::string::npos) << why.what();
  }
  EXPECT_THROW((void)alone.allreduce<float>(std::span<const float>(data).first(3), std::span(data)),
               std::invalid_argument);
}

TEST(CppHeader, must_throws_what_a_call_of_the_c_interface_says) {
  lsched_diagnostic why{.struct_size = sizeof why};
  lsched_world* world = nullptr;
  const lsched_status answer = lsched_world_open_threads_abi(LSCHED_ABI, 0, nullptr, &world, &why);
  try {
    lsched::must(answer, &why);
    FAIL() << "a world without ranks was made";
  } catch (const lsched::error& thrown) {
    EXPECT_EQ(thrown.status(), LSCHED_ERR_ARGUMENT);
    EXPECT_STREQ(thrown.diagnostic().text, why.text);
  }
  EXPECT_THROW(lsched::must(LSCHED_ERR_STATE, &why), lsched::error);
  EXPECT_NO_THROW(lsched::must(LSCHED_PENDING));
}

TEST(CppHeader, busy_runtimes_say_so_and_stay_open) {
  lsched::world alone = std::move(lsched::world::open_threads(1).front());
  lsched::schedule barrier = alone.barrier();
  try {
    alone.close();
    FAIL() << "closed under a schedule";
  } catch (const lsched::error& why) {
    EXPECT_EQ(why.status(), LSCHED_ERR_BUSY);
  }
  barrier.run(k_limit);
  barrier.close();
  alone.close();
  EXPECT_FALSE(alone);
}

TEST(CppHeader, a_rank_that_stays_away_is_a_timeout_not_a_hang) {
  std::latch has_timed_out(1);
  as_ranks(2, [&](lsched::world& world) {
    lsched::schedule barrier = world.barrier();
    if (world.rank() == 1) {
      has_timed_out.wait();
      return barrier.run(k_limit);
    }
    const lsched::ticket round = barrier.start();
    EXPECT_THROW(round.wait(1ms), lsched::error);
    has_timed_out.count_down();
    round.wait(k_limit);  // a wait may continue after a timeout
  });
}

TEST(CppHeader, timeouts_are_nanoseconds_and_saturate) {
  EXPECT_EQ(lsched::timeout(3us).ns(), 3000u);
  EXPECT_EQ(lsched::timeout(-1s).ns(), 0u);
  EXPECT_EQ(lsched::timeout(std::chrono::hours::max()).ns(), LSCHED_FOREVER);
  EXPECT_EQ(lsched::timeout::forever().ns(), LSCHED_FOREVER);
  EXPECT_EQ(lsched::timeout(std::chrono::duration<double>(1.5)).ns(), 1'500'000'000u);
}

TEST(CppHeader, shared_memory_serves_as_buffers) {
  as_ranks(2, [](lsched::world& world) {
    const std::span<float> data = world.allocate<float>(100);
    std::iota(data.begin(), data.end(), 0.0f);
    lsched::schedule sum = world.allreduce<float>(data);
    sum.run(k_limit);
    EXPECT_EQ(data[99], 198.0f);
    sum.close();
    world.free(data);
    EXPECT_GE(world.stats().rounds, 1u);
    EXPECT_NE(world.describe().find("of 2"), std::string::npos) << world.describe();
    EXPECT_TRUE(world.lost().empty());
  });
}

}  // namespace
