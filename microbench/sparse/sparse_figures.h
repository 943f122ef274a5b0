// The parts of `lsched bench sparse --figure`: figures of Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed
// Deep Learning, PPoPP 2022, as far as they can be counted.
#pragma once

#include <functional>

#include "collectives/sparse/steps/problem.h"
#include "microbench/report.h"

namespace lsched::bench {

/// Called now and then with the stage of the work.
using tell_progress = std::function<void(const std::string&)>;

/// The same options, in which nothing is left to be chosen. Throws `failed` for what the figure cannot be drawn of.
sparse_figures_options completed(const sparse_figures_options& options);

/// The problem of rank 0 in a world of `ranks`, with k at least 1.
sparse_problem figure_problem(const sparse_figures_options& options, double density, rank ranks);

// Results have the keys of their JSON lines (docs/reference/benchmarks.md). Options are complete.

inline constexpr std::uint64_t k_most_figure_residuals = 64;

/// How dense the sum of sparse lists is: what TopkDSA and TopkA end up with, and why Ok-Topk drops most of it.
/// `steady` is missing beyond k_most_figure_residuals ranks. `violations`: rounds with fewer positions than one rank's
/// list has, or more than all. What leaves a rank's residual does not depend on other ranks: so the lists of the first
/// P of many ranks are those of a world of P, and all worlds are counted at once.
std::vector<result> count_fill_in(const sparse_figures_options& options, const tell_progress& tell);

/// Fig. 7 in words instead of seconds: what balanced regions and balanced shares save the busiest rank. Each world runs
/// Ok-Topk in lockstep; of what its ranks select and keep, the words of all other rules follow, since neither lists nor
/// results depend on regions. `violations`: rounds in which these counts and those of lockstep.h differ.
std::vector<result> count_balance(const sparse_figures_options& options, const tell_progress& tell);

inline constexpr std::uint32_t k_threshold_period = 32;  ///< rounds between two exact ones, as for VGG-16 and the LSTM
inline constexpr std::uint64_t k_least_threshold_rounds = 128;

/// Where a threshold comes from in rounds that do not look.
enum class reuse_rule : std::uint8_t {
  exact,      ///< every round looks
  reused,     ///< the last one, as the paper's text says
  corrected,  ///< the last one, and the controller of the public VGG code
  scaled      ///< the last one times how the sum of magnitudes has changed since; of sums, exact
};

/// One threshold, of a rank's residual or of the sums.
class reused_threshold {
 public:
  /// k is at least 1. The controller has other numbers for sums than for residuals.
  reused_threshold(reuse_rule rule, std::uint64_t k, bool is_of_sums) : rule_(rule), k_(k), is_of_sums_(is_of_sums) {}

  /// Positions whose magnitudes are at least as large as the threshold of a round, 1 being the first, in ascending
  /// order; none of zeros. In rounds that look these are k, of equal magnitudes the first, unless all others are zero.
  void select(std::span<const float> magnitudes, round_no round, std::vector<std::uint32_t>& positions);
  /// By which that was done.
  float used() const { return used_; }

 private:
  float find(std::span<const float> magnitudes, bool looks);
  void correct(std::uint64_t selected);

  reuse_rule rule_;
  std::uint64_t k_;
  bool is_of_sums_;
  float threshold_ = 0;  ///< for the next round that does not look
  float used_ = 0;
  double norm_ = 0;  ///< when the threshold was exact
};

/// Fig. 4 and 6: how many elements a threshold selects that is not the k-th magnitude itself. With one number of ranks,
/// one density and one generator.
struct threshold_figure {
  std::vector<result> rows;              ///< `violations`, of exact: rounds that selected other than k
  std::vector<result> pictures;          ///< rank 0's residual plus gradient in the run of `reused`, early and late
  double loss_first = 0, loss_last = 0;  ///< of the model in the run of `exact`, a mean of 16 rounds; 0: no model
};
threshold_figure count_thresholds(const sparse_figures_options& options, const tell_progress& tell);

/// Count, print and draw.
void report_fill_in(const sparse_figures_options& options, const tell_progress& tell, reporter& out);
void report_balance(const sparse_figures_options& options, const tell_progress& tell, reporter& out);
void report_thresholds(const sparse_figures_options& options, const tell_progress& tell, reporter& out);

/// gnuplot's settings for a diagram over numbers of ranks.
inline constexpr const char* k_plot_by_ranks = "set logscale x 2\nset xlabel 'ranks'\n";

}  // namespace lsched::bench
