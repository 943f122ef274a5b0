// Tests the explorer. It must find exactly the executions that the memory model allows. A search that does not finish
// must fail.
#include "tests/models/explorer.h"

#include <gtest/gtest.h>

#include <linux/futex.h>
#include <climits>
#include <ctime>

#include "tests/models/threads.h"

namespace models {
namespace {

struct words {
  word x = 0, y = 0, seen_by_first = 9, seen_by_second = 9;
};

/// Explores two threads that each write one variable and then read the other variable. Returns whether there is an
/// execution in which neither thread sees the other thread's write.
bool both_can_miss(memory model, void (*write)(word*, word)) {
  threads all(model);
  words* shared = nullptr;
  all.set_up([&] { shared = new words; });
  all.add("first", [=] {
    write(&shared->x, 1);
    shared->seen_by_first = load(&shared->y);
  });
  all.add("second", [=] {
    write(&shared->y, 1);
    shared->seen_by_second = load(&shared->x);
  });
  all.expect([=](bool is_last) -> std::string {
    return is_last && shared->seen_by_first == 0 && shared->seen_by_second == 0 ? "both miss" : "";
  });
  return explore(all).fault == "both miss";
}

TEST(explorer, store_buffers_are_there_and_locked_instructions_empty_them) {
  EXPECT_TRUE(both_can_miss(memory::tso, store));
  EXPECT_FALSE(both_can_miss(memory::sc, store));
  EXPECT_FALSE(both_can_miss(memory::tso, store_in_order));
}

/// The stores of one thread become visible in order, so a thread that sees the second store also sees the first.
TEST(explorer, a_store_buffer_is_first_in_first_out) {
  threads all;
  words* shared = nullptr;
  all.set_up([&] { shared = new words; });
  all.add("writer", [=] {
    store(&shared->x, 1);
    store(&shared->y, 1);
    require(load(&shared->x) == 1, "it does not see its own store");
  });
  all.add("reader", [=] {
    const word y = load(&shared->y);
    require(y == 0 || load(&shared->x) == 1, "the order is lost");
  });
  const report found = explore(all);
  EXPECT_EQ(found.fault, "") << to_text(found);
}

/// Each of two threads makes three loads. After the first step of each thread, the reachable states form a grid.
TEST(explorer, visits_every_interleaving_once) {
  threads all(memory::sc);
  words* shared = nullptr;
  all.set_up([&] { shared = new words; });
  for (const char* name : {"first", "second"})
    all.add(name, [=] {
      for (int i = 0; i < 3; ++i) (void)load(&shared->x);
    });
  const report found = explore(all);
  EXPECT_EQ(found.fault, "");
  EXPECT_EQ(found.states, 2u + 4u * 4u);
  EXPECT_EQ(found.moves, 2u + 2u * 3u * 4u);
  EXPECT_EQ(found.ends, 1u);
}

report two_increments(word& (*change)(word*)) {
  threads all;
  words* shared = nullptr;
  all.set_up([&] { shared = new words; });
  for (const char* name : {"first", "second"})
    all.add(name, [=] {
      const word before = load(&shared->x);
      change(&shared->x) = before + 1;
    });
  all.expect([=](bool is_last) -> std::string { return is_last && shared->x != 2 ? "an increment is lost" : ""; });
  return explore(all);
}

TEST(explorer, a_fault_comes_with_the_steps_that_lead_to_it) {
  const report found = two_increments(locked);
  EXPECT_EQ(found.fault, "an increment is lost");
  EXPECT_NE(found.path.find("first: reads"), std::string::npos);
  EXPECT_NE(found.path.find("second: changes"), std::string::npos);
}

TEST(explorer, a_search_that_reaches_a_limit_has_not_passed) {
  threads all;
  word* x = nullptr;
  all.set_up([&] { x = new word(0); });
  all.add("counter", [=] {
    for (;;) ++locked(x);
  });
  EXPECT_EQ(explore(all, {.states = 1000}).fault, "not finished: the limit on the number of states was reached");
}

TEST(explorer, a_waker_may_choose_any_sleeper) {
  threads all;
  words* shared = nullptr;
  all.set_up([&] { shared = new words; });
  for (const char* name : {"first", "second"})
    all.add(name, [=] { futex(0, &shared->x, FUTEX_WAIT, 0, nullptr, nullptr, 0); });
  all.add("waker", [=] { futex(0, &shared->x, FUTEX_WAKE, 1, nullptr, nullptr, 0); });
  std::set<std::string> left;
  all.expect([&](bool is_last) {
    if (is_last) left.insert(all.unfinished());
    return std::string();
  });
  EXPECT_EQ(explore(all).fault, "");
  EXPECT_EQ(left, (std::set<std::string>{"first sleeps", "second sleeps", "first sleeps, second sleeps"}));
}

/// One thread polls a variable and sleeps between the polls. The other thread, if there is one, stores the variable
/// without a wake-up. Returns the fault that the explorer finds.
std::string naps_until_stored(long nanoseconds, bool is_stored) {
  threads all;
  words* shared = nullptr;
  all.set_up([&] { shared = new words; });
  all.add("napper", [=] {
    const timespec limit{.tv_sec = 0, .tv_nsec = nanoseconds};
    while (load(&shared->x) == 0) futex(0, &shared->y, FUTEX_WAIT, 0, &limit, nullptr, 0);
  });
  if (is_stored) all.add("storer", [=] { store(&shared->x, 1); });
  all.expect([&](bool is_last) { return is_last ? all.unfinished() : std::string(); });
  return explore(all).fault;
}

TEST(explorer, a_nap_ends_a_longer_sleep_does_not) {
  EXPECT_EQ(naps_until_stored(1'000'000, true), "");
  EXPECT_EQ(naps_until_stored(200'000'000, true), "napper sleeps");
  EXPECT_EQ(naps_until_stored(1'000'000, false), "napper naps repeatedly without progress");
}

}  // namespace
}  // namespace models
