// The parts of `lsched bench sparse --figure`. They reproduce figures of Li and Hoefler, Near-Optimal Sparse Allreduce
// for Distributed Deep Learning, PPoPP 2022. Only figures whose numbers can be counted are reproduced.
#pragma once

#include <functional>

#include "collectives/sparse/steps/problem.h"
#include "microbench/report.h"

namespace lsched::bench {

/// A callback that receives a text about the progress of the work.
using tell_progress = std::function<void(const std::string&)>;

/// Returns the options, completed with the defaults of the figure. Throws `failed` if the figure does not support the
/// options.
sparse_figures_options completed(const sparse_figures_options& options);

/// Returns the problem of rank 0 in a world of `ranks` ranks, with k at least 1.
sparse_problem figure_problem(const sparse_figures_options& options, double density, rank ranks);

// The functions below expect options from completed(). Their results are JSON lines (docs/reference/benchmarks.md).

inline constexpr std::uint64_t k_most_figure_residuals = 64;

/// Counts the density of the sum of sparse lists. The results of TopkDSA and TopkA have this density. Ok-Topk avoids
/// the density by dropping most of the sum. `steady` is missing beyond k_most_figure_residuals ranks. `violations`
/// counts rounds in which the sum has fewer positions than one rank's list, or more than all lists together. A rank's
/// residual does not depend on other ranks, so the first P ranks have the same lists as a world of P ranks. Therefore
/// all worlds are counted in one run.
std::vector<result> count_fill_in(const sparse_figures_options& options, const tell_progress& tell);

/// Counts Fig. 7 in words instead of seconds: the words that balanced regions and balanced shares save for the busiest
/// rank. Each world runs Ok-Topk in lockstep (lockstep.h). Lists and results do not depend on regions, so the words of
/// all rules are computed from one run. `violations` counts rounds in which the computed words differ from the words
/// that lockstep.h counts.
std::vector<result> count_balance(const sparse_figures_options& options, const tell_progress& tell);

inline constexpr std::uint32_t k_threshold_period = 32;  ///< rounds between two exact thresholds, as in the paper
inline constexpr std::uint64_t k_least_threshold_rounds = 128;

/// The source of the threshold in rounds that do not compute an exact threshold. (The other rounds do.)
enum class reuse_rule : std::uint8_t {
  exact,      ///< every round computes the exact threshold
  reused,     ///< the last exact threshold, as in the text of the paper
  corrected,  ///< the last exact threshold with the controller of the public VGG code
  scaled      ///< the last exact threshold, scaled as the sum of magnitudes has changed since; for sums: exact
};

/// The threshold that selects elements of a rank's residual, or of the sums.
class reused_threshold {
 public:
  /// `k` is at least 1. The controller of the rule `corrected` has different constants for sums and for residuals.
  reused_threshold(reuse_rule rule, std::uint64_t k, bool is_of_sums) : rule_(rule), k_(k), is_of_sums_(is_of_sums) {}

  /// Selects the positions whose magnitudes reach the threshold of a round, in ascending order. Rounds are numbered
  /// from 1. Zeros are never selected. A round that computes the exact threshold selects k positions, or fewer if the
  /// other elements are zero. Among equal magnitudes, the lowest positions are selected.
  void select(std::span<const float> magnitudes, round_no round, std::vector<std::uint32_t>& positions);
  /// Returns the threshold of the last select().
  float used() const { return used_; }

 private:
  float find(std::span<const float> magnitudes, bool looks);
  void correct(std::uint64_t selected);

  reuse_rule rule_;
  std::uint64_t k_;
  bool is_of_sums_;
  float threshold_ = 0;  ///< threshold of the next round that does not compute an exact threshold
  float used_ = 0;
  double norm_ = 0;  ///< sum of magnitudes at the last exact threshold
};

/// The numbers of Fig. 4 and 6: how many elements a reused threshold selects instead of k. For one number of ranks, one
/// density and one generator.
struct threshold_figure {
  std::vector<result> rows;              ///< one per rule; rule `exact`: `violations` are rounds without k elements
  std::vector<result> pictures;          ///< histograms of residual plus gradient of rank 0, run of rule `reused`
  double loss_first = 0, loss_last = 0;  ///< loss of the model with rule `exact`, means of 16 rounds; 0: no model
};
threshold_figure count_thresholds(const sparse_figures_options& options, const tell_progress& tell);

void report_fill_in(const sparse_figures_options& options, const tell_progress& tell, reporter& out);
void report_balance(const sparse_figures_options& options, const tell_progress& tell, reporter& out);
void report_thresholds(const sparse_figures_options& options, const tell_progress& tell, reporter& out);

/// Settings of gnuplot for a diagram with the number of ranks on the x axis.
inline constexpr const char* k_plot_by_ranks = "set logscale x 2\nset xlabel 'ranks'\n";

}  // namespace lsched::bench
