// Tests of the figures of sparse allreduces whose numbers are counted, not measured. The numbers must be within bounds,
// and the same seed must give the same numbers.
#include "microbench/sparse/sparse_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "microbench/sparse/sparse_figures_training.h"

namespace lsched::bench {
namespace {

void say_nothing(const std::string&) {}

std::string text_of(const std::vector<result>& rows) {
  std::string all;
  for (const result& row : rows) all += row.dump() + "\n";
  return all;
}

double number(const result& row, const char* key) { return row.at(key).get<double>(); }

void expect_keys(const result& row, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(row.contains(key)) << key << " of " << row;
}

// ---- fill-in

sparse_figures_options small_fill_in() {
  return completed({.figure = "fill-in", .ranks = {7, 1, 3, 16, 80, 3}, .n = 20000, .iterations = 24});
}

TEST(SparseFigures, the_union_is_between_one_list_and_independent_ones) {
  for (const result& row : count_fill_in(small_fill_in(), say_nothing)) {
    SCOPED_TRACE(row.dump());
    const auto ranks = row.at("ranks").get<std::uint64_t>();
    const double density = number(row, "density"), independent = number(row, "independent");
    EXPECT_EQ(row.at("violations"), 0U);
    EXPECT_EQ(row.contains("steady"), ranks <= k_most_figure_residuals);
    for (const double found : {number(row, "first"), row.value("steady", number(row, "first"))}) {
      EXPECT_GE(found, density * (1 - 1e-12));
      EXPECT_LE(found, independent * 1.05);
      if (ranks == 1) {
        EXPECT_DOUBLE_EQ(found, density);
      }
      if (row.at("generator") == "uniform") {
        EXPECT_GE(found, independent * 0.95);
      }
      if (row.at("generator") == "layered" && ranks > 3) {
        EXPECT_LT(found, independent * 0.9) << "ranks agree about large elements";
      }
    }
    EXPECT_EQ(row.contains("published"), ranks == 16 && density == 0.01);
    if (row.at("generator") == "layered" && ranks > 3 && row.contains("steady")) {
      EXPECT_GT(number(row, "steady"), number(row, "first") * 1.15)
          << "sent values leave the residual, so that smaller values follow";
    }
  }
}

TEST(SparseFigures, worlds_are_prefixes_of_the_largest) {
  sparse_figures_options one = small_fill_in();
  one.ranks = {7};
  const auto alone = count_fill_in(one, say_nothing), all = count_fill_in(small_fill_in(), say_nothing);
  const auto same = std::ranges::find_if(all, [](const result& row) { return row.at("ranks") == 7; });
  ASSERT_NE(same, all.end());
  EXPECT_EQ(alone.front(), *same);
}

TEST(SparseFigures, ranks_with_nothing_to_send_are_no_violation) {
  const auto rows = count_fill_in(
      completed({.figure = "fill-in", .ranks = {1, 5}, .n = 1, .generators = {"zeros"}, .iterations = 1}), say_nothing);
  ASSERT_EQ(rows.size(), 4U);
  for (const result& row : rows) EXPECT_EQ(row.at("violations"), 0U) << row;
}

// ---- balance

sparse_figures_options small_balance() {
  return completed({.figure = "balance", .ranks = {3, 7, 8}, .n = 30000, .densities = {0.02}, .iterations = 128});
}

const result& row_named(const std::vector<result>& rows, std::uint64_t ranks, const std::string& phase,
                        const std::string& regions, const std::string& rule) {
  return *std::ranges::find_if(rows, [&](const result& row) {
    return row.at("ranks") == ranks && row.at("phase") == phase && row.at("regions") == regions &&
           row.at("rule") == rule;
  });
}

TEST(SparseFigures, the_naive_way_is_never_the_better_one) {
  const auto rows = count_balance(small_balance(), say_nothing);
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

/// All large elements are in the region of one owner, which receives k items from every other rank. Only if regions
/// move with the items, other owners share these items.
TEST(SparseFigures, equal_regions_have_one_busy_owner_where_all_that_is_large_is_in_one) {
  sparse_figures_options options = small_balance();
  options.generators = {"one-owner"};
  options.ranks = {5};
  options.iterations = 1;
  const auto rows = count_balance(options, say_nothing);
  const auto& naive = row_named(rows, 5, "split", "equal", "-");
  EXPECT_DOUBLE_EQ(number(naive, "words_mean"), 2.0 * number(naive, "k") * 4);
  EXPECT_NEAR(number(row_named(rows, 5, "split", "pooled", "-"), "naive_ratio"), 5, 0.5);
}

/// With two ranks, balancing would move as many items as it saves. A single rank has no items to move.
TEST(SparseFigures, small_worlds_do_not_balance) {
  sparse_figures_options options = small_balance();
  options.ranks = {1, 2};
  for (const result& row : count_balance(options, say_nothing)) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row.at("violations"), 0U);
    EXPECT_EQ(row.at("balanced_rounds"), 0);
    EXPECT_EQ(number(row, "words_mean") > 0, row.at("ranks") == 2);
  }
}

// ---- threshold

sparse_figures_options small_threshold() {
  return completed({.figure = "threshold", .ranks = {3}, .n = 1500, .iterations = 160});
}

TEST(SparseFigures, an_exact_threshold_selects_k_and_others_do_when_they_look) {
  const threshold_figure figure = count_thresholds(small_threshold(), say_nothing);
  EXPECT_EQ(figure.rows.size(), 9U);
  for (const result& row : figure.rows) {
    const std::string rule = row.at("rule");
    SCOPED_TRACE(rule + " " + row.at("side").get<std::string>());
    EXPECT_EQ(row.at("violations"), 0U);
    EXPECT_EQ(row.at("n"), 1510U) << "20 hidden units";
    const auto ratios = row.at("ratios").get<std::vector<double>>();
    ASSERT_EQ(ratios.size(), 160U);
    for (std::size_t i = 0; i < ratios.size(); ++i)
      if (rule == "exact" || (!rule.starts_with("gaussian") && i % k_threshold_period == 0)) {
        EXPECT_EQ(ratios[i], 1) << "iteration " << i + 1;
      }
    const double all = std::accumulate(ratios.begin(), ratios.end(), 0.0) / 160;
    EXPECT_NEAR(0.25 * number(row, "ratio_early") + 0.75 * number(row, "ratio_rest"), all, 1e-9);
    EXPECT_GE(number(row, "deviation_early"), std::fabs(number(row, "ratio_early") - 1) - 1e-9);
    EXPECT_GE(number(row, "deviation_rest"), std::fabs(number(row, "ratio_rest") - 1) - 1e-9);
    EXPECT_EQ(row.at("deviation_rest") == 0, rule == "exact");
  }
  EXPECT_LT(figure.loss_last, figure.loss_first) << "the model learns";
}

TEST(SparseFigures, pictures_have_every_element_and_thresholds_where_they_select_what_they_say) {
  const threshold_figure figure = count_thresholds(small_threshold(), say_nothing);
  ASSERT_EQ(figure.pictures.size(), 2U);
  for (const result& picture : figure.pictures) {
    EXPECT_EQ(picture.at("age"), 25U);
    const auto bins = picture.at("bins").get<std::vector<std::uint64_t>>();
    EXPECT_EQ(std::accumulate(bins.begin(), bins.end(), std::uint64_t{0}), 1510U);
    for (const auto& [threshold, count] :
         {std::pair("exact", "k"), std::pair("reused", "reused_count"), std::pair("gaussian", "gaussian_count")}) {
      const auto bin = static_cast<std::size_t>(number(picture, threshold) / number(picture, "bin_width"));
      ASSERT_LT(bin, bins.size());
      const auto from = [&](std::size_t first) {
        return std::accumulate(bins.begin() + static_cast<std::ptrdiff_t>(first), bins.end(), std::uint64_t{0});
      };
      EXPECT_LE(from(bin + 1), picture.at(count));
      EXPECT_GE(from(bin), picture.at(count));
    }
  }
}

std::vector<std::uint32_t> selected(reused_threshold& by, const std::vector<float>& magnitudes, round_no round) {
  std::vector<std::uint32_t> positions;
  by.select(magnitudes, round, positions);
  return positions;
}

TEST(SparseFigures, a_reused_threshold_stays_and_a_scaled_one_follows_the_norm) {
  const std::vector<float> now{5, 4, 3, 2, 1}, later{10, 8, 6, 4, 2};
  reused_threshold reused(reuse_rule::reused, 2, false), scaled(reuse_rule::scaled, 2, false);
  for (reused_threshold* it : {&reused, &scaled}) EXPECT_EQ(selected(*it, now, 1), (std::vector{0U, 1U}));
  EXPECT_EQ(selected(reused, later, 2), (std::vector{0U, 1U, 2U, 3U}));
  EXPECT_EQ(selected(scaled, later, 2), (std::vector{0U, 1U}));
  EXPECT_EQ(selected(scaled, now, 3), (std::vector{0U, 1U})) << "scaled by the norm of the exact round";
  for (reused_threshold* it : {&reused, &scaled}) {
    selected(*it, later, 33);
    EXPECT_EQ(it->used(), 8) << "the threshold is computed again";
  }
}

TEST(SparseFigures, the_controller_is_that_of_the_public_code) {
  const std::vector<float> three{9, 9, 9, 1}, one{9, 1, 1, 1}, four{4, 4, 4, 4};
  reused_threshold sums(reuse_rule::corrected, 2, true), residuals(reuse_rule::corrected, 2, false);
  for (reused_threshold* it : {&sums, &residuals}) EXPECT_EQ(selected(*it, {4, 4, 1, 1}, 1).size(), 2U);
  EXPECT_EQ(selected(sums, three, 2).size(), 3U);
  EXPECT_EQ(sums.used(), 4);
  selected(sums, one, 3);
  EXPECT_FLOAT_EQ(sums.used(), 4 * 1.008F) << "above 4/3 k of the sums";
  selected(sums, one, 4);
  EXPECT_FLOAT_EQ(sums.used(), 4) << "below 2/3 k";
  EXPECT_EQ(selected(residuals, four, 2).size(), 0U) << "the threshold is raised before the selection";
  EXPECT_FLOAT_EQ(residuals.used(), 4 * 1.03F) << "raised once, because no value is above";
  selected(residuals, three, 3);
  EXPECT_FLOAT_EQ(residuals.used(), 4 * 1.03F / 1.012F * std::pow(1.03F, 5.0F)) << "raised at most five times";
}

TEST(SparseFigures, an_exact_selection_takes_the_first_of_equals_and_no_zeros) {
  reused_threshold exact(reuse_rule::exact, 3, false);
  EXPECT_EQ(selected(exact, {1, 2, 1, 1, 0}, 1), (std::vector{0U, 1U, 2U}));
  EXPECT_EQ(selected(exact, {0, 2, 0, 0, 1}, 2), (std::vector{1U, 4U}));
  EXPECT_EQ(selected(exact, {2}, 3), (std::vector{0U}));
}

TEST(SparseFigures, the_model_has_the_gradient_of_its_loss) {
  small_model model(400, 3);
  std::vector<float> gradient(model.parameters()), ignored(gradient.size()), step(gradient.size());
  ASSERT_EQ(gradient.size(), 385U) << "5 hidden units";
  model.gradient(1, 1, gradient);
  for (const std::size_t i : {5U, 130U, 322U, 340U, 380U}) {
    const auto loss_at = [&](float by) {
      std::ranges::fill(step, 0.0F);
      step[i] = -by;
      model.learn(step);
      const double loss = model.gradient(1, 1, ignored);
      step[i] = by;
      model.learn(step);
      return loss;
    };
    EXPECT_NEAR((loss_at(0.01F) - loss_at(-0.01F)) / 0.02, gradient[i], 2e-3) << "parameter " << i;
  }
}

// ---- all figures

TEST(SparseFigures, a_seed_is_a_figure) {
  const auto rows_of = [](std::uint64_t seed) {
    sparse_figures_options fill_in = small_fill_in(), balance = small_balance(), threshold = small_threshold();
    fill_in.iterations = 3, balance.iterations = 3;
    fill_in.seed = balance.seed = threshold.seed = seed;
    const threshold_figure figure = count_thresholds(threshold, say_nothing);
    return std::vector{text_of(count_fill_in(fill_in, say_nothing)), text_of(count_balance(balance, say_nothing)),
                       text_of(figure.rows), text_of(figure.pictures)};
  };
  const auto once = rows_of(5), again = rows_of(5), other = rows_of(6);
  EXPECT_EQ(once, again);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NE(once[i], other[i]) << i;
}

TEST(SparseFigures, json_lines_have_what_the_documents_name) {
  sparse_figures_options fill_in = small_fill_in(), balance = small_balance();
  fill_in.iterations = balance.iterations = 1;
  fill_in.ranks = {16}, fill_in.densities = {0.01};
  const threshold_figure figure = count_thresholds(small_threshold(), say_nothing);
  expect_keys(count_fill_in(fill_in, say_nothing).front(),
              {"figure", "generator", "ranks", "n", "k", "density", "first", "steady", "independent", "published",
               "iterations", "violations"});
  expect_keys(count_balance(balance, say_nothing).front(),
              {"figure", "phase", "regions", "rule", "generator", "ranks", "n", "k", "density", "words_mean",
               "words_most", "counter_words", "balanced_rounds", "naive_ratio", "iterations", "violations"});
  expect_keys(figure.rows.front(),
              {"figure", "rule", "side", "generator", "ranks", "n", "k", "density", "deviation_early", "deviation_rest",
               "ratio_early", "ratio_rest", "ratios", "iterations", "violations"});
  expect_keys(figure.pictures.front(), {"figure", "iteration", "age", "k", "exact", "reused", "gaussian",
                                        "reused_count", "gaussian_count", "bin_width", "bins"});
}

TEST(SparseFigures, what_cannot_be_drawn_is_refused) {
  EXPECT_THROW(completed({.figure = "fill-in", .generators = {"training"}}), failed);
  EXPECT_THROW(completed({.figure = "balance", .generators = {"layered", "training"}}), failed);
  EXPECT_THROW(completed({.figure = "threshold", .ranks = {4, 8}}), failed);
  EXPECT_THROW(completed({.figure = "threshold", .generators = {"zeros"}}), failed);
  EXPECT_THROW(completed({.figure = "threshold", .iterations = 127}), failed);
  EXPECT_THROW(completed({.figure = "latency"}), failed);
}

}  // namespace
}  // namespace lsched::bench
