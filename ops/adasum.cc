#include "ops/adasum.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <cmath>
#include <limits>

#include "ops/double_double.h"
#include "ops/gram_pairs.h"
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

/// From here on sums with twice the digits.
constexpr double k_most_amplification_of_doubles = 0x1p8;

/// A node that is no longer than this part of what it would be if nothing cancelled is zero.
constexpr double k_least_part = 0x1p-46;

/// The entries of a Gram matrix as numbers of one kind or the other.
template <class Number>
Number entry(const double* pair) {
  if constexpr (std::is_same_v<Number, double>)
    return pair[0];
  else
    return {pair[0], pair[1]};
}

double low_part(double) { return 0; }
double low_part(const double_double& of) { return of.lo; }

/// A tree's nodes as the weights of their leaves. A leaf belongs to the last merged node that has it, so that one
/// weight for each leaf is enough, and the leaves of a node are a list. Number: what dots and weights are kept in.
template <class Number>
class forest {
 public:
  forest(std::size_t leaves, const double* pairs) : leaves_(leaves), pairs_(pairs) {
    for (std::size_t i = 0; i < leaves; ++i) {
      const auto leaf = static_cast<std::uint8_t>(i);
      const Number norm = dot_of_leaves(i, i);
      nodes_[i] = {.first = leaf, .last = leaf, .norm = norm, .reach = std::sqrt(static_cast<double>(norm))};
      next_[i] = k_no_leaf;
      weights_[i] = 1;
    }
  }

  void write_weights(double* to) const {
    for (std::size_t i = 0; i < leaves_; ++i) {
      to[i] = static_cast<double>(weights_[i]);
      to[leaves_ + i] = low_part(weights_[i]);
    }
  }

  void merge(adasum_tree::merge operands, std::size_t result) {
    const node& a = nodes_[operands.lower];
    const node& b = nodes_[operands.upper];
    const Number d = dot(a, b);
    const auto [x, y] = coefficients(a, b, d);
    scale(a, x);
    scale(b, y);
    next_[a.last] = b.first;
    const Number norm = x * (x * a.norm + y * d) + y * (x * d + y * b.norm);
    const double reach = std::fabs(static_cast<double>(x)) * a.reach + std::fabs(static_cast<double>(y)) * b.reach;
    nodes_[result] = {.first = a.first, .last = b.last, .norm = at_least_zero(norm), .reach = reach};
    if (reach * reach < k_least_norm) return;
    const double gain = reach / std::sqrt(static_cast<double>(nodes_[result].norm));
    amplification_ = std::max(amplification_, gain * gain);
  }

  double norm(std::size_t of) const { return static_cast<double>(nodes_[of].norm); }
  double amplification() const { return amplification_; }

 private:
  static constexpr std::uint8_t k_no_leaf = k_most_adasum_leaves;

  struct node {
    std::uint8_t first;
    std::uint8_t last;
    Number norm;
    double reach;  ///< sum |weight| |leaf|: the root of `norm` if nothing cancels

    bool is_zero() const { return static_cast<double>(norm) <= (k_least_part * reach) * (k_least_part * reach); }
  };

  /// Not finite remains that.
  static Number at_least_zero(Number norm) { return static_cast<double>(norm) < 0 ? Number(0) : norm; }

  static std::pair<Number, Number> coefficients(const node& a, const node& b, Number d) {
    if (a.is_zero() || b.is_zero()) return {1, 1};
    return {coefficient(d, a.norm), coefficient(d, b.norm)};
  }
  static Number coefficient(Number dot, Number norm) {
    return static_cast<double>(norm) >= k_least_norm ? Number(1) + -0.5 * (dot / norm) : Number(1);
  }

  Number dot_of_leaves(std::size_t i, std::size_t j) const {
    return entry<Number>(pairs_ + 2 * gram_place(leaves_, i, j));
  }

  Number dot(const node& a, const node& b) const {
    Number sum = 0;
    for (std::uint8_t i = a.first; i != k_no_leaf; i = next_[i]) {
      Number row = 0;
      for (std::uint8_t j = b.first; j != k_no_leaf; j = next_[j]) row = row + weights_[j] * dot_of_leaves(i, j);
      sum = sum + weights_[i] * row;
    }
    return sum;
  }

  void scale(const node& of, Number factor) {
    for (std::uint8_t i = of.first; i != k_no_leaf; i = next_[i]) weights_[i] = weights_[i] * factor;
  }

  std::size_t leaves_;
  const double* pairs_;
  std::array<Number, k_most_adasum_leaves> weights_;
  std::array<node, 2 * k_most_adasum_leaves - 1> nodes_;
  std::array<std::uint8_t, k_most_adasum_leaves> next_;
  double amplification_ = 1;
};

template <class Number>
adasum_weighing weigh(const adasum_tree& tree, const double* pairs, double* weights) {
  forest<Number> nodes(tree.leaves, pairs);
  for (std::size_t m = 0; m + 1 < tree.leaves; ++m) nodes.merge(tree.merges[m], tree.leaves + m);
  nodes.write_weights(weights);
  return {.norm = nodes.norm(2 * tree.leaves - 2),
          .amplification = nodes.amplification(),
          .cancels = std::is_same_v<Number, double_double>};
}

}  // namespace

adasum_coefficients adasum_coefficients_of(const double sums[3]) {
  if (!are_finite(sums)) return {k_nan, k_nan};
  return {1 - share(sums[0], sums[1]) * 0.5, 1 - share(sums[0], sums[2]) * 0.5};
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

adasum_tree folded_adasum_tree(std::size_t leaves) {
  adasum_tree tree{.leaves = leaves};
  std::array<std::uint8_t, k_most_adasum_leaves> level{};
  std::size_t made = 0;
  const auto merged = [&](std::size_t lower, std::size_t upper) {
    tree.merges[made] = {static_cast<std::uint8_t>(lower), static_cast<std::uint8_t>(upper)};
    return static_cast<std::uint8_t>(leaves + made++);
  };
  const std::size_t core = std::bit_floor(leaves);
  const std::size_t rem = leaves - core;
  for (std::size_t i = 0; i < core; ++i)
    level[i] = i < rem ? merged(2 * i, 2 * i + 1) : static_cast<std::uint8_t>(i + rem);
  for (std::size_t width = core / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) level[i] = merged(level[2 * i], level[2 * i + 1]);
  return tree;
}

adasum_tree linear_adasum_tree(std::size_t leaves) {
  adasum_tree tree{.leaves = leaves};
  for (std::size_t m = 0; m + 1 < leaves; ++m)
    tree.merges[m] = {static_cast<std::uint8_t>(m == 0 ? 0 : leaves + m - 1), static_cast<std::uint8_t>(m + 1)};
  return tree;
}

adasum_weighing adasum_weights(const adasum_tree& tree, const double* pairs, double* weights) {
  const std::size_t size = gram_pairs_size(tree.leaves);
  if (!std::all_of(pairs, pairs + size, [](double part) { return std::isfinite(part); })) {
    std::fill(weights, weights + 2 * tree.leaves, k_nan);
    return {.norm = k_nan};
  }
  const adasum_weighing plain = weigh<double>(tree, pairs, weights);
  if (plain.amplification <= k_most_amplification_of_doubles) return plain;
  return weigh<double_double>(tree, pairs, weights);
}

}  // namespace lsched
