// Tests the exact top k against a stable sort of all values, on every SIMD target of this CPU.
#include "ops/sparse/sparse.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/ops/lists.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

// ---- lists

list all_of(dtype type, const elements& values) {
  list made;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (magnitude_of(type, values[i]) != 0) made.push_back({static_cast<std::uint32_t>(3 * i), values[i]});
  return made;
}

TEST(KeepLargest, keeps_the_first_of_the_order_by_magnitude) {
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths)
      for (const pattern& it : patterns(type, count, count)) {
        const list all = all_of(type, it.values);
        for (const std::size_t k :
             std::set<std::size_t>{0, 1, 2, all.size() / 3, all.size() - all.size() / 8,
                                   std::max<std::size_t>(all.size(), 1) - 1, all.size(), all.size() + 1}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + it.name + " " + std::to_string(k) + " of " +
                       std::to_string(all.size()));
          const list wanted = largest_of(type, all, k);
          on_every_target([&] {
            const list_in_memory items(type, all);
            const kept_items kept = sparse_kernels_of(type).keep_largest(items.data(), all.size(), k);
            ASSERT_EQ(kept.count, wanted.size());
            ASSERT_EQ(kept.magnitude, least_magnitude_of(type, wanted));
            ASSERT_EQ(items.content(kept.count), wanted);
            ASSERT_TRUE(items.is_intact());
          });
          if (HasFatalFailure()) return;
        }
      }
}

// ---- residuals

struct top_k_case {
  dtype type;
  const elements& residual;
  const elements* gradient;
  double scale;
  std::size_t k;
  nan_policy nans;
};

struct expectation {
  elements residual;
  list items;
};

constexpr std::uint32_t k_first_index = 11;

expectation expected(const top_k_case& it) {
  expectation wanted{it.residual, {}};
  for (std::size_t i = 0; i < it.residual.size(); ++i) {
    if (it.gradient != nullptr)
      wanted.residual[i] = accumulated(it.type, wanted.residual[i], it.scale, (*it.gradient)[i]);
    const std::uint64_t value = rounded(it.type, wanted.residual[i]);
    if (magnitude_of(it.type, value) == 0 || (it.nans == nan_policy::ignore && is_nan(it.type, value))) continue;
    wanted.items.push_back({k_first_index + static_cast<std::uint32_t>(i), value});
  }
  wanted.items = largest_of(it.type, wanted.items, it.k);
  return wanted;
}

/// Checks one selection. Returns the number of passes that the selection needed.
std::size_t expect_top_k(const top_k_case& it, const expectation& wanted, std::size_t room, top_k_hint& hint) {
  const dense_in_memory residual(residual_of(it.type), it.residual);
  const dense_in_memory gradient(it.type, it.gradient != nullptr ? *it.gradient : elements{});
  const list_in_memory items(it.type, room);
  const accumulation from{residual.data(), it.gradient != nullptr ? gradient.data() : nullptr, it.scale,
                          it.residual.size(), k_first_index};
  const top_k_list found = sparse_kernels_of(it.type).top_k(from, it.k, it.nans, items.data(), room, hint);
  EXPECT_EQ(found.count, wanted.items.size());
  EXPECT_EQ(found.magnitude, least_magnitude_of(it.type, wanted.items));
  EXPECT_EQ(items.content(found.count), wanted.items);
  EXPECT_EQ(residual.content(), wanted.residual);
  EXPECT_TRUE(residual.is_intact() && items.is_intact());
  return found.passes;
}

/// Checks the selection with different capacities, without a hint and with different hints.
void expect_right(const top_k_case& it) {
  const expectation wanted = expected(it);
  const std::size_t least_room = std::min(it.k, it.residual.size());
  const std::uint64_t kth = least_magnitude_of(it.type, wanted.items);
  const std::uint64_t highest = magnitude_of(it.type, ~std::uint64_t{0});
  on_every_target([&] {
    for (const std::size_t room : {least_room, least_room + 1, 3 * least_room, it.residual.size() + 5})
      for (const std::uint64_t least :
           {std::uint64_t{0}, std::uint64_t{1}, kth, kth + 1, kth - (kth >> 5), infinity_of(it.type), highest}) {
        if (room < least_room) continue;
        top_k_hint hint{std::min(least, highest)};
        SCOPED_TRACE("room " + std::to_string(room) + " hint " + std::to_string(least));
        expect_top_k(it, wanted, room, hint);
        ASSERT_FALSE(::testing::Test::HasFailure());
      }
  });
}

TEST(TopK, is_exact_whatever_the_hint_and_the_room) {
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths) {
      const auto residuals = patterns(residual_of(type), count, count), gradients = patterns(type, count, count + 1);
      for (std::size_t i = 0; i < residuals.size(); i += lsched::testing::sampled() ? 3u : 1u)
        for (const std::size_t k :
             std::set<std::size_t>{0, 1, 2, count / 3, std::max<std::size_t>(count, 1) - 1, count, count + 5}) {
          const nan_policy nans = (i + k) % 2 == 0 ? nan_policy::propagate : nan_policy::ignore;
          SCOPED_TRACE(std::string(name_of(type)) + " " + residuals[i].name + " " + std::to_string(k) + " of " +
                       std::to_string(count));
          expect_right({type, residuals[i].values, nullptr, 1, k, nans});
          expect_right({type, residuals[i].values, &gradients[(i + k) % gradients.size()].values, 0.7, k, nans});
          if (HasFailure()) return;
        }
    }
}

/// All residuals round to a few values of the item type. Differences that disappear by rounding must not influence the
/// order.
TEST(TopK, orders_by_rounded_values) {
  std::mt19937_64 draw(5);
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    elements residual(1500);
    for (std::uint64_t& it : residual) it = bits_of(dtype::f32, (1 + static_cast<double>(draw() % 4096) * 0x1p-17));
    for (const std::size_t k : sizes{1, 10, 300, 1499}) {
      expect_right({type, residual, nullptr, 1, k, nan_policy::propagate});
      if (HasFailure()) return;
    }
  }
}

/// Uses many equal values in several chunks. One of the capacities is exactly k.
TEST(TopK, breaks_ties_by_index_where_they_do_not_fit) {
  for (const dtype type : k_floats) {
    elements residual(3000, bits_of(residual_of(type), -1));
    for (std::size_t i = 5; i < residual.size(); i += 500) residual[i] = bits_of(residual_of(type), 2);
    for (const std::size_t k : sizes{3, 6, 7, 300, 2000}) {
      expect_right({type, residual, nullptr, 1, k, nan_policy::propagate});
      if (HasFailure()) return;
    }
  }
}

TEST(TopK, takes_one_pass_by_the_hint_of_the_round_before) {
  constexpr std::size_t count = 8000, k = 80;
  for (const dtype type : k_floats)
    on_every_target([&] {
      std::mt19937_64 draw(9);
      elements residual(count, 0);
      top_k_hint hint;
      for (int round = 0; round < 25; ++round) {
        elements gradient(count);
        for (std::uint64_t& it : gradient) it = bits_of(type, drawn_normal(draw));
        const top_k_case it{type, residual, &gradient, 1, k, nan_policy::propagate};
        expectation wanted = expected(it);
        const std::size_t passes = expect_top_k(it, wanted, 6 * k, hint);
        EXPECT_LE(passes, 4U);
        EXPECT_TRUE(passes == 1 || round < 4) << "round " << round;  // the residual grows fast in the first rounds
        for (const entry& sent : wanted.items) wanted.residual[sent.index - k_first_index] = 0;
        residual = wanted.residual;
        ASSERT_FALSE(HasFailure());
      }
    });
}

/// If a round has fewer than k non-zero values, the next round needs only one pass.
TEST(TopK, takes_one_pass_over_vectors_that_are_sparse_already) {
  elements residual(1000, 0);
  for (std::size_t i = 3; i < residual.size(); i += 100) residual[i] = bits_of(dtype::f32, static_cast<double>(i));
  const top_k_case it{dtype::f32, residual, nullptr, 1, 50, nan_policy::propagate};
  top_k_hint hint;
  expect_top_k(it, expected(it), 100, hint);
  EXPECT_EQ(expect_top_k(it, expected(it), 100, hint), 1U);
}

TEST(TopK, of_integers_does_not_exist) {
  EXPECT_EQ(sparse_kernels_of(dtype::i32).top_k, nullptr);
  EXPECT_EQ(sparse_kernels_of(dtype::u8).keep_largest, nullptr);
}

}  // namespace
}  // namespace lsched
