// Tests of worlds in sandboxes that refuse system calls. If the library needs a refused call, the open fails and the
// error names the call. Some calls only help to notice deaths. If these calls are refused, the library notices deaths
// by other means (blame_test.cc).
#include "tests/bindings/blame/sandbox.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bindings/c/lsched.h"
#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"

namespace lsched::testing {
namespace {

/// Opens a world in a sandbox, in a child process. Returns the exit status of the child: 0 if the open fails as
/// expected.
int open_in_a_sandbox(const std::string& refused, const std::string& expected_words) {
  refuse_calls(refused);
  lsched_diagnostic why{.struct_size = sizeof why};
  lsched_world* world = nullptr;
  const lsched_status answer = lsched_world_open(nullptr, &world, &why);
  if (answer == LSCHED_ERR_UNSUPPORTED && std::string(why.text).find(expected_words) != std::string::npos) return 0;
  return std::fprintf(stderr, "%s: %s: %s\n", refused.c_str(), lsched_status_name(answer), why.text), 1;
}

TEST(sandbox, a_world_names_the_system_call_that_it_lacks) {
  for (const std::string refused : {"madvise", "fcntl", "ftruncate", "futex"}) {
    child_ranks child(1, [&](rank) { return open_in_a_sandbox(refused, refused); });
    EXPECT_EQ(child.wait(), "") << refused;
  }
}

TEST(sandbox, a_world_does_not_open_where_no_death_could_be_noticed) {
  const auto segment = *shm_segment::create(2, 1 << 20);
  child_ranks child(1, [&](rank self) {
    be_launched(*segment, self);
    return open_in_a_sandbox("kill,set_robust_list,readlink", "death");
  });
  EXPECT_EQ(child.wait(), "");
}

}  // namespace
}  // namespace lsched::testing
