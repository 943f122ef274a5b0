#include "libsched/session/session.h"

#include <gtest/gtest.h>

#include <array>

namespace lsched {
namespace {

using memory = std::span<const std::byte>;

TEST(memory_layout, memory_that_is_apart_may_not_overlap) {
  const std::array<std::byte, 12> all{};
  const memory whole(all);
  const memory_layout apart;
  EXPECT_TRUE(apart.fits(whole.first(6), whole.last(6)));
  EXPECT_TRUE(apart.fits(whole.last(6), whole.first(6)));
  EXPECT_FALSE(apart.fits(whole.first(7), whole.last(6)));
  EXPECT_FALSE(apart.fits(whole.last(6), whole.first(7)));
  EXPECT_FALSE(apart.fits(whole, whole));
}

TEST(memory_layout, memory_in_place_keeps_its_distance) {
  const std::array<std::byte, 12> all{};
  const memory whole(all);
  const memory_layout in_place{.in_place = true, .aliasing_bytes = 4};
  EXPECT_TRUE(in_place.fits(whole.subspan(4, 3), whole));
  EXPECT_FALSE(in_place.fits(whole.subspan(5, 3), whole));
  EXPECT_FALSE(in_place.fits(whole.first(3), whole.last(9)));
}

TEST(memory_layout, nothing_fits_anywhere) {
  const std::array<std::byte, 1> all{};
  for (const bool in_place : {false, true}) {
    EXPECT_TRUE((memory_layout{.in_place = in_place}.fits(memory(all), {})));
    EXPECT_TRUE((memory_layout{.in_place = in_place}.fits({}, memory(all))));
  }
}

}  // namespace
}  // namespace lsched
