// Tests of the job board, which divides jobs into pieces for several workers. Workers are real threads. Every element
// must be computed once, every job must be reported once, and the result must have the bits of a single kernel call.
// The models of tests/models explore the interleavings of the threads.
#include "offload/job_board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_piece_bytes = 128 << 10;

/// Worker threads that poll the board for pieces without a pause.
class busy_workers {
 public:
  busy_workers(job_board& board, int count) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([&board](const std::stop_token& stop) {
        while (!stop.stop_requested()) board.serve(), std::this_thread::yield();
      });
  }

 private:
  std::vector<std::jthread> threads_;
};

std::vector<std::byte> random_bytes(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(mix(seed + i / 8) >> i % 8 * 8);
  return made;
}

/// A job and its memory. In place, the first operand is also the target.
struct sample {
  sample(kernel what, dtype type, std::uint64_t count, bool in_place, std::uint64_t seed)
      : a(random_bytes(count * size_of(type), seed)),
        b(random_bytes(count * size_of(type), ~seed)),
        c(a.size()),
        expected(a.size()) {
    job = {.run = find(what, type),
           .call = {.a = a.data(), .b = b.data(), .c = expected.data(), .count = count},
           .element_bytes = size_of(type),
           .cookie = seed};
    job.run(job.call);
    job.call.c = in_place ? a.data() : c.data();
  }
  bool is_right() const { return a.empty() || std::memcmp(job.call.c, expected.data(), expected.size()) == 0; }

  std::vector<std::byte> a, b, c, expected;
  lane_job job;
};

/// Polls the board until `jobs` jobs have been reported, and computes pieces meanwhile if `helps` is true. Returns the
/// cookies of the jobs.
std::vector<std::uint64_t> finish(job_board& board, std::size_t jobs, bool helps) {
  std::vector<std::uint64_t> cookies;
  for (std::array<std::uint64_t, 3> out; cookies.size() < jobs;) {
    const std::size_t found = board.poll(out);
    cookies.insert(cookies.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(found));
    if (found == 0 && !(helps && board.help())) std::this_thread::yield();
  }
  return cookies;
}

TEST(job_board, bits_are_those_of_one_call_for_every_dtype_and_reduction) {
  doorbell bell{};
  job_board board(bell);
  const busy_workers workers(board, 2);
  std::uint64_t seed = 0;
  for (const kernel what : k_all_reductions)
    for (const dtype type : k_all_dtypes) {
      if (!supports(what, type)) continue;
      const std::uint64_t whole = k_piece_bytes / size_of(type);
      for (const std::uint64_t count : {std::uint64_t{1}, whole - 1, whole, whole + 1, 2 * whole + 7})
        for (const bool in_place : {false, true}) {
          if (testing::sampled() && ++seed % 7 != 0) continue;
          sample one(what, type, count, in_place, ++seed);
          ASSERT_EQ(board.submit(one.job), (count + whole - 1) / whole);
          ASSERT_EQ(finish(board, 1, seed % 2 == 0), std::vector{one.job.cookie});
          ASSERT_TRUE(one.is_right()) << name_of(what) << " " << name_of(type) << " " << count;
        }
    }
}

TEST(job_board, takes_what_it_has_room_for_and_reports_each_once) {
  doorbell bell{};
  job_board board(bell);
  std::vector<std::unique_ptr<sample>> jobs;
  std::vector<std::uint64_t> taken;
  for (std::uint64_t i = 0; i < 20; ++i) {
    jobs.push_back(std::make_unique<sample>(kernel::sum, dtype::f32, 40'000 + i, false, 100 + i));
    if (board.submit(jobs.back()->job) != 0) taken.push_back(100 + i);
  }
  ASSERT_EQ(taken.size(), 16u) << "without workers no job ends";
  std::array<std::uint64_t, 4> none;
  EXPECT_EQ(board.poll(none), 0u);
  auto reported = finish(board, taken.size(), true);
  std::ranges::sort(reported);
  EXPECT_EQ(reported, taken);
  for (const std::uint64_t cookie : taken) EXPECT_TRUE(jobs[cookie - 100]->is_right());
  EXPECT_FALSE(board.help());
  EXPECT_EQ(board.poll(none), 0u);
}

TEST(job_board, many_jobs_with_workers_that_come_and_go) {
  doorbell bell{};
  job_board board(bell);
  const busy_workers workers(board, 3);
  const int rounds = testing::sampled() ? 50 : 400;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::unique_ptr<sample>> jobs;
    const std::uint64_t count = 1 + mix(static_cast<std::uint64_t>(round)) % 6;
    for (std::uint64_t i = 0; i < count; ++i) {
      jobs.push_back(std::make_unique<sample>(kernel::max, dtype::i64,
                                              1 + mix(i + static_cast<std::uint64_t>(round)) % 50'000, i % 2 == 0, i));
      ASSERT_NE(board.submit(jobs.back()->job), 0u);
    }
    auto reported = finish(board, count, round % 3 != 0);
    std::ranges::sort(reported);
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(reported[i], i);
      ASSERT_TRUE(jobs[i]->is_right()) << "round " << round;
    }
  }
}

TEST(job_board, rings_for_who_sleeps_and_only_then) {
  for (const std::uint32_t sleepers : {0u, 1u}) {
    doorbell bell{};
    bell.sleepers = sleepers;
    job_board board(bell);
    sample one(kernel::sum, dtype::f32, 100'000, false, 7);
    ASSERT_EQ(board.submit(one.job), 4u);
    board.serve();
    EXPECT_EQ(bell.word[doorbell::waiter], sleepers);
    EXPECT_EQ(finish(board, 1, false), std::vector{one.job.cookie});
  }
}

TEST(job_board, drains_and_closes_while_workers_are_at_it) {
  for (int round = 0; round < 20; ++round) {
    doorbell bell{};
    job_board board(bell);
    const busy_workers workers(board, 2);
    sample one(kernel::sum, dtype::f64, 100'000, true, static_cast<std::uint64_t>(round));
    ASSERT_NE(board.submit(one.job), 0u);
    board.close();
    ASSERT_TRUE(one.is_right());
    ASSERT_EQ(finish(board, 1, false), std::vector{one.job.cookie});
  }
}

}  // namespace
}  // namespace lsched
