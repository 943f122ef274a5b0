// Tests of the word counts for balanced regions (Fig. 7 of the Ok-Topk paper). The counts must be within bounds, and
// the same seed must give the same counts.
#include "microbench/sparse/sparse_balance.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lsched::bench {
namespace {

double number(const result& row, const char* key) { return row.at(key).get<double>(); }

std::vector<result> count(const balance_options& options) {
  return count_balance(options, [](const std::string&) {});
}

balance_options small_balance() { return {.ranks = {3, 7, 8}, .n = 30000, .density = 0.02, .iterations = 128}; }

const result& row_named(const std::vector<result>& rows, std::uint64_t ranks, const std::string& phase,
                        const std::string& regions, const std::string& rule) {
  return *std::ranges::find_if(rows, [&](const result& row) {
    return row.at("ranks") == ranks && row.at("phase") == phase && row.at("regions") == regions &&
           row.at("rule") == rule;
  });
}

TEST(SparseBalance, the_naive_way_is_never_the_better_one) {
  const auto rows = count(small_balance());
  EXPECT_EQ(rows.size(), 3U * (4 + 6));
  for (const result& row : rows) {
    SCOPED_TRACE(row.dump());
    const std::string rule = row.at("rule"), regions = row.at("regions");
    EXPECT_EQ(row.at("violations"), 0U);
    EXPECT_GT(number(row, "words_mean"), 0);
    EXPECT_LE(number(row, "words_mean"), number(row, "words_most"));
    EXPECT_LE(number(row, "words_most"), 2.0 * number(row, "k") * number(row, "ranks"));
    if (rule != "published") {
      EXPECT_GE(number(row, "naive_ratio_first"), 1)
          << "the cost rule never balances at a loss, and layers are clustered";
    }
    if (rule == "cost" || regions == "drift") {
      EXPECT_GE(number(row, "naive_ratio"), rule == "published" ? 0.9 : 1) << "the rule of the library, round by round";
    }
    EXPECT_EQ(number(row, "counter_words") > 0, row.at("phase") == "split" && regions != "equal");
    if (rule == "never") {
      EXPECT_EQ(row.at("balanced_rounds"), 0);
    }
  }
  for (const std::uint64_t ranks : {3U, 7U, 8U}) {
    const double even = 2.0 * number(rows.front(), "k") * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    const double drift = number(row_named(rows, ranks, "split", "drift", "-"), "words_mean");
    EXPECT_LE(drift, 1.4 * even) << ranks << " ranks: pooled regions are nearly equal";
    EXPECT_LE(drift, number(row_named(rows, ranks, "split", "pooled", "-"), "words_mean") * 1.02) << ranks;
    EXPECT_LE(number(row_named(rows, ranks, "gather", "equal", "cost"), "words_mean"),
              number(row_named(rows, ranks, "gather", "equal", "published"), "words_mean"))
        << ranks;
  }
}

/// All large elements are in the region of one owner, which receives k items from every other rank. If regions move
/// with the items, all owners share these items.
TEST(SparseBalance, equal_regions_have_one_busy_owner_where_all_that_is_large_is_in_one) {
  balance_options options = small_balance();
  options.generator = "one-owner";
  options.ranks = {5};
  options.iterations = 1;
  const auto rows = count(options);
  const auto& naive = row_named(rows, 5, "split", "equal", "-");
  EXPECT_DOUBLE_EQ(number(naive, "words_mean"), 2.0 * number(naive, "k") * 4);
  EXPECT_NEAR(number(row_named(rows, 5, "split", "pooled", "-"), "naive_ratio"), 5, 0.5);
}

/// With two ranks, balancing would move as many items as it saves. A single rank has no items to move.
TEST(SparseBalance, small_worlds_do_not_balance) {
  balance_options options = small_balance();
  options.ranks = {1, 2};
  for (const result& row : count(options)) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row.at("violations"), 0U);
    EXPECT_EQ(row.at("balanced_rounds"), 0);
    EXPECT_EQ(number(row, "words_mean") > 0, row.at("ranks") == 2);
  }
}

TEST(SparseBalance, a_seed_is_a_figure) {
  const auto rows_of = [](std::uint64_t seed) {
    balance_options options = small_balance();
    options.iterations = 3;
    options.seed = seed;
    return count(options);
  };
  EXPECT_EQ(rows_of(5), rows_of(5));
  EXPECT_NE(rows_of(5), rows_of(6));
}

TEST(SparseBalance, json_lines_have_what_the_documents_name) {
  balance_options options = small_balance();
  options.iterations = 1;
  const auto rows = count(options);
  for (const char* key : {"figure", "phase", "regions", "rule", "generator", "ranks", "n", "k", "density", "words_mean",
                          "words_most", "counter_words", "balanced_rounds", "naive_ratio", "iterations", "violations"})
    EXPECT_TRUE(rows.front().contains(key)) << key;
}

}  // namespace
}  // namespace lsched::bench
