// Tests that the doorbell loses no wake-up. Two threads send a word back and forth, and sleep as doorbell.h prescribes.
#include "libsched/transport/doorbell.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "libsched/schedule/draw.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using std::chrono::steady_clock;

/// One direction of the exchange: a message of one word, and the doorbell of the reader.
struct mailbox {
  alignas(64) std::atomic<std::uint64_t> stamp{0};
  doorbell bell{};
};

struct sleep_counts {
  std::uint64_t sleeps = 0;
  std::uint64_t lost = 0;                 ///< number of sleeps that timed out although the message had arrived
  std::atomic<bool>* given_up = nullptr;  ///< set after three losses, to end the failed test
};

void write(mailbox& to, std::uint64_t round) {
  static thread_local ringer owing(1);
  to.stamp.store(round, std::memory_order_release);
  owing.owe(0, to.bell);
  owing.settle();
}

void announce(doorbell& bell, doorbell::side side) {
  if (side == doorbell::waiter)
    bell.sleepers.fetch_add(1);
  else
    bell.wanted.store(1);
}

void withdraw(doorbell& bell, doorbell::side side) {
  if (side == doorbell::waiter)
    bell.sleepers.fetch_sub(1);
  else
    bell.wanted.store(0);
}

/// The manner in which a reader goes to sleep. Every reader announces on the doorbell that it will sleep. A careful
/// reader then polls again before it sleeps. A careless reader does not poll again.
enum class manner { careful, careless };

void sleep_until_there(mailbox& from, std::uint64_t round, doorbell::side side, manner how,
                       std::chrono::nanoseconds timeout, sleep_counts& counts) {
  doorbell& bell = from.bell;
  while (from.stamp.load() < round && (counts.given_up == nullptr || !counts.given_up->load())) {
    const std::uint32_t epoch = bell.word[side].load();
    bell.polling.store(0);
    announce(bell, side);
    if (how == manner::careless || from.stamp.load() < round) {
      ++counts.sleeps;
      sleep_on(bell, side, epoch, timeout);
      const auto is_unrung = [&] { return from.stamp.load() >= round && bell.word[side].load() == epoch; };
      if (is_unrung()) sleep_on(bell, side, epoch, timeout);  // the ring of the message may still be on its way
      if (is_unrung() && ++counts.lost == 3 && counts.given_up != nullptr) counts.given_up->store(true);
    }
    withdraw(bell, side);
    bell.polling.store(1);
  }
}

void work(std::uint64_t steps) {
  for (std::atomic<std::uint64_t> left{steps}; left.load(std::memory_order_relaxed) > 0;)
    left.fetch_sub(1, std::memory_order_relaxed);
}

/// Polls for a random time, which may be zero. Then sleeps in the role of an application thread or of the auxiliary
/// thread.
void read(mailbox& from, std::uint64_t round, std::uint64_t dice, sleep_counts& counts) {
  from.bell.polling.store(1);
  for (std::uint64_t looks = dice % 8 == 0 ? dice / 16 % 64 : 4000; looks > 0; --looks)
    if (from.stamp.load() >= round) return;
  sleep_until_there(from, round, dice / 8 % 2 == 0 ? doorbell::waiter : doorbell::auxiliary, manner::careful,
                    std::chrono::seconds(1), counts);
}

TEST(doorbell, loses_no_wake_up_in_a_million_hand_overs) {
  const std::uint64_t rounds = testing::sampled() ? 50'000 : 500'000;  // two messages are sent in each round
  std::array<mailbox, 2> boxes;
  std::atomic<bool> given_up{false};
  std::array<sleep_counts, 2> counts;
  for (sleep_counts& it : counts) it.given_up = &given_up;
  std::thread other([&] {
    for (std::uint64_t round = 1; round <= rounds && !given_up.load(); ++round) {
      read(boxes[1], round, mix(2 * round), counts[1]);
      work(mix(2 * round) % 32);
      write(boxes[0], round);
    }
  });
  for (std::uint64_t round = 1; round <= rounds && !given_up.load(); ++round) {
    work(mix(2 * round + 1) % 32);
    write(boxes[1], round);
    read(boxes[0], round, mix(2 * round + 1), counts[0]);
  }
  other.join();
  EXPECT_EQ(counts[0].lost + counts[1].lost, 0u);
  EXPECT_GT(counts[0].sleeps + counts[1].sleeps, rounds / 1000) << "no thread slept: nothing was tested";
}

// Shows that the test above can detect a lost wake-up. A careless reader does not notice a message that arrives between
// its poll and its announcement. Such a message does not wake the reader.
TEST(doorbell, shows_a_lost_wake_up_to_whoever_does_not_look_again) {
  mailbox box;
  sleep_counts counts;
  std::thread writer;
  box.bell.polling.store(1);
  write(box, 1);  // at this time, the reader has polled but not announced its sleep
  box.stamp.store(0);
  writer = std::thread([&] {
    const auto limit = steady_clock::now() + std::chrono::seconds(30);
    while (box.bell.sleepers.load() == 0 && steady_clock::now() < limit) std::this_thread::yield();
    box.stamp.store(1);  // the message becomes visible only after its ring
  });
  sleep_until_there(box, 1, doorbell::waiter, manner::careless, std::chrono::milliseconds(200), counts);
  writer.join();
  EXPECT_EQ(counts.lost, 1u);
}

TEST(doorbell, rings_whom_it_finds_asleep_and_nobody_else) {
  struct sight {
    std::uint32_t polling, sleepers, wanted;
    std::array<std::uint32_t, 2> rings;
  };
  constexpr std::array<sight, 8> sights{{{0, 0, 0, {0, 0}},
                                         {0, 1, 0, {1, 0}},
                                         {0, 0, 1, {0, 1}},
                                         {0, 2, 1, {1, 0}},
                                         {1, 0, 0, {0, 0}},
                                         {1, 1, 0, {0, 0}},
                                         {1, 0, 1, {0, 0}},
                                         {1, 1, 1, {0, 0}}}};
  for (const sight& it : sights) {
    doorbell bell{};
    bell.polling = it.polling;
    bell.sleepers = it.sleepers;
    bell.wanted = it.wanted;
    ring_if_needed(bell);
    EXPECT_EQ(bell.word[doorbell::waiter], it.rings[0]) << it.polling << it.sleepers << it.wanted;
    EXPECT_EQ(bell.word[doorbell::auxiliary], it.rings[1]) << it.polling << it.sleepers << it.wanted;
  }
}

TEST(doorbell, writes_the_event_of_a_direct_sleeper) {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ASSERT_GE(event, 0);
  const auto count = [event] {
    eventfd_t rings = 0;
    return eventfd_read(event, &rings) == 0 ? rings : 0;
  };
  doorbell bell{};
  ring(bell, doorbell::waiter);
  EXPECT_EQ(count(), 0u);
  bell.direct = static_cast<std::uint32_t>(event) + 1;
  ring(bell, doorbell::auxiliary);
  EXPECT_EQ(count(), 0u);
  ring(bell, doorbell::waiter);
  EXPECT_EQ(count(), 1u);
  close(event);
}

TEST(doorbell, is_looked_at_once_however_much_was_published) {
  std::array<doorbell, 3> bells{};
  for (doorbell& bell : bells) bell.sleepers = 1;
  ringer owing(3);
  for (int k = 0; k < 5; ++k)
    for (const std::size_t peer : {2u, 0u}) owing.owe(peer, bells[peer]);
  EXPECT_FALSE(owing.is_settled());
  EXPECT_EQ(bells[0].word[doorbell::waiter], 0u);
  owing.settle();
  owing.settle();
  EXPECT_TRUE(owing.is_settled());
  for (const std::size_t peer : {0u, 1u, 2u})
    EXPECT_EQ(bells[peer].word[doorbell::waiter], peer == 1 ? 0u : 1u) << peer;
  owing.owe(0, bells[0]);
  owing.settle();
  EXPECT_EQ(bells[0].word[doorbell::waiter], 2u);
}

TEST(doorbell, lets_nobody_sleep_on_an_old_epoch) {
  doorbell bell{};
  const std::uint32_t epoch = bell.word[doorbell::auxiliary];
  ring(bell, doorbell::auxiliary);
  const auto before = steady_clock::now();
  sleep_on(bell, doorbell::auxiliary, epoch, std::chrono::seconds(30));
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(10));
}

TEST(doorbell, ends_a_sleep_at_its_timeout) {
  doorbell bell{};
  const auto before = steady_clock::now();
  while (steady_clock::now() - before < std::chrono::milliseconds(20)) {
    const auto left = std::chrono::milliseconds(20) - (steady_clock::now() - before);
    sleep_on(bell, doorbell::waiter, 0, left);
    ASSERT_LT(steady_clock::now() - before, std::chrono::seconds(10));
  }
  sleep_on(bell, doorbell::waiter, 0, std::chrono::nanoseconds(0));
  sleep_on(bell, doorbell::waiter, 0, std::chrono::nanoseconds(-1));  // both calls return at once
}

TEST(doorbell, wakes_as_many_as_it_is_asked_to) {
  doorbell bell{};
  std::atomic<int> awake{0};
  std::array<std::thread, 3> sleepers;
  for (std::thread& it : sleepers)
    it = std::thread([&] {
      bell.sleepers.fetch_add(1);
      while (bell.word[doorbell::waiter].load() == 0) sleep_on(bell, doorbell::waiter, 0, std::chrono::seconds(30));
      awake.fetch_add(1);
    });
  const auto limit = steady_clock::now() + std::chrono::seconds(30);
  while (bell.sleepers.load() < 3 && steady_clock::now() < limit) std::this_thread::yield();
  const auto before = steady_clock::now();
  ring(bell, doorbell::waiter, 3);
  for (std::thread& it : sleepers) it.join();
  EXPECT_EQ(awake.load(), 3);
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(10));
}

}  // namespace
}  // namespace lsched
