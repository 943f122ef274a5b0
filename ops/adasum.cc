#include "ops/adasum.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <limits>

#include "ops/linear.h"

namespace lsched {
namespace {

/// sqrt(DBL_MIN)
constexpr double k_least_norm = 0x1p-511;
static_assert(k_least_norm * k_least_norm == std::numeric_limits<double>::min());

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

bool are_finite(const double sums[3]) {
  return std::isfinite(sums[0]) && std::isfinite(sums[1]) && std::isfinite(sums[2]);
}

/// How often the vector of that norm fits into the other's projection on it; 0 where there is no vector to speak of.
/// Divided before anything is multiplied: no larger than the ratio of the norms, whatever their scale.
double share(double dot, double norm) { return norm >= k_least_norm ? dot / norm : 0; }

/// A tree's nodes as the weights of their leaves. A leaf belongs to the last merged node that has it, so that one weight
/// for each leaf is enough, and the leaves of a node are a list.
class forest {
 public:
  forest(std::size_t leaves, const double* gram, double* weights) : leaves_(leaves), gram_(gram), weights_(weights) {
    for (std::size_t i = 0; i < leaves; ++i) {
      const auto leaf = static_cast<std::uint8_t>(i);
      const double norm = gram[gram_place(leaves, i, i)];
      nodes_[i] = {.first = leaf, .last = leaf, .norm = norm, .reach = std::sqrt(norm)};
      next_[i] = k_no_leaf;
      weights[i] = 1;
    }
  }

  void merge(adasum_tree::merge operands, std::size_t result) {
    const node& a = nodes_[operands.lower];
    const node& b = nodes_[operands.upper];
    const double sums[3] = {dot(a, b), a.norm, b.norm};
    const auto [x, y] = adasum_coefficients_of(sums);
    scale(a, x);
    scale(b, y);
    next_[a.last] = b.first;
    const double norm = x * (x * a.norm + y * sums[0]) + y * (x * sums[0] + y * b.norm);
    const double reach = std::fabs(x) * a.reach + std::fabs(y) * b.reach;
    nodes_[result] = {.first = a.first, .last = b.last, .norm = std::max(norm, 0.0), .reach = reach};
    if (reach * reach >= k_least_norm) amplification_ = std::max(amplification_, reach * reach / nodes_[result].norm);
  }

  double norm(std::size_t of) const { return nodes_[of].norm; }
  double amplification() const { return amplification_; }

 private:
  static constexpr std::uint8_t k_no_leaf = k_most_adasum_leaves;

  struct node {
    std::uint8_t first;
    std::uint8_t last;
    double norm;
    double reach;  ///< sum |weight| |leaf|: the root of `norm` if nothing cancels
  };

  double dot(const node& a, const node& b) const {
    double sum = 0;
    for (std::uint8_t i = a.first; i != k_no_leaf; i = next_[i]) {
      double row = 0;
      for (std::uint8_t j = b.first; j != k_no_leaf; j = next_[j])
        row += weights_[j] * gram_[gram_place(leaves_, i, j)];
      sum += weights_[i] * row;
    }
    return sum;
  }

  void scale(const node& of, double factor) {
    for (std::uint8_t i = of.first; i != k_no_leaf; i = next_[i]) weights_[i] *= factor;
  }

  std::size_t leaves_;
  const double* gram_;
  double* weights_;
  std::array<node, 2 * k_most_adasum_leaves - 1> nodes_;
  std::array<std::uint8_t, k_most_adasum_leaves> next_;
  double amplification_ = 1;
};

}  // namespace

adasum_coefficients adasum_coefficients_of(const double sums[3]) {
  if (!are_finite(sums)) return {k_nan, k_nan};
  return {1 - share(sums[0], sums[1]) * 0.5, 1 - share(sums[0], sums[2]) * 0.5};
}

double adasum_norm(const double sums[3]) {
  if (!are_finite(sums)) return k_nan;
  const double dot = sums[0];
  const double a = share(dot, sums[1]);
  const double b = share(dot, sums[2]);
  const double sum_of_norms = sums[1] + sums[2];
  const int guarded = (sums[1] < k_least_norm ? 1 : 0) + (sums[2] < k_least_norm ? 1 : 0);
  return std::max(sum_of_norms + dot * (guarded - 0.75 * (a + b) + 0.5 * (a * b)), 0.0);
}

bool is_valid(const adasum_tree& tree) {
  if (tree.leaves < 1 || tree.leaves > k_most_adasum_leaves) return false;
  std::bitset<2 * k_most_adasum_leaves> is_taken;
  std::array<std::size_t, 2 * k_most_adasum_leaves> least_leaf{};
  for (std::size_t i = 0; i < tree.leaves; ++i) least_leaf[i] = i;
  for (std::size_t m = 0; m + 1 < tree.leaves; ++m) {
    const auto [lower, upper] = tree.merges[m];
    const std::size_t made = tree.leaves + m;
    if (lower >= made || upper >= made || lower == upper || is_taken[lower] || is_taken[upper]) return false;
    if (least_leaf[lower] > least_leaf[upper]) return false;
    is_taken[lower] = is_taken[upper] = true;
    least_leaf[made] = least_leaf[lower];
  }
  return true;
}

adasum_tree balanced_adasum_tree(std::size_t leaves) {
  adasum_tree tree{.leaves = leaves};
  std::array<std::uint8_t, k_most_adasum_leaves> level{};
  for (std::size_t i = 0; i < leaves; ++i) level[i] = static_cast<std::uint8_t>(i);
  std::size_t made = 0;
  for (std::size_t width = leaves; width > 1; width = (width + 1) / 2) {
    for (std::size_t pair = 0; pair < width / 2; ++pair) {
      tree.merges[made] = {level[2 * pair], level[2 * pair + 1]};
      level[pair] = static_cast<std::uint8_t>(leaves + made++);
    }
    if (width % 2 == 1) level[width / 2] = level[width - 1];
  }
  return tree;
}

adasum_tree linear_adasum_tree(std::size_t leaves) {
  adasum_tree tree{.leaves = leaves};
  for (std::size_t m = 0; m + 1 < leaves; ++m)
    tree.merges[m] = {static_cast<std::uint8_t>(m == 0 ? 0 : leaves + m - 1), static_cast<std::uint8_t>(m + 1)};
  return tree;
}

adasum_weighing adasum_weights(const adasum_tree& tree, const double* gram, double* weights) {
  const std::size_t dots = tree.leaves * (tree.leaves + 1) / 2;
  if (!std::all_of(gram, gram + dots, [](double dot) { return std::isfinite(dot); })) {
    std::fill(weights, weights + tree.leaves, k_nan);
    return {.norm = k_nan};
  }
  forest nodes(tree.leaves, gram, weights);
  for (std::size_t m = 0; m + 1 < tree.leaves; ++m) nodes.merge(tree.merges[m], tree.leaves + m);
  const double norm = nodes.norm(2 * tree.leaves - 2);
  const double amplification = nodes.amplification();
  return {.norm = norm,
          .amplification = amplification,
          .is_safe = std::isfinite(norm) && amplification <= k_safe_adasum_amplification};
}

}  // namespace lsched
