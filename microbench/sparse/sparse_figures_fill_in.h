// How dense the sum of sparse lists is: what TopkDSA and TopkA end up with, and why Ok-Topk drops most of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "microbench/sparse/sparse_figures.h"

namespace lsched::bench {

/// Of densities: elements that any of the ranks has in its list, of n.
struct fill_in_row {
  std::string generator;
  std::uint64_t ranks = 0, n = 0, k = 0;
  double density = 0;  ///< k of n
  double first = 0;    ///< of the first round, when there are no residuals
  /// Mean over the later half of the rounds, with residuals that lose what was sent; none beyond
  /// k_most_figure_residuals ranks.
  std::optional<double> steady{};
  double independent = 0;             ///< 1 - (1-d)^P: if ranks chose positions independently of each other
  std::optional<double> published{};  ///< by the paper, of a model in training
  std::uint64_t rounds = 0;
  std::uint64_t violations = 0;  ///< rounds with fewer than one rank's list has, or more than all
};

inline constexpr std::uint64_t k_most_figure_residuals = 64;

/// Options are complete. What leaves a rank's residual does not depend on other ranks: so the lists of the first P of
/// many ranks are those of a world of P, and all worlds are counted at once.
std::vector<fill_in_row> count_fill_in(const sparse_figures_options& options, const tell_progress& tell);

nlohmann::json json_of(const fill_in_row& row);

}  // namespace lsched::bench
