#include "offload/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "build_options.h"

namespace lsched {
namespace {

cpu_set_t allowed_here() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  EXPECT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  return allowed;
}

/// Runs `body` in a new thread, because a thread that was bound to a core stays bound.
template <class Body>
void on_a_thread(Body&& body) {
  std::thread(body).join();
}

TEST(pinning, a_thread_is_bound_to_the_one_core_it_asks_for) {
  on_a_thread([] {
    const auto core = static_cast<unsigned>(sched_getcpu());
    ASSERT_TRUE(bind_this_thread(core));
    const cpu_set_t now = allowed_here();
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(core, &now));
    EXPECT_EQ(sched_getcpu(), static_cast<int>(core));
  });
}

TEST(pinning, a_core_that_does_not_exist_is_refused_and_nothing_changes) {
  on_a_thread([] {
    const cpu_set_t before = allowed_here();
    EXPECT_FALSE(bind_this_thread(CPU_SETSIZE - 1));
    EXPECT_FALSE(bind_this_thread(1u << 30));
    const cpu_set_t after = allowed_here();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  });
}

TEST(pinning, a_core_near_the_caller_is_allowed_and_another_one) {
  on_a_thread([] {
    const cpu_set_t allowed = allowed_here();
    const auto here = static_cast<unsigned>(sched_getcpu());
    if (!bind_this_thread(here)) GTEST_SKIP() << "threads cannot be bound here";
    EXPECT_FALSE(core_near_caller(1).has_value()) << "the only core is that of the caller";
    ASSERT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
    const auto near = core_near_caller(1);
    if (!near) return;  // the machine has one core, or the library has no hwloc
    EXPECT_TRUE(CPU_ISSET(*near, &allowed));
  });
}

TEST(pinning, with_less_than_two_cores_a_rank_the_scheduler_decides) {
  const cpu_set_t allowed = allowed_here();
  EXPECT_FALSE(core_near_caller(static_cast<unsigned>(CPU_COUNT(&allowed)) / 2 + 1).has_value());
}

TEST(pinning, the_topology_library_says_its_name) {
  const std::string name = topology_library();
#if LSCHED_HAVE_HWLOC
  EXPECT_EQ(name.rfind("hwloc ", 0), 0u) << name;
#else
  EXPECT_EQ(name, "none");
#endif
}

}  // namespace
}  // namespace lsched
