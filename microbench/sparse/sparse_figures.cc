// Figures of Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022, as far as they
// can be counted: from gradients that are drawn, or from a model small enough to train here. What the paper has stands
// beside; where it has seconds, there are words.
#include "microbench/sparse/sparse_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "microbench/harness.h"
#include "microbench/plot.h"
#include "microbench/sparse/sparse_figures_balance.h"
#include "microbench/sparse/sparse_figures_fill_in.h"
#include "microbench/sparse/sparse_figures_plot.h"
#include "microbench/sparse/sparse_figures_threshold.h"
#include "microbench/sparse/sparse_figures_training.h"

namespace lsched::bench {
namespace {

sparse_figures_options fill_in_defaults() {
  return {.figure = "fill-in",
          .ranks = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64, 128, 256},
          .n = 1 << 16,
          .densities = {0.01, 0.02},
          .generators = {"uniform", "layered"},
          .iterations = 256};
}
sparse_figures_options balance_defaults() {
  return {.figure = "balance",
          .ranks = {4, 8, 16, 32, 64},
          .n = 1 << 17,
          .densities = {0.01},
          .generators = {"layered"},
          .iterations = 256};
}
sparse_figures_options threshold_defaults() {
  return {.figure = "threshold",
          .ranks = {4},
          .n = 9610,
          .densities = {0.02},
          .generators = {"training"},
          .iterations = 800};
}

unsigned long long wide(std::uint64_t it) { return it; }

std::string verdict(std::uint64_t violations) { return violations == 0 ? "0" : text("%llu WRONG", wide(violations)); }

// ---- fill-in ------------------------------------------------------------------------------------------------

std::string percent(double it) { return text("%.2f %%", 100 * it); }
std::string percent(const std::optional<double>& it) { return it ? percent(*it) : ""; }

std::uint64_t draw_fill_in(const sparse_figures_options& options, const tell_progress& tell, reporter& out) {
  const std::vector<fill_in_row> rows = count_fill_in(options, tell);
  table lines({"generator", "d", "ranks", "first round", "with residuals", "1-(1-d)^P", "paper", "violations"});
  std::uint64_t violations = 0;
  for (const fill_in_row& row : rows) {
    out.json(json_of(row));
    violations += row.violations;
    lines.add({row.generator, percent(row.density), text("%llu", wide(row.ranks)), percent(row.first),
               percent(row.steady), percent(row.independent), percent(row.published), verdict(row.violations)});
  }
  out.say("density of the sum of all ranks' lists, n = %llu; with residuals: mean of rounds %llu to %llu",
          wide(options.n), wide(options.iterations / 2 + 1), wide(options.iterations));
  out.print(lines);
  out.say("paper: of models in training, VGG-16 (16 ranks, 1 %%) and LSTM (32 ranks, 2 %%)");
  if (!options.plot.empty() && !plot_fill_in(options.plot, rows, out)) ++violations;
  return violations;
}

// ---- balance ------------------------------------------------------------------------------------------------

/// Ratios of time that the paper reports of worlds of 16 to 64, for the rules that it has.
std::string paper_ratio(const balance_row& row) {
  if (row.ranks != 16 && row.ranks != 32 && row.ranks != 64) return "";
  if (row.phase == "split") return row.regions == "averaged" ? "1.13-1.75" : "";
  return row.rule == "published" && row.regions == "equal" ? "1.12-1.43" : "";
}

std::uint64_t draw_balance(const sparse_figures_options& options, const tell_progress& tell, reporter& out) {
  const std::vector<balance_row> rows = count_balance(options, tell);
  table lines({"phase", "generator", "d", "ranks", "regions", "balance", "first/k", "words/k", "most/k", "counters/k",
               "balanced", "naive/first", "naive/this", "paper, time", "violations"});
  std::uint64_t violations = 0;
  for (const balance_row& row : rows) {
    const auto k = static_cast<double>(row.k);
    const bool is_split = row.phase == "split";
    out.json(json_of(row));
    violations += row.violations;
    lines.add({row.phase, row.generator, percent(row.density), text("%llu", wide(row.ranks)), row.regions, row.rule,
               text("%.2f", row.words_first / k), text("%.2f", row.words_mean / k), text("%.2f", row.words_most / k),
               is_split ? text("%.2f", row.counter_words / k) : "",
               is_split ? "" : text("%.0f %%", 100 * row.balanced_rounds), text("%.2f", row.naive_ratio_first),
               text("%.2f", row.naive_ratio), paper_ratio(row), verdict(row.violations)});
  }
  out.say("n = %llu; words of 4 bytes of a round's busiest rank: in the first round, without residuals; mean of rounds",
          wide(options.n));
  out.say("%llu to %llu, with residuals; and the most of any round", wide(options.iterations / 2 + 1),
          wide(options.iterations));
  out.say("split: received; gather: sent or received, pieces of balancing included; counters: what regions cost");
  out.print(lines);
  out.say("paper: speed-up on 16 to 64 GPUs, growing with their number, of split and of the iterations that balance");
  if (!options.plot.empty() && !plot_balance(options.plot, rows, out)) ++violations;
  return violations;
}

// ---- threshold ----------------------------------------------------------------------------------------------

table lines_of(const threshold_figure& figure, std::uint64_t& violations) {
  table lines({"threshold", "of", "dev. early", "dev. rest", "selected/k early", "selected/k rest", "violations"});
  for (const threshold_row& row : figure.rows) {
    violations += row.violations;
    lines.add({row.rule, row.side, percent(row.deviation_early), percent(row.deviation_rest),
               text("%.3f", row.ratio_early), text("%.3f", row.ratio_rest), verdict(row.violations)});
  }
  return lines;
}

table lines_of(std::span<const magnitude_picture> pictures) {
  table lines({"iteration", "age", "exact", "reused", "Gaussian", "reused/exact", "Gaussian/exact", "reused selects/k",
               "Gaussian selects/k"});
  for (const magnitude_picture& it : pictures) {
    const auto k = static_cast<double>(it.k);
    lines.add({text("%llu", wide(it.round)), text("%llu", wide(it.age)), text("%.4g", it.exact),
               text("%.4g", it.reused), text("%.4g", it.gaussian), text("%.3f", it.reused / it.exact),
               text("%.3f", it.gaussian / it.exact), text("%.3f", static_cast<double>(it.reused_count) / k),
               text("%.3f", static_cast<double>(it.gaussian_count) / k)});
  }
  return lines;
}

std::uint64_t draw_threshold(const sparse_figures_options& options, const tell_progress& tell, reporter& out) {
  const threshold_figure figure = count_thresholds(options, tell);
  for (const threshold_row& row : figure.rows) out.json(json_of(row));
  for (const magnitude_picture& it : figure.pictures) out.json(json_of(it));
  std::uint64_t violations = 0;
  out.say("%s, %d ranks, n = %llu, k = %llu, %llu iterations, an exact threshold every %u; early: the first quarter",
          options.generators.front().c_str(), options.ranks.front(), wide(options.n), wide(figure.rows.front().k),
          wide(options.iterations), k_threshold_period);
  if (figure.loss_first > 0)
    out.say("loss of the model, exact thresholds: %.3f in the first 16 iterations, %.3f in the last", figure.loss_first,
            figure.loss_last);
  out.print(lines_of(figure, violations));
  out.say("paper (Fig. 6): below 11 %% on average; Gaussian selects too many early, then a tenth of k");
  out.print(lines_of(figure.pictures));
  out.say("paper (Fig. 4): after 25 iterations the reused threshold is close to the exact one, Gaussian's far above");
  if (!options.plot.empty() && !plot_threshold(options.plot, figure, out)) ++violations;
  return violations;
}

// ---- all ----------------------------------------------------------------------------------------------------

struct figure_kind {
  const char* name;
  sparse_figures_options (*defaults)();
  std::uint64_t (*draw)(const sparse_figures_options&, const tell_progress&, reporter&);
};
constexpr std::array<figure_kind, 3> k_figures{{{"fill-in", fill_in_defaults, draw_fill_in},
                                                {"balance", balance_defaults, draw_balance},
                                                {"threshold", threshold_defaults, draw_threshold}}};

const figure_kind& figure_named(const std::string& name) {
  const auto it = std::ranges::find(k_figures, name, &figure_kind::name);
  if (it == k_figures.end()) throw failed("there is no figure \"" + name + "\"");
  return *it;
}

/// The paper's threshold figures are of one run.
void expect_one_run(const sparse_figures_options& options) {
  if (options.ranks.size() != 1 || options.densities.size() != 1 || options.generators.size() != 1)
    throw failed("the figure threshold is of one number of ranks, one density and one generator");
  if (options.generators.front() == "zeros") throw failed("the figure threshold wants k elements that are not zero");
  if (options.iterations < k_least_threshold_rounds)
    throw failed(text("the figure threshold wants %llu iterations at least", wide(k_least_threshold_rounds)));
}

}  // namespace

std::vector<std::string> sparse_figure_names() {
  std::vector<std::string> all;
  for (const figure_kind& it : k_figures) all.emplace_back(it.name);
  return all;
}

std::vector<std::string> sparse_figure_generators() {
  std::vector<std::string> all = sparse_generators();
  all.emplace_back("training");
  return all;
}

sparse_figures_options completed(const sparse_figures_options& asked) {
  sparse_figures_options made = asked;
  const sparse_figures_options usual = figure_named(asked.figure).defaults();
  if (made.ranks.empty()) made.ranks = usual.ranks;
  if (made.n == 0) made.n = usual.n;
  if (made.densities.empty()) made.densities = usual.densities;
  if (made.generators.empty()) made.generators = usual.generators;
  if (made.iterations == 0) made.iterations = usual.iterations;
  std::ranges::sort(made.ranks);
  made.ranks.erase(std::ranges::unique(made.ranks).begin(), made.ranks.end());
  const bool trains = std::ranges::count(made.generators, "training") > 0;
  if (made.figure == "threshold")
    expect_one_run(made);
  else if (trains)
    throw failed("only the figure threshold trains a model");
  if (trains) made.n = small_model::nearest_size(made.n);
  return made;
}

sparse_problem figure_problem(const sparse_figures_options& options, double density, rank ranks) {
  const auto k = static_cast<std::uint64_t>(std::llround(density * static_cast<double>(options.n)));
  return {.count = options.n, .k = std::max<std::uint64_t>(1, k), .place = {0, ranks}};
}

int run_sparse_figures(const sparse_figures_options& asked) {
  const sparse_figures_options options = completed(asked);
  reporter out("sparse-figures", options.json);
  if (!options.plot.empty()) expect_writable(options.plot);
  const auto tell = [&](const std::string& what) { out.progress("%s", what.c_str()); };
  return figure_named(options.figure).draw(options, tell, out) == 0 ? 0 : 1;
}

}  // namespace lsched::bench
