// Tests of waits whose timeout expires at the moment at which the round ends. The wait must return OK, or TIMEOUT with
// the number of the round. In each test the last rank acts near the end of the first rank's wait.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/barrier.h"
#include "tests/support/one_bucket.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t k_short_wait_ns = 500'000;

/// Synchronises the ranks so that the last rank acts shortly before or after the timeout of the first rank's wait.
class aim {
 public:
  explicit aim(std::int32_t ranks) : meeting_(ranks) {}

  /// Waits until all ranks have finished the previous round.
  void meet() { meeting_.arrive_and_wait(); }

  /// Takes this rank out of the following rounds.
  void leave() { meeting_.arrive_and_drop(); }

  /// Called by the first rank, just before its wait of k_short_wait_ns.
  void wait_begins() { end_ns_.store(now_ns() + static_cast<std::int64_t>(k_short_wait_ns)); }

  /// Called by the last rank. Returns at most 300 us before or after the timeout of the first rank's wait.
  void delay() {
    std::int64_t end_ns = 0;
    while ((end_ns = end_ns_.exchange(0)) == 0 && !::testing::Test::HasFailure()) std::this_thread::yield();
    const std::int64_t due_ns = end_ns + offset_ns_(random_);
    while (now_ns() < due_ns) std::this_thread::yield();
  }

 private:
  static std::int64_t now_ns() { return std::chrono::nanoseconds(clock::now().time_since_epoch()).count(); }

  std::barrier<> meeting_;
  std::atomic<std::int64_t> end_ns_{0};
  std::mt19937 random_{1};
  std::uniform_int_distribution<std::int64_t> offset_ns_{-300'000, 300'000};
};

/// A schedule of a rank, and functions that run the rounds of the schedule.
struct subject {
  explicit subject(lsched_world* in_world) : world(in_world) {}
  virtual ~subject() {
    diagnostic why;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  }
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  virtual void start() { ASSERT_EQ(lsched_start(schedule, &ticket), LSCHED_OK); }
  virtual lsched_status wait(std::uint64_t timeout_ns, lsched_diagnostic* why) {
    return lsched_wait(ticket, timeout_ns, why);
  }
  /// Returns the expected result of a round: the sum of all ranks' contributions.
  virtual double result(std::uint64_t round) const = 0;
  virtual void contribute(std::uint64_t round) = 0;

  lsched_world* world;
  lsched_schedule* schedule = nullptr;
  lsched_ticket ticket{};
};

struct dense : subject {
  explicit dense(lsched_world* in_world, std::int32_t depth = 0) : subject(in_world) {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = &in[0],
                                      .output = &out[0],
                                      .count = 1,
                                      .dtype = LSCHED_F64,
                                      .reduction = LSCHED_SUM,
                                      .depth = depth};
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
  }
  void contribute(std::uint64_t round) override { in[round % 4] = static_cast<double>(round); }
  double result(std::uint64_t round) const override { return out[round % 4]; }

  double in[4] = {}, out[4] = {};
};

struct started : dense {
  using dense::dense;
  void contribute(std::uint64_t round) override { in[0] = static_cast<double>(round); }
  double result(std::uint64_t) const override { return out[0]; }
};

struct run : started {
  using started::started;
  void start() override { is_started = false; }
  lsched_status wait(std::uint64_t timeout_ns, lsched_diagnostic* why) override {
    if (std::exchange(is_started, true)) return lsched_wait(ticket, timeout_ns, why);
    const lsched_status answer = lsched_run(schedule, timeout_ns, why);
    ticket = {schedule, why->round};  // a TIMEOUT names the round that has started
    return answer;
  }
  bool is_started = false;
};

struct with_memory : dense {
  explicit with_memory(lsched_world* in_world) : dense(in_world, 3) {}
  void contribute(std::uint64_t round) override {
    dense::contribute(round);
    from = &in[round % 4], to = &out[round % 4];
  }
  void start() override { ASSERT_EQ(lsched_start_with(schedule, &from, &to, nullptr, &ticket), LSCHED_OK); }
  const void* from = nullptr;
  void* to = nullptr;
};

struct partial : subject {
  explicit partial(lsched_world* in_world) : subject(in_world) {
    const lsched_partial_desc desc{
        .struct_size = sizeof desc, .count = 1, .dtype = LSCHED_F64, .reduction = LSCHED_SUM, .activation = "full"};
    diagnostic why;
    EXPECT_EQ(lsched_partial_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
  }
  void contribute(std::uint64_t round) override { in = static_cast<double>(round); }
  void start() override { ASSERT_EQ(lsched_offer(schedule, one_bucket(&in), &ticket), LSCHED_OK); }
  lsched_status wait(std::uint64_t timeout_ns, lsched_diagnostic* why) override {
    lsched_report report{.struct_size = sizeof report};
    const lsched_status answer = lsched_collect(ticket, one_bucket(&out), timeout_ns, &report, why);
    if (answer == LSCHED_OK) {
      EXPECT_EQ(report.to, ticket.round);
    }
    return answer;
  }
  double result(std::uint64_t) const override { return out; }
  double in = 0, out = 0;
};

struct sparse : subject {
  explicit sparse(lsched_world* in_world) : subject(in_world) {
    const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                  .gradient = gradient,
                                  .update = update,
                                  .count = 4,
                                  .k = 1,
                                  .dtype = LSCHED_F64,
                                  .algorithm = "topka"};
    diagnostic why;
    EXPECT_EQ(lsched_sparse_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
  }
  void contribute(std::uint64_t round) override { gradient[2] = static_cast<double>(round); }
  double result(std::uint64_t) const override { return update[2] * lsched_size(world); }
  double gradient[4] = {}, update[4] = {};
};

/// Runs a round. The first wait has a short timeout on early ranks, and a long timeout on the late rank.
void play_round(subject& mine, aim& at, bool is_first, bool is_late, std::uint64_t round) {
  diagnostic why;
  mine.contribute(round);
  at.meet();
  if (is_late) at.delay();
  mine.start();
  if (is_first) at.wait_begins();
  lsched_status answer = mine.wait(is_late ? k_limit_ns : k_short_wait_ns, &why);
  if (answer == LSCHED_ERR_TIMEOUT) {
    EXPECT_EQ(why.round, round) << why.text;
    EXPECT_TRUE(why.says("round " + std::to_string(round) + ":")) << why.text;
    answer = mine.wait(k_limit_ns, &why);
  }
  ASSERT_EQ(answer, LSCHED_OK) << "round " << round << ": " << why.text;
  ASSERT_EQ(mine.result(round), static_cast<double>(round) * lsched_size(mine.world));
}

/// Runs `rounds` rounds in worlds of 2 and 3 ranks, and with LSCHED_TEST_FULL also of 5 ranks.
template <class Subject>
void play(std::uint64_t rounds) {
  for (const std::int32_t ranks : {2, 3, 5}) {
    if (ranks == 5 && !full()) continue;
    aim at(ranks);
    as_ranks(ranks, [&](lsched_world* world, std::int32_t r) {
      Subject mine(world);
      for (std::uint64_t round = 1; round <= rounds && !::testing::Test::HasFailure(); ++round)
        play_round(mine, at, r == 0, r == ranks - 1, round);
      at.leave();
    });
  }
}

std::uint64_t sample() { return full() ? 35'000 : 150; }

TEST(late_peer, of_lsched_run) { play<run>(sample()); }
TEST(late_peer, of_lsched_wait) { play<started>(sample()); }
TEST(late_peer, of_a_round_in_flight_beside_others) { play<with_memory>(sample()); }
TEST(late_peer, of_a_partial_schedule) { play<partial>(sample()); }
TEST(late_peer, of_a_sparse_allreduce) { play<sparse>(sample()); }

void play_create(lsched_world* world, aim& at, bool is_first, bool is_late) {
  lsched_schedule* made = nullptr;
  diagnostic why;
  at.meet();
  if (is_late) at.delay();
  ASSERT_EQ(create_barrier(world, &made, &why), LSCHED_OK) << why.text;
  if (is_first) at.wait_begins();
  lsched_status answer = lsched_create_wait(made, is_late ? k_limit_ns : k_short_wait_ns, &why);
  if (answer == LSCHED_ERR_TIMEOUT) {
    EXPECT_EQ(why.round, 0u) << why.text;
    EXPECT_FALSE(why.says("round")) << why.text;
    answer = lsched_create_wait(made, k_limit_ns, &why);
  }
  EXPECT_EQ(answer, LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
}

TEST(late_peer, of_a_create) {
  const int creates = full() ? 10'000 : 60;
  for (const std::int32_t ranks : {2, 3}) {
    aim at(ranks);
    as_ranks(ranks, [&](lsched_world* world, std::int32_t r) {
      EXPECT_EQ(lsched_world_set(world, LSCHED_NONBLOCKING, 1), LSCHED_OK);
      for (int i = 0; i < creates && !::testing::Test::HasFailure(); ++i)
        play_create(world, at, r == 0, r == ranks - 1);
      at.leave();
    });
  }
}

void send_late(lsched_mailbox* box, aim& at, std::int64_t number) {
  lsched_message* one = nullptr;
  diagnostic why;
  at.delay();
  ASSERT_EQ(lsched_send_post(box, 0, 0, &number, sizeof number, &one), LSCHED_OK);
  ASSERT_EQ(lsched_message_wait(&one, k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
}

void receive(lsched_mailbox* box, aim& at, std::int32_t sender, std::int64_t expected) {
  std::int64_t number = -1;
  lsched_message* one = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_receive_post(box, sender, 0, &number, sizeof number, &one), LSCHED_OK);
  at.wait_begins();
  lsched_status answer = lsched_message_wait(&one, k_short_wait_ns, nullptr, &why);
  if (answer == LSCHED_ERR_TIMEOUT) answer = lsched_message_wait(&one, k_limit_ns, nullptr, &why);
  ASSERT_EQ(answer, LSCHED_OK) << why.text;
  ASSERT_EQ(number, expected);
}

TEST(late_peer, of_a_message) {
  const int messages = full() ? 35'000 : 150;
  for (const std::int32_t ranks : {2, 3}) {
    aim at(ranks);
    as_ranks(ranks, [&](lsched_world* world, std::int32_t r) {
      lsched_mailbox* box = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_mailbox_create(world, &box, &why), LSCHED_OK) << why.text;
      for (std::int64_t i = 0; i < messages && !::testing::Test::HasFailure(); ++i) {
        at.meet();
        if (r == ranks - 1)
          send_late(box, at, i);
        else if (r == 0)
          receive(box, at, ranks - 1, i);
      }
      at.meet();
      EXPECT_EQ(lsched_mailbox_destroy(box), LSCHED_OK);
      at.leave();
    });
  }
}

}  // namespace
}  // namespace lsched::testing
