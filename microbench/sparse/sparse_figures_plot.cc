#include "microbench/sparse/sparse_figures_plot.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

const std::string k_by_ranks = "set logscale x 2\nset xlabel 'ranks'\nset key outside right top reverse Left\n";

/// A histogram's steps, a threshold's pole.
plot_diagram histogram_of(const magnitude_picture& of) {
  const std::uint64_t most = *std::ranges::max_element(of.bins);
  plot_diagram made{
      text("unset logscale x\nset logscale y 10\nset format y '%%.0e'\nset key top right\n"
           "set ylabel 'elements'\nset xlabel '|residual + gradient| in iteration %llu, threshold of %llu "
           "iterations ago'\n",
           static_cast<unsigned long long>(of.round), static_cast<unsigned long long>(of.age))};
  plot_curve& bins = made.named("rank 0", "steps linecolor 'gray40'");
  for (std::size_t i = 0; i < of.bins.size(); ++i)
    bins.points.emplace_back((static_cast<double>(i) + 0.5) * of.bin_width,
                             std::max(0.5, static_cast<double>(of.bins[i])));
  for (const auto& [name, at, color] : {std::tuple("exact", of.exact, "black"), std::tuple("reused", of.reused, "blue"),
                                        std::tuple("Gaussian", of.gaussian, "red")})
    made.named(name, text("lines linewidth 2 linecolor '%s'", color)).points = {{at, 0.5},
                                                                                {at, static_cast<double>(most)}};
  return made;
}

plot_diagram courses_of(const threshold_figure& figure, const std::string& side) {
  plot_diagram made{"set logscale y 10\nset key top right\nset xlabel 'iteration'\nset ylabel 'selected / k, " + side +
                    "'\n"};
  for (const threshold_row& row : figure.rows) {
    if (row.side != side) continue;
    plot_curve& line = made.named(row.rule, "lines linewidth 1.5");
    for (std::size_t i = 0; i < row.ratios.size(); ++i)
      line.points.emplace_back(static_cast<double>(i + 1), std::max(1e-3, row.ratios[i]));
  }
  return made;
}

}  // namespace

bool plot_fill_in(const std::string& png, std::span<const fill_in_row> rows, reporter& out) {
  plot_diagram one{k_by_ranks + "set logscale y 10\nset ylabel 'density of the sum'\n"};
  for (const fill_in_row& row : rows) {
    const auto ranks = static_cast<double>(row.ranks);
    const std::string what = text("%s, d = %g", row.generator.c_str(), row.density);
    one.named(what + ": first round", "points pointsize 1.5").points.emplace_back(ranks, row.first);
    if (row.steady) one.named(what + ": with residuals", "linespoints").points.emplace_back(ranks, *row.steady);
    const std::string formula = text("1-(1-d)^P, d = %g", row.density);
    if (row.generator == rows.front().generator)
      one.named(formula, "lines dashtype 2 linecolor 'gray40'").points.emplace_back(ranks, row.independent);
    if (row.published && row.generator == rows.front().generator)
      one.named("the paper's models", "points pointtype 3 pointsize 3 linecolor 'red'")
          .points.emplace_back(ranks, *row.published);
  }
  return draw_picture(png, "Fill-in", std::span(&one, 1), out);
}

bool plot_balance(const std::string& png, std::span<const balance_row> rows, reporter& out) {
  std::vector<plot_diagram> both{{k_by_ranks + "set ylabel 'split: words received / k'\n"},
                                 {k_by_ranks + "set ylabel 'gather: words / k'\n"}};
  for (const balance_row& row : rows) {
    const bool is_split = row.phase == "split";
    const std::string how =
        is_split ? row.regions : text("%s regions, balance: %s", row.regions.c_str(), row.rule.c_str());
    both[is_split ? 0 : 1]
        .named(text("%s, d = %g, %s", row.generator.c_str(), row.density, how.c_str()), "linespoints linewidth 1.5")
        .points.emplace_back(static_cast<double>(row.ranks), row.words_mean / static_cast<double>(row.k));
  }
  return draw_picture(png, "Words of the busiest rank, mean over rounds", both, out);
}

bool plot_threshold(const std::string& png, const threshold_figure& figure, reporter& out) {
  std::vector<plot_diagram> all{courses_of(figure, "local"), courses_of(figure, "global")};
  for (const magnitude_picture& it : figure.pictures) all.push_back(histogram_of(it));
  const threshold_row& row = figure.rows.front();
  return draw_picture(
      png,
      text("%s, %llu ranks, n = %llu, k = %llu", row.generator.c_str(), static_cast<unsigned long long>(row.ranks),
           static_cast<unsigned long long>(row.n), static_cast<unsigned long long>(row.k)),
      all, out);
}

}  // namespace lsched::bench
