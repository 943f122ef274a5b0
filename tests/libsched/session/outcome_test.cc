#include "libsched/session/outcome.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

TEST(outcome, of_a_round_is_ok_even_if_the_instance_failed_later) {
  instance runs;
  runs.finished.store(2);
  EXPECT_EQ(outcome_of({runs, 2, 2}), status::ok);
  EXPECT_EQ(outcome_of({runs, 3, 3}), status::pending);
  runs.verdict.store(status::peer);
  EXPECT_EQ(outcome_of({runs, 2, 2}), status::ok);
  EXPECT_EQ(outcome_of({runs, 3, 3}), status::peer);
}

TEST(outcome, of_a_failed_instance_names_the_rank_to_blame) {
  instance runs;
  runs.label = "barrier #1";
  runs.device = std::make_unique<device_state>();
  runs.device->failure_words = "the device is lost";
  EXPECT_EQ(describe_failure(runs, status::bounds).text, "barrier #1: " + std::string(text_of(status::bounds)));
  runs.culprit.store(4);
  const failure peer = describe_failure(runs, status::peer);
  EXPECT_EQ(peer.code, status::peer);
  EXPECT_EQ(peer.peer, 4);
  EXPECT_EQ(peer.text, "barrier #1: rank 4 died, or closed its world or the schedule without leaving");
  EXPECT_EQ(describe_failure(runs, status::cancelled).text, "barrier #1: rank 4 has cancelled the schedule");
  EXPECT_EQ(describe_failure(runs, status::device).text, "barrier #1: the device is lost");
  EXPECT_EQ(describe_failure(runs, status::bounds).text,
            "barrier #1: the elements that rank 4 has sent do not fit into their block: set a larger recv_counts");
  EXPECT_EQ(describe_failure(runs, status::transport).text.find("barrier #1: a message of rank 4 cannot be read"), 0u);
}

}  // namespace
}  // namespace lsched
