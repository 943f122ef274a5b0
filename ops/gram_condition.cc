#include "ops/gram_condition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/adasum.h"
#include "ops/double_double.h"
#include "ops/linear.h"

namespace lsched {
namespace {

/// Squared norms below are too near to where products of f64 underflow.
constexpr double k_least_norm = 0x1p-960;

/// The rows of a Gram matrix that are not zero, scaled to a unit diagonal, and then what elimination makes of them.
/// Lives in memory for the upper triangle of the whole.
class correlations {
 public:
  correlations(std::size_t n, const double* sums, double* memory) : memory_(memory) {
    std::array<double, k_most_adasum_leaves> factors;
    std::array<std::uint8_t, k_most_adasum_leaves> rows;
    for (std::size_t i = 0; i < n; ++i) {
      const double norm = sums[gram_place(n, i, i)];
      if (is_zero(n, sums, i)) continue;
      is_good_ = is_good_ && norm >= k_least_norm;
      rows[size_] = static_cast<std::uint8_t>(i);
      factors[size_++] = 1 / std::sqrt(norm);
    }
    if (!is_good_) return;
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = i; j < size_; ++j)
        at(i, j) = i == j ? 1 : sums[gram_place(n, rows[i], rows[j])] * factors[i] * factors[j];
  }

  /// sum |entries of the inverse|, at least (sum |p_i|)^2 / p'Cp for every p; infinite where it cannot be told.
  double amplification() {
    if (!is_good_ || !eliminate()) return std::numeric_limits<double>::infinity();
    invert();
    double sum = 0;
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = i; j < size_; ++j) {
        double entry = 0;
        for (std::size_t k = j; k < size_; ++k) entry += inverse(k, i) * inverse(k, j) / pivots_[k];
        sum += (i == j ? 1 : 2) * std::fabs(entry);
      }
    return sum;
  }

 private:
  double& at(std::size_t i, std::size_t j) { return memory_[gram_place(size_, i, j)]; }

  static bool is_zero(std::size_t n, const double* sums, std::size_t row) {
    for (std::size_t j = 0; j < n; ++j)
      if (sums[gram_place(n, row, j)] != 0) return false;
    return true;
  }

  /// C = L D L', with L below its unit diagonal where C was.
  bool eliminate() {
    for (std::size_t k = 0; k < size_; ++k) {
      pivots_[k] = at(k, k);
      if (!(pivots_[k] > 0)) return false;
      for (std::size_t i = k + 1; i < size_; ++i) {
        const double factor = at(k, i) / pivots_[k];
        for (std::size_t j = i; j < size_; ++j) at(i, j) -= factor * at(k, j);
      }
      for (std::size_t i = k + 1; i < size_; ++i) at(k, i) /= pivots_[k];
    }
    return true;
  }

  /// X with X L = 1 where L was: a row needs those of L above it.
  void invert() {
    for (std::size_t i = size_; i-- > 0;)
      for (std::size_t j = i; j-- > 0;) {
        double sum = at(j, i);
        for (std::size_t k = j + 1; k < i; ++k) sum += at(k, i) * at(j, k);
        at(j, i) = -sum;
      }
  }
  double inverse(std::size_t i, std::size_t j) { return i == j ? 1 : at(j, i); }

  double* memory_;
  std::size_t size_ = 0;
  bool is_good_ = true;
  std::array<double, k_most_adasum_leaves> pivots_;
};

}  // namespace

bool are_doubles_enough(std::size_t n, gram_tolerance tolerance, double* sums) {
  const std::size_t dots = n * (n + 1) / 2;
  if (!std::all_of(sums, sums + dots, [](double dot) { return std::isfinite(dot); })) return true;
  const double error = tolerance.error + 4 * static_cast<double>(n) * 0x1p-53;
  const double amplification = correlations(n, sums, sums + dots).amplification();
  return 1.01 * amplification * (1 / tolerance.amplification + error) <= 1;
}

void spread_to_pairs(std::size_t n, double* pairs) {
  for (std::size_t k = n * (n + 1) / 2; k-- > 0;) {
    pairs[2 * k] = pairs[k];
    pairs[2 * k + 1] = 0;
    make_canonical_pair(pairs + 2 * k);
  }
}

}  // namespace lsched
