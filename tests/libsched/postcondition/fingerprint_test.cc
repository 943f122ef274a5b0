#include "libsched/postcondition/fingerprint.h"

#include <gtest/gtest.h>

#include <array>

namespace lsched {
namespace {

TEST(weights, each_draw_is_another_and_the_process_keeps_its_own) {
  const random_weights one = draw_weights(), other = draw_weights();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NE(weight_of_leaf(one, 7)[i], weight_of_leaf(other, 7)[i]);
    EXPECT_NE(one.shift_steps[i], other.shift_steps[i]);
    EXPECT_NE(one.element_steps[i], other.element_steps[i]);
  }
  EXPECT_NE(weight_of_leaf(one, 7)[0], weight_of_leaf(one, 7)[1]);
  EXPECT_NE(one.tree_key, other.tree_key);
  EXPECT_EQ(weight_of_leaf(the_weights(), 7), weight_of_leaf(the_weights(), 7));
}

/// The prime factors of the order of the multiplicative group modulo k_prime.
constexpr std::array<std::uint64_t, 14> k_primes{2, 3, 3, 5, 5, 7, 11, 13, 31, 41, 61, 151, 331, 1321};

/// A number x generates the group if, for every prime factor p of the order, x^(order / p) differs from 1.
TEST(weights, no_shift_is_undone_by_another_distance) {
  std::uint64_t product = 1;
  for (const std::uint64_t prime : k_primes) product *= prime;
  ASSERT_EQ(product, k_prime - 1);
  for (int draws = 0; draws < 20; ++draws) {
    const random_weights drawn = draw_weights();
    for (const auto& steps : {drawn.shift_steps, drawn.element_steps})
      for (const std::uint64_t step : steps)
        for (const std::uint64_t prime : k_primes)
          EXPECT_NE(modular_power(step, (k_prime - 1) / prime), 1u) << step << ", " << prime;
  }
}

TEST(weights, elements_add_up_to_their_range) {
  for (const std::uint64_t end : {0u, 1u, 3u, 5u, 1000u}) {
    fingerprint all;
    for (std::uint64_t i = 0; i < end; ++i) all = joined(all, products_of(1, 2, i, i + 1));
    EXPECT_EQ(all, products_of(1, 2, 0, end)) << end;
    EXPECT_EQ(all.size, end);
  }
}

TEST(fingerprint, a_number_that_is_too_large_to_say_stays_too_large) {
  fingerprint it{{1, 2}, 1};
  for (int i = 0; i < 64; ++i) it = joined(it, it);
  const std::uint64_t most = it.size;
  EXPECT_EQ(most, k_saturated);
  EXPECT_EQ(joined(it, {{0, 0}, 1}).size, most);
  EXPECT_EQ(joined({{0, 0}, k_saturated - 1}, {{0, 0}, 1}).size, most);
  EXPECT_EQ(joined({{0, 0}, k_saturated - 2}, {{0, 0}, 1}).size, most - 1);
}

}  // namespace
}  // namespace lsched
