// Reproduces figures whose numbers can be counted, with random gradients or with a small model that this program
// trains. The numbers of the paper are printed next to the counted numbers. If the paper gives seconds, this program
// counts words instead.
#include "microbench/sparse/sparse_figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "microbench/sparse/sparse_figures_training.h"

namespace lsched::bench {
namespace {

/// A figure, and the defaults of its options.
struct figure_kind {
  sparse_figures_options usual;
  void (*report)(const sparse_figures_options&, const tell_progress&, reporter&);
};

const std::vector<figure_kind>& figures() {
  static const std::vector<figure_kind> all{{{.figure = "fill-in",
                                              .ranks = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64, 128, 256},
                                              .n = 1 << 16,
                                              .densities = {0.01, 0.02},
                                              .generators = {"uniform", "layered"},
                                              .iterations = 256},
                                             report_fill_in},
                                            {{.figure = "balance",
                                              .ranks = {4, 8, 16, 32, 64},
                                              .n = 1 << 17,
                                              .densities = {0.01},
                                              .generators = {"layered"},
                                              .iterations = 256},
                                             report_balance},
                                            {{.figure = "threshold",
                                              .ranks = {4},
                                              .n = 9610,
                                              .densities = {0.02},
                                              .generators = {"training"},
                                              .iterations = 800},
                                             report_thresholds}};
  return all;
}

const figure_kind& figure_named(const std::string& name) {
  const auto found = std::ranges::find(figures(), name, [](const figure_kind& kind) { return kind.usual.figure; });
  if (found == figures().end()) throw failed("there is no figure \"" + name + "\"");
  return *found;
}

/// Throws unless the options describe a single run, as the threshold figures of the paper do.
void expect_one_run(const sparse_figures_options& options) {
  if (options.ranks.size() != 1 || options.densities.size() != 1 || options.generators.size() != 1)
    throw failed("the figure threshold takes one number of ranks, one density and one generator");
  if (options.generators.front() == "zeros") throw failed("the figure threshold needs k elements that are not zero");
  if (options.iterations < k_least_threshold_rounds)
    throw failed("the figure threshold needs at least " + std::to_string(k_least_threshold_rounds) + " iterations");
}

}  // namespace

std::vector<std::string> sparse_figure_names() {
  std::vector<std::string> all;
  for (const figure_kind& kind : figures()) all.push_back(kind.usual.figure);
  return all;
}

std::vector<std::string> sparse_figure_generators() {
  std::vector<std::string> all = sparse_generators();
  all.emplace_back("training");
  return all;
}

sparse_figures_options completed(const sparse_figures_options& options) {
  sparse_figures_options made = options;
  const sparse_figures_options& usual = figure_named(options.figure).usual;
  if (made.ranks.empty()) made.ranks = usual.ranks;
  if (made.n == 0) made.n = usual.n;
  if (made.densities.empty()) made.densities = usual.densities;
  if (made.generators.empty()) made.generators = usual.generators;
  if (made.iterations == 0) made.iterations = usual.iterations;
  std::ranges::sort(made.ranks);
  made.ranks.erase(std::unique(made.ranks.begin(), made.ranks.end()), made.ranks.end());
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

int run_sparse_figures(const sparse_figures_options& options) {
  const sparse_figures_options complete = completed(options);
  reporter out("sparse-figures", complete);
  const auto tell = [&](const std::string& stage) { out.progress("%s", stage.c_str()); };
  figure_named(complete.figure).report(complete, tell, out);
  return out.finish();
}

}  // namespace lsched::bench
