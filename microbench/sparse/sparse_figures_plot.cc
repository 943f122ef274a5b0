#include "microbench/sparse/sparse_figures_plot.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

struct curve {
  std::string name;
  std::string style;  ///< as gnuplot has it after `with`
  std::vector<std::pair<double, double>> points{};
};

/// One of several diagrams of a picture.
struct diagram {
  std::string settings;  ///< lines of gnuplot
  std::vector<curve> curves{};

  /// The one of that name, made if there is none.
  curve& named(const std::string& name, const std::string& style) {
    const auto it = std::ranges::find(curves, name, &curve::name);
    if (it != curves.end()) return *it;
    return curves.emplace_back(curve{name, style});
  }
};

/// Blocks of points, a curve each, in the order of diagrams.
std::string data_of(std::span<const diagram> all) {
  std::string data;
  for (const diagram& one : all)
    for (const curve& it : one.curves) {
      data += "# " + it.name + "\n";
      for (const auto& [x, y] : it.points) data += text("%.9g %.9g\n", x, y);
      data += "\n\n";
    }
  return data;
}

std::string script_of(const picture& figure, const std::string& title, std::span<const diagram> all) {
  std::string lines = text("set terminal pngcairo size 1100,%zu font 'sans,11'\n", 450 * all.size());
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\nset termoption noenhanced\nset grid\n";
  lines += text("set multiplot layout %zu,1 title ", all.size()) + quoted_for_gnuplot(title) + "\n";
  int index = 0;
  for (const diagram& one : all) {
    lines += one.settings;
    std::string command;
    for (const curve& it : one.curves)
      command += (command.empty() ? "plot " : ", \\\n  ") + quoted_for_gnuplot(figure.data()) +
                 text(" index %d using 1:2 with %s title ", index++, it.style.c_str()) + quoted_for_gnuplot(it.name);
    lines += command + "\n";
  }
  return lines + "unset multiplot\n";
}

bool draw(const std::string& png, const std::string& title, std::span<const diagram> all, reporter& out) {
  const picture figure(png);
  return draw_picture(figure, data_of(all), script_of(figure, title, all), out);
}

const std::string k_by_ranks = "set logscale x 2\nset xlabel 'ranks'\nset key outside right top reverse Left\n";

/// A histogram's steps, a threshold's pole.
diagram histogram_of(const magnitude_picture& of) {
  const std::uint64_t most = *std::ranges::max_element(of.bins);
  diagram made{
      text("unset logscale x\nset logscale y 10\nset format y '%%.0e'\nset key top right\n"
           "set ylabel 'elements'\nset xlabel '|residual + gradient| in iteration %llu, threshold of %llu "
           "iterations ago'\n",
           static_cast<unsigned long long>(of.round), static_cast<unsigned long long>(of.age))};
  curve& bins = made.named("rank 0", "steps linecolor 'gray40'");
  for (std::size_t i = 0; i < of.bins.size(); ++i)
    bins.points.emplace_back((static_cast<double>(i) + 0.5) * of.bin_width,
                             std::max(0.5, static_cast<double>(of.bins[i])));
  for (const auto& [name, at, color] : {std::tuple("exact", of.exact, "black"), std::tuple("reused", of.reused, "blue"),
                                        std::tuple("Gaussian", of.gaussian, "red")})
    made.named(name, text("lines linewidth 2 linecolor '%s'", color)).points = {{at, 0.5},
                                                                                {at, static_cast<double>(most)}};
  return made;
}

diagram courses_of(const threshold_figure& figure, const std::string& side) {
  diagram made{"set logscale y 10\nset key top right\nset xlabel 'iteration'\nset ylabel 'selected / k, " + side +
               "'\n"};
  for (const threshold_row& row : figure.rows) {
    if (row.side != side) continue;
    curve& line = made.named(row.rule, "lines linewidth 1.5");
    for (std::size_t i = 0; i < row.ratios.size(); ++i)
      line.points.emplace_back(static_cast<double>(i + 1), std::max(1e-3, row.ratios[i]));
  }
  return made;
}

}  // namespace

bool plot_fill_in(const std::string& png, std::span<const fill_in_row> rows, reporter& out) {
  diagram one{k_by_ranks + "set logscale y 10\nset ylabel 'density of the sum'\n"};
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
  return draw(png, "Fill-in", std::span(&one, 1), out);
}

bool plot_balance(const std::string& png, std::span<const balance_row> rows, reporter& out) {
  std::vector<diagram> both{{k_by_ranks + "set ylabel 'split: words received / k'\n"},
                            {k_by_ranks + "set ylabel 'gather: words / k'\n"}};
  for (const balance_row& row : rows) {
    const bool is_split = row.phase == "split";
    const std::string how =
        is_split ? row.regions : text("%s regions, balance: %s", row.regions.c_str(), row.rule.c_str());
    both[is_split ? 0 : 1]
        .named(text("%s, d = %g, %s", row.generator.c_str(), row.density, how.c_str()), "linespoints linewidth 1.5")
        .points.emplace_back(static_cast<double>(row.ranks), row.words_mean / static_cast<double>(row.k));
  }
  return draw(png, "Words of the busiest rank, mean over rounds", both, out);
}

bool plot_threshold(const std::string& png, const threshold_figure& figure, reporter& out) {
  std::vector<diagram> all{courses_of(figure, "local"), courses_of(figure, "global")};
  for (const magnitude_picture& it : figure.pictures) all.push_back(histogram_of(it));
  const threshold_row& row = figure.rows.front();
  return draw(
      png,
      text("%s, %llu ranks, n = %llu, k = %llu", row.generator.c_str(), static_cast<unsigned long long>(row.ranks),
           static_cast<unsigned long long>(row.n), static_cast<unsigned long long>(row.k)),
      all, out);
}

}  // namespace lsched::bench
