// Tests how the driver counts rounds that streams start.
#include <gtest/gtest.h>

#include "offload/driver.h"
#include "tests/support/generators.h"
#include "tests/support/home_commits.h"
#include "tests/support/inproc.h"
#include "tests/support/stepped_device.h"

namespace lsched::testing {
namespace {

/// A world of one rank, and a barrier with a gate. The gate holds each round until the stream has reached a certain
/// point.
struct start_behind : ::testing::Test {
  start_behind() {
    runs.use(gpu);
    std::shared_ptr<schedule_commit> made;
    drives.with_engine([&] { made = commits.add({"barrier", barrier_dissemination({0, 1})}); });
    EXPECT_EQ(drives.wait(made->progress(), driver::clock::time_point::max()), status::ok);
    it = made->committed();
    EXPECT_EQ(runs.add_gate(*it), status::ok);
  }
  ~start_behind() override { EXPECT_EQ(runs.remove(*it), status::ok); }
  /// Adds one item of work to the stream, and starts the next round behind this item.
  status ask() {
    ++stream.put;
    return drives.start_behind(*it, &stream, &asked);
  }
  void come_by(std::uint64_t things) {
    stream.done += things;
    while (drives.progress()) continue;
  }

  inproc_world net{1, 1, {}};
  std::unique_ptr<endpoint> end = std::move(*net.open(0));
  stepped_device gpu{*end, 1};
  engine runs{*end};
  driver drives{runs, {}};
  home_commits commits{runs};
  instance* it = nullptr;
  stepped_stream stream;
  round_no asked = 0;
};

TEST_F(start_behind, sixteen_rounds_may_be_asked_for_ahead) {
  for (round_no round = 1; round <= round_gate::k_most_ahead; ++round) {
    EXPECT_EQ(ask(), status::ok);
    EXPECT_EQ(asked, round);
  }
  EXPECT_EQ(drives.start_behind(*it, &stream, &asked), status::busy);
  EXPECT_EQ(it->finished.load(), 0u);
  come_by(1);
  EXPECT_EQ(it->finished.load(), 1u);
  EXPECT_EQ(ask(), status::ok);
  EXPECT_EQ(asked, round_gate::k_most_ahead + 1);
  EXPECT_EQ(drives.start_behind(*it, &stream, &asked), status::busy);
  come_by(round_gate::k_most_ahead);
  EXPECT_EQ(it->finished.load(), round_gate::k_most_ahead + 1);
}

TEST_F(start_behind, a_start_by_a_thread_waits_its_turn) {
  EXPECT_EQ(ask(), status::ok);
  EXPECT_EQ(drives.start(*it, nullptr), status::state);
  come_by(1);
  EXPECT_EQ(drives.start(*it, nullptr), status::ok);
  EXPECT_EQ(it->finished.load(), 2u);
}

TEST_F(start_behind, what_the_stream_refuses_was_not_asked_for) {
  gpu.fail();
  EXPECT_EQ(ask(), status::device);
  EXPECT_EQ(it->called.load(), 0u);
  EXPECT_EQ(it->verdict.load(), status::ok);
}

TEST_F(start_behind, a_schedule_that_was_given_up_has_no_rounds) {
  EXPECT_EQ(ask(), status::ok);
  drives.with_engine([&] { runs.cancel(*it); });
  EXPECT_EQ(ask(), status::cancelled);
  EXPECT_EQ(it->called.load(), 1u);
  EXPECT_EQ(drives.wait(*it, asked, driver::clock::time_point::max()), status::cancelled);
}

}  // namespace
}  // namespace lsched::testing
