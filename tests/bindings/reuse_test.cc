// Tests that a program may reuse its buffers as soon as a wait has returned PEER or CANCELLED. After the wait, no other
// rank reads the buffers, although other ranks may still finish the round. The tests run every collective and
// algorithm, with buffers of the library and of the program.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/support/reuse_trials.h"

namespace lsched {
namespace {

void try_cancels(std::uint64_t cancels) {
  std::uint64_t failed = 0;
  for (const rank ranks : {3, 5, 7, 4}) {
    const auto [finished, ended, complaints] = testing::reuse_after_cancels(ranks, 1, cancels / 4);
    EXPECT_EQ(complaints, "") << ranks << " ranks, " << finished << " finished rounds, " << ended << " that failed";
    failed += ended;
  }
  EXPECT_GT(failed, cancels / 4) << "too few ranks learn of a cancel during a round";
}

void try_deaths(std::uint64_t worlds) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= worlds; ++seed) {
    const rank ranks = std::array<rank, 4>{5, 7, 6, 8}[seed % 4];
    const auto [finished, ended, complaints] = testing::reuse_after_deaths(ranks, seed);
    EXPECT_EQ(complaints, "") << "seed " << seed << ", " << finished << " finished rounds, " << ended << " that failed";
    failed += ended;
  }
  EXPECT_GT(failed, worlds) << "too few ranks learn of a death during a round";
}

TEST(reuse, a_late_reader_gets_what_was_sent_or_an_error) { EXPECT_EQ(testing::reuse_before_a_late_reader(), ""); }
TEST(reuse, buffers_are_the_callers_after_a_cancel) { try_cancels(200); }
TEST(reuse_soak, buffers_are_the_callers_after_100000_cancels) { try_cancels(100'000); }
TEST(reuse, buffers_are_the_callers_after_a_death) { try_deaths(4); }
TEST(reuse_soak, buffers_are_the_callers_after_10000_deaths) { try_deaths(2223); }  // about 4.5 deaths per trial

}  // namespace
}  // namespace lsched
