// Tests of agreements with messages that correct members never send. tests/models explores all other messages.
#include "libsched/transport/agreement.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

struct silent_sender final : agreement::sender {
  void send(rank, const agreement::message&) override {}
};

TEST(agreement, ignores_outcomes_before_the_first_agreement) {
  silent_sender to;
  agreement on(0, 3, false, to);
  for (const auto kind : {agreement::kind::refuse, agreement::kind::settled, agreement::kind::refuse})
    on.take(1, {kind, 0, {}, {}});
  EXPECT_EQ(on.phase(), agreement::phase::idle);
  on.begin(1);
  EXPECT_EQ(on.phase(), agreement::phase::open);
}

}  // namespace
}  // namespace lsched
