// Tests of messages that ranks exchange outside of schedules.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/message_programs.h"
#include "tests/support/sampling.h"
#include "tests/support/seeded_programs.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_soon_ns = 30'000'000;
constexpr std::uint64_t k_liveness_ns = 50'000'000;  ///< time between two checks for dead ranks

TEST(messages, of_random_programs_of_threads_arrive_once_and_in_order) {
  run_as_threads(perform_message_program, 1, full() ? 80'000 : few_seeds(150));
}
TEST(messages, of_random_programs_of_processes_arrive_once_and_in_order) {
  run_as_processes(perform_message_program, 1, full() ? 20'000 : 12);
}
TEST(messages, reach_processes_that_cannot_be_read) {
  setenv("LSCHED_READ_PEERS", "no", 1);
  run_as_processes(perform_message_program, 100'001, full() ? 100'500 : 100'006);
  unsetenv("LSCHED_READ_PEERS");
}

/// A rank's mailbox, which sends and receives messages.
struct box {
  explicit box(lsched_world* world) : created(lsched_mailbox_create(world, &its, &why)) {
    EXPECT_EQ(created, LSCHED_OK) << why.text;
  }
  ~box() { EXPECT_EQ(lsched_mailbox_destroy(its), LSCHED_OK); }
  box(const box&) = delete;
  box& operator=(const box&) = delete;

  lsched_message* send(std::int32_t to, std::int32_t tag, const void* data, std::uint64_t bytes) {
    lsched_message* made = nullptr;
    EXPECT_EQ(lsched_send_post(its, to, tag, data, bytes, &made), LSCHED_OK);
    return made;
  }
  lsched_message* receive(std::int32_t from, std::int32_t tag, void* data, std::uint64_t room) {
    lsched_message* made = nullptr;
    EXPECT_EQ(lsched_receive_post(its, from, tag, data, room, &made), LSCHED_OK);
    return made;
  }
  lsched_status wait(lsched_message*& one, std::uint64_t timeout_ns = k_limit_ns) {
    return lsched_message_wait(&one, timeout_ns, &what, &why);
  }
  lsched_status wait(lsched_message*&& one) { return wait(one); }

  diagnostic why;
  lsched_mailbox* its = nullptr;
  lsched_status created;
  lsched_arrival what{.struct_size = sizeof(lsched_arrival)};
};

// A long message may arrive before its receive is posted. Such a message must not block later messages from the same
// sender.
TEST(messages, behind_one_that_nobody_wants_yet_arrive) {
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    box here(mine);
    std::vector<std::uint8_t> bulk(1 << 20, static_cast<std::uint8_t>(r));
    std::int32_t small = 5;
    if (r == 0) {
      lsched_message* first = here.send(1, 1, bulk.data(), bulk.size());
      lsched_message* second = here.send(1, 2, &small, sizeof small);
      EXPECT_EQ(here.wait(second), LSCHED_OK);
      EXPECT_EQ(here.wait(first), LSCHED_OK);
    } else {
      std::int32_t got = 0;
      lsched_message* second = here.receive(0, 2, &got, sizeof got);
      EXPECT_EQ(here.wait(second), LSCHED_OK) << here.why.text;
      EXPECT_EQ(got, 5);
      lsched_message* first = here.receive(LSCHED_ANY_RANK, LSCHED_ANY_TAG, bulk.data(), bulk.size());
      EXPECT_EQ(here.wait(first), LSCHED_OK) << here.why.text;
      EXPECT_EQ(std::accumulate(bulk.begin(), bulk.end(), 0), 0);
      EXPECT_EQ(here.what.rank, 0);
      EXPECT_EQ(here.what.tag, 1);
    }
  });
}

TEST(messages, that_are_longer_than_their_room_say_so_and_the_next_one_comes) {
  for (const std::uint64_t length : {5u, 10'000u, 500'000u}) {
    as_ranks(2, [length](lsched_world* mine, std::int32_t r) {
      box here(mine);
      std::vector<std::uint8_t> memory(length, static_cast<std::uint8_t>(r + 1));
      for (const bool is_to_self : {false, true}) {
        const std::int32_t to = is_to_self ? r : 1;
        const bool sends = is_to_self || r == 0, receives = is_to_self || r == 1;
        lsched_message* sent = sends ? here.send(to, 0, memory.data(), length) : nullptr;
        lsched_message* next = sends ? here.send(to, 0, memory.data(), 1) : nullptr;
        if (receives) {
          std::uint8_t one = 77;
          lsched_message* got = here.receive(LSCHED_ANY_RANK, 0, &one, 1);
          EXPECT_EQ(here.wait(got), LSCHED_ERR_BOUNDS);
          EXPECT_EQ(here.what.bytes, length);
          EXPECT_TRUE(here.why.says("room for 1")) << here.why.text;
          EXPECT_EQ(one, 77);
          got = here.receive(is_to_self ? r : 0, LSCHED_ANY_TAG, &one, 1);
          EXPECT_EQ(here.wait(got), LSCHED_OK) << here.why.text;
          EXPECT_EQ(one, is_to_self ? r + 1 : 1);
        }
        for (lsched_message* one : {sent, next})
          if (one != nullptr) {
            EXPECT_EQ(here.wait(one), LSCHED_OK) << here.why.text;
          }
      }
    });
  }
}

TEST(messages, that_do_not_come_are_named_and_can_be_given_up) {
  std::latch is_given_up(1);  // the other ranks do not close their mailboxes before rank 0 has given up
  as_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    box here(mine);
    if (r != 0) return is_given_up.wait();
    std::int32_t memory = 0;
    lsched_message* some = here.receive(2, 9, &memory, sizeof memory);
    EXPECT_EQ(lsched_message_test(&some, nullptr), LSCHED_PENDING);
    EXPECT_EQ(here.wait(some, k_soon_ns), LSCHED_ERR_TIMEOUT);
    EXPECT_EQ(here.why.rank, 2);
    EXPECT_TRUE(here.why.says("rank 2 with tag 9 did not arrive")) << here.why.text;
    EXPECT_EQ(lsched_mailbox_destroy(here.its), LSCHED_ERR_BUSY);
    EXPECT_EQ(lsched_message_cancel(&some), LSCHED_OK);
    EXPECT_EQ(some, nullptr);
    is_given_up.count_down();
  });
}

/// Waits for a message with a short timeout, repeatedly, until the error names rank `late`. Several waits are needed,
/// because a rank must have waited for a while before it publishes for which rank it waits.
void wait_until_named(box& here, lsched_message*& some, std::int32_t late) {
  for (int tries = 0; tries < 300; ++tries) {
    ASSERT_EQ(here.wait(some, k_soon_ns), LSCHED_ERR_TIMEOUT) << here.why.text;
    if (here.why.rank == late) return;
  }
  FAIL() << "rank " << here.why.rank << " is named: " << here.why.text;
}

// Each rank waits for a message of the next rank, but the last rank computes. The error of each wait names the last
// rank.
TEST(messages, that_do_not_come_name_the_end_of_the_chain_of_waits) {
  std::latch is_named(1);
  as_ranks(5, [&](lsched_world* mine, std::int32_t r) {
    box here(mine);
    std::int32_t memory = 0;
    if (r == 4) is_named.wait();
    lsched_message* got = r < 4 ? here.receive(r + 1, 0, &memory, sizeof memory) : nullptr;
    if (r == 0) {
      wait_until_named(here, got, 4);
      EXPECT_TRUE(here.why.says("rank 1 waits for rank 2; rank 2 waits for rank 3; rank 3 waits for rank 4"))
          << here.why.text;
      is_named.count_down();
    }
    if (r < 4) {
      EXPECT_EQ(here.wait(got), LSCHED_OK) << here.why.text;
    }
    if (r > 0) {
      EXPECT_EQ(here.wait(here.send(r - 1, 0, &memory, sizeof memory)), LSCHED_OK) << here.why.text;
    }
  });
}

// Rank 0 waits for a message of any rank, rank 1 waits for rank 0, and rank 2 computes. The error of rank 0 names rank
// 2.
TEST(messages, from_anybody_that_do_not_come_name_a_rank_that_could_send) {
  std::latch is_named(1);
  as_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    box here(mine);
    std::int32_t memory = 0;
    if (r == 2) is_named.wait();
    if (r == 0) {
      lsched_message* any = here.receive(LSCHED_ANY_RANK, 0, &memory, sizeof memory);
      wait_until_named(here, any, 2);
      EXPECT_TRUE(here.why.says("no message was sent by ranks 1,2")) << here.why.text;
      is_named.count_down();
      EXPECT_EQ(here.wait(any), LSCHED_OK) << here.why.text;
      EXPECT_EQ(here.wait(here.send(1, 0, &memory, sizeof memory)), LSCHED_OK) << here.why.text;
    }
    if (r == 1) {
      EXPECT_EQ(here.wait(here.receive(0, 0, &memory, sizeof memory)), LSCHED_OK) << here.why.text;
    }
    if (r == 2) {
      EXPECT_EQ(here.wait(here.send(0, 0, &memory, sizeof memory)), LSCHED_OK) << here.why.text;
    }
  });
}

// The error gives the rank number of the late rank in the split world and in the opened world.
TEST(messages, of_a_world_that_was_split_name_the_rank_in_both_numberings) {
  as_ranks(5, [](lsched_world* mine, std::int32_t r) {
    lsched_world* others = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r % 2, -r, &others, &why), LSCHED_OK) << why.text;  // the key reverses the order of
                                                                                     // the ranks
    {
      box here(others);
      std::int32_t memory = 0;
      if (r == 0) {
        lsched_message* some = here.receive(0, 9, &memory, sizeof memory);
        EXPECT_EQ(here.wait(some, k_soon_ns), LSCHED_ERR_TIMEOUT);
        EXPECT_EQ(here.why.rank, 0);
        EXPECT_TRUE(here.why.says("(rank 0 of this world is rank 4 of the world that was opened)")) << here.why.text;
        EXPECT_EQ(lsched_message_cancel(&some), LSCHED_OK);
      }
    }
    EXPECT_EQ(lsched_world_close(others), LSCHED_OK);
  });
}

// A wait may time out at any moment. Either the wait has returned the message, or a later receive returns it.
TEST(messages, that_come_as_the_wait_for_them_ends_are_not_lost) {
  constexpr std::int32_t k_messages = 3000;
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    box here(mine);
    for (std::int32_t i = 0; i < k_messages; ++i) {
      std::int32_t number = i;
      if (r == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(i % 3 == 0 ? i % 101 : 0));
        ASSERT_EQ(here.wait(here.send(1, 0, &number, sizeof number)), LSCHED_OK) << here.why.text;
        ASSERT_EQ(here.wait(here.receive(1, 0, &number, sizeof number)), LSCHED_OK) << here.why.text;
        continue;
      }
      number = -1;
      lsched_message* some = here.receive(LSCHED_ANY_RANK, 0, &number, sizeof number);
      const lsched_status answer = here.wait(some, static_cast<std::uint64_t>(i % 97) * 1500);
      if (answer == LSCHED_ERR_TIMEOUT && lsched_message_cancel(&some) == LSCHED_OK) {
        some = here.receive(0, 0, &number, sizeof number);
        ASSERT_EQ(here.wait(some), LSCHED_OK) << here.why.text << ", message " << i;
      } else if (answer == LSCHED_ERR_TIMEOUT) {
        ASSERT_EQ(here.wait(some), LSCHED_OK) << here.why.text << ", message " << i;
      } else {
        ASSERT_EQ(answer, LSCHED_OK) << here.why.text;
      }
      ASSERT_EQ(number, i);
      ASSERT_EQ(here.wait(here.send(0, 0, &number, sizeof number)), LSCHED_OK) << here.why.text;
    }
  });
}

TEST(messages, that_are_meaningless_are_refused) {
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    box here(mine);
    std::int32_t memory = 0;
    lsched_message* some = nullptr;
    EXPECT_EQ(lsched_send_post(here.its, 2, 0, &memory, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_send_post(here.its, LSCHED_ANY_RANK, 0, &memory, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_send_post(here.its, r, LSCHED_ANY_TAG, &memory, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_send_post(here.its, r, 0, nullptr, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_send_post(nullptr, r, 0, &memory, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_send_post(here.its, r, 0, &memory, 4, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_receive_post(here.its, -2, 0, &memory, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_receive_post(here.its, r, -2, &memory, 4, &some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_message_wait(&some, 0, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_message_test(&some, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_message_cancel(&some), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_mailbox_create(mine, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(some, nullptr);
  });
}

// Before a rank leaves, all messages that it has sent are delivered.
TEST(messages, of_a_rank_that_has_left_still_arrive_and_who_wants_more_hears_of_it) {
  std::latch has_left(1);
  as_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    std::int32_t memory = 7;
    if (r == 0) {
      box here(mine);
      lsched_message* sent = here.send(1, 3, &memory, sizeof memory);
      EXPECT_EQ(here.wait(sent), LSCHED_OK);
    } else {
      box here(mine);
      has_left.wait();
      if (r == 2) return;
      std::int32_t got = 0;
      lsched_message* some = here.receive(0, 3, &got, sizeof got);
      EXPECT_EQ(here.wait(some), LSCHED_OK) << here.why.text;
      EXPECT_EQ(got, 7);
      some = here.receive(0, 3, &got, sizeof got);
      EXPECT_EQ(here.wait(some), LSCHED_ERR_PEER);
      EXPECT_EQ(here.why.rank, 0) << here.why.text;
    }
    if (r == 0) has_left.count_down();
  });
}

TEST(messages, may_be_posted_before_anybody_else_has_a_mailbox) {
  std::latch first_is_done(1);
  as_ranks(2, [&](lsched_world* mine, std::int32_t r) {
    ASSERT_EQ(lsched_world_set(mine, LSCHED_NONBLOCKING, 1), LSCHED_OK);
    if (r == 1) first_is_done.wait();
    box here(mine);
    std::int32_t mine_is = r, others = -1;
    lsched_message* sent = here.send(1 - r, 0, &mine_is, sizeof mine_is);
    lsched_message* got = here.receive(1 - r, 0, &others, sizeof others);
    if (r == 0) first_is_done.count_down();
    EXPECT_EQ(here.wait(got), LSCHED_OK) << here.why.text;
    EXPECT_EQ(here.wait(sent), LSCHED_OK) << here.why.text;
    EXPECT_EQ(others, 1 - r);
    lsched_schedule* barrier = nullptr;
    ASSERT_EQ(create_barrier(mine, &barrier, &here.why), LSCHED_OK);
    EXPECT_EQ(lsched_run(barrier, k_limit_ns, &here.why), LSCHED_OK) << here.why.text;
    EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, &here.why), LSCHED_OK);
  });
}

TEST(messages, of_a_mailbox_that_a_rank_cannot_take_are_refused_on_all_ranks) {
  as_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    lsched_mailbox* made = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_mailbox_create(mine, r == 1 ? nullptr : &made, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_NE(std::string(why.text).find("mailbox is null"), std::string::npos) << why.text;
    if (r != 1) {
      EXPECT_EQ(why.rank, 1) << why.text;
    }
    EXPECT_EQ(made, nullptr);
    box after(mine);
  });
}

// In a split world, ranks have other numbers than in the opened world. Messages must reach the right ranks.
TEST(messages, of_worlds_that_were_split_go_to_their_members) {
  as_ranks(5, [](lsched_world* mine, std::int32_t r) {
    lsched_world* others = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r % 2, -r, &others, &why), LSCHED_OK) << why.text;  // the key reverses the order of
                                                                                     // the ranks
    EXPECT_EQ(perform_message_program(7, others), "");
    EXPECT_EQ(lsched_world_close(others), LSCHED_OK);
  });
}

TEST(messages, from_anybody_end_when_nobody_else_is_left_also_if_posted_afterwards) {
  std::latch have_left(2);
  as_ranks(3, [&](lsched_world* mine, std::int32_t r) {
    {
      box here(mine);
      if (r != 0) return have_left.count_down();
      std::int32_t memory = 0;
      lsched_message* early = here.receive(LSCHED_ANY_RANK, 0, &memory, sizeof memory);
      have_left.wait();
      EXPECT_EQ(here.wait(early), LSCHED_ERR_PEER);
      EXPECT_TRUE(here.why.rank == 1 || here.why.rank == 2) << here.why.text;
      lsched_message* late = here.receive(LSCHED_ANY_RANK, 0, &memory, sizeof memory);
      EXPECT_EQ(here.wait(late), LSCHED_ERR_PEER);
      EXPECT_TRUE(here.why.rank == 1 || here.why.rank == 2) << here.why.text;
      lsched_message* sent = here.send(2, 0, &memory, sizeof memory);
      EXPECT_EQ(here.wait(sent), LSCHED_ERR_PEER);
      EXPECT_EQ(here.why.rank, 2) << here.why.text;
    }
  });
}

TEST(messages, of_a_mailbox_that_the_ranks_do_not_agree_upon_end_with_the_reason) {
  as_ranks(2, [](lsched_world* mine, std::int32_t r) {
    ASSERT_EQ(lsched_world_set(mine, LSCHED_NONBLOCKING, 1), LSCHED_OK);
    diagnostic why;
    if (r == 0) {
      lsched_mailbox* its = nullptr;
      ASSERT_EQ(lsched_mailbox_create(mine, &its, &why), LSCHED_OK);
      std::int32_t memory = 0;
      for (const std::int32_t from : {1, LSCHED_ANY_RANK}) {
        lsched_message* some = nullptr;
        ASSERT_EQ(lsched_receive_post(its, from, 0, &memory, sizeof memory, &some), LSCHED_OK);
        EXPECT_EQ(lsched_message_wait(&some, k_limit_ns, nullptr, &why), LSCHED_ERR_MISMATCH);
        EXPECT_TRUE(why.says("a mailbox")) << why.text;
        EXPECT_EQ(some, nullptr);
      }
      EXPECT_EQ(lsched_mailbox_destroy(its), LSCHED_OK);
    } else {
      lsched_schedule* barrier = nullptr;
      ASSERT_EQ(create_barrier(mine, &barrier, &why), LSCHED_OK);
      EXPECT_EQ(lsched_create_wait(barrier, k_limit_ns, &why), LSCHED_ERR_MISMATCH);
      EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, &why), LSCHED_OK);
    }
  });
}

// One of three processes is killed. Another rank waits for a message from the killed rank, or for a message from any
// rank (LSCHED_ANY_RANK). The wait fails with an error that names the killed rank. The other ranks can still exchange
// messages.
TEST(messages, of_a_rank_that_is_killed_end_with_its_name) {
  auto segment = shm_segment::create(3, 64 << 20);
  ASSERT_TRUE(segment);
  const auto life = [&](rank self) -> int {
    be_launched(**segment, self);
    lsched_world* mine = nullptr;
    diagnostic why;
    const lsched_config config = test_config();
    if (lsched_world_open(&config, &mine, &why) != LSCHED_OK) return 2;
    box here(mine);
    std::int32_t memory = self, got = -1;
    if (self == 2) {
      lsched_message* ready = here.send(0, 1, &memory, sizeof memory);
      if (here.wait(ready) != LSCHED_OK) return 3;
      for (const std::int32_t peer : {0, 1})
        if (here.wait(here.receive(peer, 8, &got, sizeof got)) != LSCHED_OK) return 13;
      raise(SIGKILL);
    }
    lsched_message* others = here.receive(1 - self, 5, &got, sizeof got);
    lsched_message* in_vain = here.receive(2, 6, &got, sizeof got);
    std::int32_t any = 0;
    lsched_message* anybody = here.receive(LSCHED_ANY_RANK, 6, &any, sizeof any);
    (void)here.wait(here.send(2, 8, &memory, sizeof memory));  // rank 2 dies after both receives are posted
    if (here.wait(in_vain) != LSCHED_ERR_PEER || here.why.rank != 2) return 4;
    if (here.wait(anybody) != LSCHED_ERR_PEER || here.why.rank != 2) return 5;
    lsched_message* sent = here.send(1 - self, 5, &memory, sizeof memory);
    if (here.wait(others) != LSCHED_OK || got != 1 - self) return 6;
    if (here.wait(sent) != LSCHED_OK) return 7;
    if (self == 0) {
      lsched_message* kept = here.receive(2, 1, &got, sizeof got);
      if (here.wait(kept) != LSCHED_OK || got != 2) return 8;
    }
    lsched_message* later = here.receive(LSCHED_ANY_RANK, 7, &any, sizeof any);
    const lsched_status first = here.wait(later, 4 * k_liveness_ns);
    if (first != LSCHED_OK && first != LSCHED_ERR_TIMEOUT) return 10;
    sent = here.send(1 - self, 7, &memory, sizeof memory);
    if (first != LSCHED_OK && here.wait(later) != LSCHED_OK) return 11;
    if (here.wait(sent) != LSCHED_OK || any != 1 - self) return 12;
    return ::testing::Test::HasFailure() ? 9 : 0;
  };
  child_ranks children(3, life);
  EXPECT_EQ(children.wait(), "rank 2 was ended by signal 9; ");
}

/// If no receive from LSCHED_ANY_RANK is posted when a rank dies, the next such receive must report the death, and
/// later ones must not.
TEST(messages, a_receive_from_any_rank_that_is_posted_after_a_death_ends) {
  auto segment = shm_segment::create(3, 64 << 20);
  ASSERT_TRUE(segment);
  const auto life = [&](rank self) -> int {
    be_launched(**segment, self);
    lsched_world* mine = nullptr;
    diagnostic why;
    const lsched_config config = test_config();
    if (lsched_world_open(&config, &mine, &why) != LSCHED_OK) return 2;
    box here(mine);
    std::int32_t got = -1;
    if (self == 2) raise(SIGKILL);
    if (here.wait(here.receive(2, 1, &got, sizeof got)) != LSCHED_ERR_PEER || here.why.rank != 2) return 3;
    if (here.wait(here.receive(LSCHED_ANY_RANK, 2, &got, sizeof got)) != LSCHED_ERR_PEER) return 4;
    if (here.why.rank != 2) return 5;
    lsched_message* others = here.receive(LSCHED_ANY_RANK, 3, &got, sizeof got);
    const lsched_status first = here.wait(others, 4 * k_liveness_ns);
    if (first != LSCHED_OK && first != LSCHED_ERR_TIMEOUT) return 6;
    lsched_message* sent = here.send(1 - self, 3, &self, sizeof self);
    if (first != LSCHED_OK && here.wait(others) != LSCHED_OK) return 7;
    if (here.wait(sent) != LSCHED_OK || got != 1 - self) return 8;
    return ::testing::Test::HasFailure() ? 9 : 0;
  };
  child_ranks children(3, life);
  EXPECT_EQ(children.wait(), "rank 2 was ended by signal 9; ");
}

}  // namespace
}  // namespace lsched::testing
