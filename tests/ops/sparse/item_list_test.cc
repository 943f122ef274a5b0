// Tests the kernels of item lists against maps and loops, on every SIMD target of this CPU.
#include "ops/sparse/sparse.h"

#include <gtest/gtest.h>

#include <map>

#include "collectives/baselines/merge_add.h"
#include "tests/ops/lists.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_seed = 77;

/// Calls `body` with lists of many lengths, some of them with hard values, for each type.
void for_each_list(const std::function<void(dtype, const list&, std::size_t span)>& body) {
  std::mt19937_64 draw(k_seed);
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths)
      for (const bool is_hard : {false, true})
        for (const std::size_t sparsity : sizes{1, 3}) {
          const std::size_t span = std::max<std::size_t>(count * sparsity, 1);
          const list all = drawn_list(type, count, span, draw, is_hard);
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(all.size()));
          body(type, all, span);
          if (testing::Test::HasFailure()) return;
        }
}

// ---- one list

TEST(CountMagnitudes, counts_from_low_on_and_all_above_in_the_last_bin) {
  for_each_list([](dtype type, const list& all, std::size_t) {
    const std::uint64_t one = magnitude_of(type, bits_of(type, 1.0));
    const auto most_bits = static_cast<unsigned>(8 * size_of(type) - 1);
    for (const magnitude_bins where : {magnitude_bins{0, most_bits, 1}, magnitude_bins{0, most_bits - 5, 32},
                                       magnitude_bins{one, most_bits - 8, 7}, magnitude_bins{one, 0, 3}}) {
      std::vector<std::uint64_t> wanted(where.count, 100);
      for (const entry& it : all) {
        const std::uint64_t magnitude = magnitude_of(type, it.value);
        std::size_t b = where.count - 1;
        while (b > 0 && magnitude < where.low + (static_cast<std::uint64_t>(b) << where.shift)) --b;
        if (magnitude >= where.low) ++wanted[b];
      }
      on_every_target([&] {
        const list_in_memory items(type, all);
        std::vector<std::uint64_t> bins(where.count, 100);
        sparse_kernels_of(type).count_magnitudes(items.data(), all.size(), where, bins.data());
        ASSERT_EQ(bins, wanted);
      });
    }
  });
}

TEST(FilterItems, keeps_those_above_and_the_first_ties) {
  for_each_list([](dtype type, const list& all, std::size_t) {
    list ties = all;
    for (std::size_t i = 0; i < ties.size(); ++i)
      if (i % 4 != 1) ties[i].value = bits_of(type, i % 3 == 0 ? 2 : -2);
    const std::uint64_t magnitude = magnitude_of(type, bits_of(type, 2));
    for (const std::size_t kept_ties : {std::size_t{0}, std::size_t{1}, all.size() / 2, all.size()}) {
      list wanted;
      std::size_t left = kept_ties;
      for (const entry& it : ties) {
        const std::uint64_t own = magnitude_of(type, it.value);
        if (own > magnitude || (own == magnitude && left > 0)) wanted.push_back(it);
        if (own == magnitude && left > 0) --left;
      }
      on_every_target([&] {
        const list_in_memory items(type, ties), output(type, wanted.size());
        ASSERT_EQ(sparse_kernels_of(type).filter_items(items.data(), ties.size(), magnitude, kept_ties, output.data()),
                  wanted.size());
        ASSERT_EQ(output.content(wanted.size()), wanted);
        ASSERT_EQ(items.content(ties.size()), ties);
        ASSERT_EQ(sparse_kernels_of(type).filter_items(items.data(), ties.size(), magnitude, kept_ties, items.data()),
                  wanted.size());
        ASSERT_EQ(items.content(wanted.size()), wanted);
        ASSERT_TRUE(output.is_intact() && items.is_intact());
      });
    }
  });
}

TEST(Scatter, writes_quotients_and_nothing_else) {
  for_each_list([](dtype type, const list& all, std::size_t span) {
    for (const std::uint64_t divisor : {1UL, 7UL, ~0UL}) {
      elements wanted(span, bits_of(type, 9));
      for (const entry& it : all) wanted[it.index] = quotient(type, it.value, divisor);
      on_every_target([&] {
        const list_in_memory items(type, all);
        const dense_in_memory dense(type, elements(span, bits_of(type, 9)));
        sparse_kernels_of(type).scatter(items.data(), all.size(), divisor, dense.data());
        ASSERT_EQ(dense.content(), wanted);
        ASSERT_TRUE(dense.is_intact());
      });
    }
  });
}

// ---- sums

std::uint64_t sum_in_residual(dtype type, std::uint64_t residual, std::uint64_t value) {
  return accumulated(type, residual, 1, value);
}

list sum_of(dtype type, const std::vector<list>& lists) {
  std::map<std::uint32_t, std::uint64_t> sums;
  for (const list& one : lists)
    for (const entry& it : one) sums[it.index] = sum_in_residual(type, sums[it.index], it.value);
  list made;
  for (const auto& [index, sum] : sums)
    if (magnitude_of(type, rounded(type, sum)) != 0) made.push_back({index, rounded(type, sum)});
  return made;
}

TEST(SparseSum, is_the_fold_of_the_lists_in_their_order) {
  std::mt19937_64 draw(k_seed);
  for (const dtype type : k_floats)
    for (const std::size_t region : sizes{1, 63, 64, 65, 200, 1000})
      for (const std::size_t n : sizes{0, 1, 2, 3, 7})
        for (const bool is_hard : {false, true}) {
          std::vector<list> lists;
          for (std::size_t i = 0; i < n; ++i)
            lists.push_back(drawn_list(type, region * (i % 3 + 1) / 4, region, draw, is_hard));
          if (n == 3)  // makes the third list cancel the second
            for (entry& it : lists[2] = lists[1]) it.value ^= std::uint64_t{1} << (8 * size_of(type) - 1);
          const list wanted = sum_of(type, lists);
          std::vector<bool> is_touched(region);
          for (const list& one : lists)
            for (const entry& it : one) is_touched[it.index] = true;
          const auto touched_count = static_cast<std::size_t>(std::count(is_touched.begin(), is_touched.end(), true));
          on_every_target([&] {
            const dense_in_memory sums(residual_of(type), elements(region, 0));
            std::vector<std::uint64_t> touched(bitmap_words(region) + 1, 0);
            touched.back() = ~std::uint64_t{0};
            for (const list& one : lists)
              sparse_kernels_of(type).scatter_add(list_in_memory(type, one).data(), one.size(), sums.data(),
                                                  touched.data());
            const list_in_memory items(type, touched_count);
            ASSERT_EQ(sparse_kernels_of(type).gather_touched(sums.data(), touched.data(), region, items.data()),
                      wanted.size());
            ASSERT_EQ(items.content(wanted.size()), wanted);
            ASSERT_EQ(sums.content(), elements(region, 0));
            ASSERT_EQ(touched.back(), ~std::uint64_t{0});
            touched.pop_back();
            ASSERT_EQ(touched, elements(touched.size(), 0));
            ASSERT_TRUE(sums.is_intact() && items.is_intact());
          });
          if (HasFailure()) return;
        }
}

/// Calls `body` with two lists that have many, few, all or no indices in common.
void for_each_two(const std::function<void(dtype, const list&, const list&, std::size_t span)>& body) {
  std::mt19937_64 draw(k_seed);
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths)
      for (const bool is_hard : {false, true}) {
        const std::size_t span = 2 * count + 2;
        const list one = drawn_list(type, count, span, draw, is_hard),
                   other = drawn_list(type, count, span, draw, is_hard);
        list even, odd, beyond, opposite = one;
        for (const entry& it : other) (it.index % 2 == 0 ? even : odd).push_back(it);
        for (entry it : other) it.index += static_cast<std::uint32_t>(span), beyond.push_back(it);
        for (entry& it : opposite) it.value ^= std::uint64_t{1} << (8 * size_of(type) - 1);
        for (const auto& [a, b] : {std::pair{one, other},
                                   {one, one},
                                   {one, opposite},
                                   {even, odd},
                                   {one, list{}},
                                   {list{}, other},
                                   {one, beyond},
                                   {beyond, one},
                                   {one, even}}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(a.size()) + " " + std::to_string(b.size()));
          body(type, a, b, 2 * span);
          if (testing::Test::HasFailure()) return;
        }
      }
}

/// Returns the sum of two lists. If both lists have an index, the values are added and rounded once. If only one list
/// has an index, the value keeps its bits.
list merged(dtype type, const list& lower, const list& upper) {
  std::map<std::uint32_t, std::uint64_t> all;
  for (const entry& it : lower) all[it.index] = it.value;
  for (const entry& it : upper) {
    const auto at = all.find(it.index);
    if (at == all.end())
      all[it.index] = it.value;
    else
      at->second =
          rounded(type, sum_in_residual(type, bits_of(residual_of(type), value_of(type, at->second)), it.value));
  }
  list made;
  for (const auto& [index, value] : all)
    if (magnitude_of(type, value) != 0) made.push_back({index, value});
  return made;
}

TEST(MergeAdd, adds_what_both_have_and_copies_the_rest) {
  for_each_two([](dtype type, const list& lower, const list& upper, std::size_t) {
    const list wanted = merged(type, lower, upper);
    on_every_target([&] {
      const list_in_memory a(type, lower), b(type, upper), items(type, lower.size() + upper.size());
      ASSERT_EQ(find_merge_add(type)(a.data(), lower.size(), b.data(), upper.size(), items.data()), wanted.size());
      ASSERT_EQ(items.content(wanted.size()), wanted);
      ASSERT_TRUE(items.is_intact());
    });
  });
}

// ---- residuals

TEST(Settle, takes_off_what_was_sent_and_has_arrived) {
  std::mt19937_64 draw(k_seed);
  for_each_two([&](dtype type, const list& sent, const list& arrived, std::size_t span) {
    const dtype wide = residual_of(type);
    elements residual(span);
    for (std::uint64_t& it : residual) it = bits_of(wide, drawn_normal(draw));
    for (const entry& it : sent)  // for two of three sent items, the residual is equal or close to the sent value
      if (it.index % 3 != 0)
        residual[it.index] = bits_of(wide, value_of(type, it.value) * (1 + it.index % 3 * 0x1p-13));
    elements wanted = residual;
    std::size_t common = 0;
    for (const entry& it : sent) {
      if (std::none_of(arrived.begin(), arrived.end(), [&](const entry& other) { return other.index == it.index; }))
        continue;
      ++common;
      const std::uint64_t rest = accumulated(type, residual[it.index], -1, it.value);
      wanted[it.index] =
          type == dtype::f64 || type == dtype::f32 || magnitude_of(wide, rest) >= infinity_of(wide) ? 0 : rest;
    }
    on_every_target([&] {
      const list_in_memory mine(type, sent), theirs(type, arrived);
      const dense_in_memory rest(wide, residual);
      ASSERT_EQ(sparse_kernels_of(type).settle(rest.data(), mine.data(), sent.size(), theirs.data(), arrived.size()),
                common);
      ASSERT_EQ(rest.content(), wanted);
      ASSERT_TRUE(rest.is_intact());
    });
  });
}

TEST(SparseSum, of_integers_does_not_exist) {
  EXPECT_EQ(sparse_kernels_of(dtype::i32).scatter_add, nullptr);
  EXPECT_EQ(sparse_kernels_of(dtype::i32).gather_touched, nullptr);
  EXPECT_EQ(sparse_kernels_of(dtype::i32).settle, nullptr);
  EXPECT_EQ(sparse_kernels_of(dtype::i32).scatter, nullptr);
  EXPECT_EQ(sparse_kernels_of(dtype::i32).filter_items, nullptr);
  EXPECT_EQ(sparse_kernels_of(dtype::i32).count_magnitudes, nullptr);
}

}  // namespace
}  // namespace lsched
