#include "ops/counted.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lsched {
namespace {

TEST(counted, is_singular_of_one_alone) {
  EXPECT_EQ(counted(0, "message"), "0 messages");
  EXPECT_EQ(counted(1, "message"), "1 message");
  EXPECT_EQ(counted(2U, "unexpected message"), "2 unexpected messages");
  EXPECT_EQ(counted(~std::uint64_t{0}, "element"), "18446744073709551615 elements");
}

}  // namespace
}  // namespace lsched
