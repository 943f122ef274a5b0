// How many elements a threshold selects that is not the k-th magnitude itself: Fig. 4 and 6 of the paper.
//
// Ranks with residuals, an Ok-Topk in plain arithmetic: a rank sends what its threshold selects, owners keep what the
// global one selects of the sums, and both are found by one of these rules. Each rule has a run of its own, since what
// it selects decides what stays in the residuals, and what the model learns.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "microbench/sparse/sparse_figures.h"

namespace lsched::bench {

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

struct threshold_row {
  std::string rule;  ///< "exact", "reused", "corrected", "scaled"; "gaussian": its first threshold, on exact's run;
                     ///< "gaussian_adjusted": after at most 20 steps
  std::string side;  ///< "local": of residuals; "global": of sums, by rules that differ from exact there
  std::string generator;
  std::uint64_t ranks = 0, n = 0, k = 0;
  double density = 0;
  double deviation_early = 0, deviation_rest = 0;  ///< mean of |selected / k - 1|, in the first quarter of rounds
  double ratio_early = 0, ratio_rest = 0;          ///< mean of selected / k
  std::vector<double> ratios{};                    ///< by round, mean over ranks
  std::uint64_t rounds = 0;
  std::uint64_t violations = 0;  ///< of exact: rounds that selected other than k
};

/// Rank 0's residual plus gradient in the run of `reused`.
struct magnitude_picture {
  round_no round = 0;
  std::uint64_t age = 0;  ///< rounds since the threshold was exact
  double exact = 0, reused = 0, gaussian = 0;
  std::uint64_t k = 0, reused_count = 0, gaussian_count = 0;  ///< that these select
  double bin_width = 0;
  std::vector<std::uint64_t> bins{};  ///< of magnitudes, from 0 on; the last one has all above, too
};

struct threshold_figure {
  std::vector<threshold_row> rows;
  std::vector<magnitude_picture> pictures;  ///< an early one and a late one
  double loss_first = 0, loss_last = 0;     ///< of the model in the run of `exact`, a mean of 16 rounds; 0: no model
};

/// Options are complete, with one number of ranks, one density and one generator.
threshold_figure count_thresholds(const sparse_figures_options& options, const tell_progress& tell);

nlohmann::json json_of(const threshold_row& row);
nlohmann::json json_of(const magnitude_picture& picture);

}  // namespace lsched::bench
