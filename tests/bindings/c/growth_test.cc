// Tests of lsched_grow_begin and its companions. The ranks are threads. tests/bindings/hosts/grow_test.cc has the tests
// with processes and deaths.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/transport/net/descriptor.h"
#include "offload/open/door.h"
#include "tests/support/one_bucket.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_step_ns = 1'000'000;

std::string text_of(const lsched_world* world) {
  std::array<char, 2048> text{};
  EXPECT_EQ(lsched_grow_text(world, text.data(), text.size(), nullptr), LSCHED_OK);
  return text.data();
}

/// Waits for the admission of new ranks. Fails the test after the limit.
lsched_world* await_growth(lsched_world* world) {
  lsched_world* grown = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_grow(world, k_limit_ns, &grown, &why), LSCHED_OK) << why.text;
  EXPECT_NE(grown, nullptr);
  return grown;
}

void begin(lsched_world* world) {
  diagnostic why;
  const lsched_config config = test_config();
  ASSERT_EQ(lsched_grow_begin(world, &config, nullptr, &why), LSCHED_OK) << why.text;
}

/// Joins by the text of `of`, in a new thread, and runs `body` in the larger world.
std::jthread new_rank(const lsched_world* of, std::function<void(lsched_world*)> body) {
  return std::jthread([text = text_of(of), body = std::move(body)] {
    diagnostic why;
    lsched_world* world = nullptr;
    const lsched_config config = test_config();
    ASSERT_EQ(lsched_world_join(text.c_str(), k_limit_ns, &config, &world, &why), LSCHED_OK) << why.text;
    body(world);
    EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
  });
}

lsched_schedule* partial_of(lsched_world* world) {
  const lsched_partial_desc desc{.struct_size = sizeof desc,
                                 .count = 1,
                                 .dtype = LSCHED_I64,
                                 .reduction = LSCHED_SUM,
                                 .activation = "solo",
                                 .lag = LSCHED_ACCUMULATE};
  lsched_schedule* made = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_partial_create(world, &desc, &made, &why), LSCHED_OK) << why.text;
  return made;
}

TEST(growth_calls, new_ranks_follow_the_old_ranks) {
  for (const std::int32_t members : {1, 2, 3, 5}) {
    const world_of_threads old(members);
    old.each([](lsched_world* world, std::int32_t) { begin(world); });
    const auto check = [&](lsched_world* grown, std::int32_t rank) {
      EXPECT_EQ(lsched_size(grown), members + 1);
      EXPECT_EQ(lsched_rank(grown), rank);
      EXPECT_EQ(sum_over(grown, 1), members + 1);
    };
    const std::jthread joiner = new_rank(old.at(0), [&](lsched_world* grown) { check(grown, members); });
    old.each([&](lsched_world* world, std::int32_t rank) {
      lsched_world* const grown = await_growth(world);
      check(grown, rank);
      EXPECT_EQ(lsched_world_close(grown), LSCHED_OK);
    });
  }
}

// Rank 1 waits in an ordinary schedule that the other ranks do not start any more.
TEST(growth_calls, the_admission_ends_waits_in_the_old_world) {
  const world_of_threads old(3);
  std::array<lsched_schedule*, 3> barriers{};
  const lsched_collective_desc barrier{.struct_size = sizeof barrier, .collective = "barrier"};
  old.each([&](lsched_world* world, std::int32_t rank) {
    ASSERT_EQ(lsched_collective_create(world, &barrier, &barriers[static_cast<std::size_t>(rank)], nullptr), LSCHED_OK);
    begin(world);
  });
  const std::jthread joiner = new_rank(old.at(0), [](lsched_world* grown) { EXPECT_EQ(sum_over(grown, 1), 4); });
  old.each([&](lsched_world* world, std::int32_t rank) {
    lsched_world* grown = nullptr;
    diagnostic why;
    int attempts = 0;
    if (rank == 1) {
      ASSERT_EQ(lsched_grow(world, 0, &grown, nullptr), LSCHED_OK);
      while (grown == nullptr) {
        const lsched_status answer = lsched_run(barriers[1], k_step_ns, &why);
        if (answer == LSCHED_ERR_PEER) {
          EXPECT_TRUE(why.says("has grown") || why.says("died, or closed")) << why.text;
          ASSERT_EQ(lsched_shrink(world, k_limit_ns, &grown, &why), LSCHED_OK) << why.text;
        } else {
          ASSERT_TRUE(answer == LSCHED_ERR_TIMEOUT || answer == LSCHED_ERR_STATE) << why.text;
          ASSERT_EQ(lsched_grow(world, k_step_ns, &grown, nullptr), LSCHED_OK);
          ASSERT_LT(++attempts, 30'000);
        }
      }
    } else {
      grown = await_growth(world);
    }
    EXPECT_EQ(sum_over(grown, 1), 4);
    lsched_world* again = nullptr;
    EXPECT_EQ(lsched_grow(world, 0, &again, &why), LSCHED_ERR_STATE) << why.text;
    EXPECT_EQ(lsched_shrink(world, 0, &again, &why), LSCHED_ERR_STATE) << why.text;
    EXPECT_TRUE(why.says("pass the larger world")) << why.text;
    (void)lsched_schedule_destroy(barriers[static_cast<std::size_t>(rank)], k_limit_ns, nullptr);
    EXPECT_EQ(lsched_world_close(grown), LSCHED_OK);
  });
}

// Only rank 0 has permitted the admission. All ranks flush, and then the world grows.
TEST(growth_calls, a_flush_does_not_wait_for_an_admission) {
  const world_of_threads old(3);
  std::array<lsched_schedule*, 3> its{};
  old.each([&](lsched_world* world, std::int32_t rank) {
    its[static_cast<std::size_t>(rank)] = partial_of(world);
    begin(world);
  });
  const std::jthread joiner = new_rank(old.at(0), [](lsched_world* grown) { EXPECT_EQ(sum_over(grown, 1), 4); });
  lsched_world* none = nullptr;
  ASSERT_EQ(lsched_grow(old.at(0), 200'000'000, &none, nullptr), LSCHED_OK);  // long enough to open a larger world
  ASSERT_EQ(none, nullptr);
  old.each([&](lsched_world* world, std::int32_t rank) {
    lsched_schedule* const mine = its[static_cast<std::size_t>(rank)];
    diagnostic why;
    EXPECT_EQ(lsched_flush(mine, nullptr, k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
    lsched_world* const grown = await_growth(world);
    EXPECT_EQ(lsched_flush(mine, nullptr, k_limit_ns, nullptr, &why), LSCHED_ERR_PEER);
    EXPECT_TRUE(why.says("has grown")) << why.text;
    EXPECT_EQ(sum_over(grown, 1), 4);
    EXPECT_EQ(lsched_schedule_destroy(mine, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_world_close(grown), LSCHED_OK);
  });
}

// The ranks end their training one after the other, while a process tries to join.
TEST(growth_calls, the_growth_ends_while_a_process_joins) {
  const world_of_threads old(3);
  old.each([](lsched_world* world, std::int32_t) { begin(world); });
  std::jthread joiner([text = text_of(old.at(0))] {
    diagnostic why;
    lsched_world* world = nullptr;
    const lsched_config config = test_config();
    EXPECT_EQ(lsched_world_join(text.c_str(), 1'000'000'000, &config, &world, &why), LSCHED_ERR_TIMEOUT) << why.text;
    EXPECT_EQ(world, nullptr);
  });
  lsched_world* none = nullptr;
  ASSERT_EQ(lsched_grow(old.at(1), 200'000'000, &none, nullptr), LSCHED_OK);
  for (const std::int32_t rank : {1, 0, 2}) {
    diagnostic why;
    EXPECT_EQ(lsched_grow_end(old.at(rank), k_limit_ns, &none, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(lsched_grow(old.at(rank), 0, &none, &why), LSCHED_ERR_STATE) << why.text;
    EXPECT_EQ(lsched_grow_end(old.at(rank), 0, &none, &why), LSCHED_OK) << why.text;
  }
  joiner.join();
  old.each([](lsched_world* world, std::int32_t) { EXPECT_EQ(sum_over(world, 1), 3); });
}

TEST(growth_calls, wrong_calls_are_refused) {
  const world_of_threads old(3);
  lsched_world* none = nullptr;
  diagnostic why;
  std::size_t needed = 0;
  EXPECT_EQ(lsched_grow(old.at(0), 0, &none, &why), LSCHED_ERR_STATE) << why.text;
  EXPECT_EQ(lsched_grow_text(old.at(0), nullptr, 0, &needed), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_grow_end(old.at(0), 0, &none, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_grow(nullptr, 0, &none, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_grow(old.at(0), 0, nullptr, &why), LSCHED_ERR_ARGUMENT);
  old.each([](lsched_world* world, std::int32_t rank) {
    diagnostic reason;
    EXPECT_EQ(lsched_grow_begin(world, nullptr, "/nowhere/key", &reason), LSCHED_ERR_ARGUMENT);
    EXPECT_TRUE(reason.says("/nowhere/key")) << reason.text;
    lsched_config config = test_config();
    if (rank == 2) config.progress = LSCHED_PROGRESS_CALLER;
    EXPECT_EQ(lsched_grow_begin(world, &config, nullptr, &reason), LSCHED_ERR_UNSUPPORTED);
    EXPECT_TRUE(reason.says("LSCHED_PROGRESS_CALLER")) << reason.text;
    if (rank == 2) config.progress = 77;
    EXPECT_EQ(lsched_grow_begin(world, &config, nullptr, &reason), LSCHED_ERR_ARGUMENT) << reason.text;
    begin(world);
    EXPECT_EQ(lsched_grow_begin(world, nullptr, nullptr, &reason), LSCHED_ERR_STATE) << reason.text;
  });
  EXPECT_EQ(lsched_grow_text(old.at(2), nullptr, 0, &needed), LSCHED_OK);
  EXPECT_EQ(needed, text_of(old.at(2)).size() + 1);
}

TEST(growth_calls, a_wrong_text_is_refused) {
  const world_of_threads old(1);
  begin(old.at(0));
  const std::string right = text_of(old.at(0));
  lsched_world* none = nullptr;
  diagnostic why;
  for (const std::string& wrong : {std::string(), std::string("lsched-door-1:"), right + ":", right + "0",
                                   right.substr(0, right.size() - 1), right.substr(1), right.substr(0, 20)}) {
    EXPECT_EQ(lsched_world_join(wrong.c_str(), k_limit_ns, nullptr, &none, &why), LSCHED_ERR_ARGUMENT) << wrong;
    EXPECT_TRUE(why.says("lsched_grow_text")) << why.text;
  }
  std::string other = right;
  char& digit = other[std::strlen("lsched-door-1:")];
  digit = digit == '0' ? '1' : '0';
  EXPECT_EQ(lsched_world_join(other.c_str(), 300'000'000, nullptr, &none, &why), LSCHED_ERR_TIMEOUT);
  EXPECT_TRUE(why.says("another build")) << why.text;
  EXPECT_EQ(lsched_world_join("@/nowhere/key", 50'000'000, nullptr, &none, &why), LSCHED_ERR_TIMEOUT);
  EXPECT_TRUE(why.says("/nowhere/key")) << why.text;
  EXPECT_EQ(lsched_world_join(nullptr, 0, nullptr, &none, &why), LSCHED_ERR_ARGUMENT);
}

/// Connects to the door without a handshake.
descriptor connect_silently(const std::string& text) {
  const auto key = read_door_key(text);
  EXPECT_TRUE(key);
  descriptor made = new_socket(key->addresses[0]);
  (void)begin_connection(made.get(), key->addresses[0]);
  return made;
}

// The door has room for 64 connections without a proof, which it closes after two seconds.
TEST(growth_calls, strangers_do_not_keep_new_ranks_out) {
  const world_of_threads old(2);
  old.each([](lsched_world* world, std::int32_t) { begin(world); });
  std::vector<descriptor> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(connect_silently(text_of(old.at(0))));
  for (std::size_t i = 0; i < silent.size(); i += 3)
    (void)::send(silent[i].get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL | MSG_DONTWAIT);
  const std::jthread joiner = new_rank(old.at(0), [](lsched_world* grown) { EXPECT_EQ(sum_over(grown, 1), 3); });
  old.each([&](lsched_world* world, std::int32_t) {
    lsched_world* const grown = await_growth(world);
    EXPECT_EQ(sum_over(grown, 1), 3);
    EXPECT_EQ(lsched_world_close(grown), LSCHED_OK);
  });
}

// The file is readable only for its user, and a link at its place is not followed.
TEST(growth_calls, the_file_of_the_text_is_private) {
  const std::string directory = ::testing::TempDir(),
                    file = directory + "lsched_growth_key_" + std::to_string(getpid());
  const std::string victim = file + ".victim";
  std::ofstream(victim) << "untouched";
  ASSERT_EQ(symlink(victim.c_str(), (file + "." + std::to_string(getpid()) + ".new").c_str()), 0);
  const world_of_threads old(1);
  const lsched_config config = test_config();
  diagnostic why;
  ASSERT_EQ(lsched_grow_begin(old.at(0), &config, file.c_str(), &why), LSCHED_OK) << why.text;
  std::string words, text;
  std::ifstream(victim) >> words;
  std::ifstream(file) >> text;
  EXPECT_EQ(words, "untouched");
  EXPECT_EQ(text, text_of(old.at(0)));
  struct stat found {};
  ASSERT_EQ(stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  (void)unlink(file.c_str());
  (void)unlink(victim.c_str());
}

}  // namespace
}  // namespace lsched::testing
