#include "ops/gram_pairs.h"

#include <array>
#include <cmath>
#include <limits>

#include "ops/adasum.h"
#include "ops/double_double.h"
#include "ops/linear.h"

namespace lsched {
namespace {

void store(double_double sum, double* pair) {
  const bool is_number = std::isfinite(sum.hi);
  pair[0] = is_number ? sum.hi : std::numeric_limits<double>::quiet_NaN();
  pair[1] = is_number ? sum.lo : 0;
}

/// Element by element: products of all but f64 are exact.
template <dtype Type>
void gram_pairs(const void* const* x, std::size_t n, std::size_t count, double* pairs) {
  const std::size_t dots = n * (n + 1) / 2;
  const gram_fn gram = find_gram(Type);
  std::array<const void*, k_most_adasum_leaves> at;
  std::array<double, k_most_adasum_leaves*(k_most_adasum_leaves + 1) / 2> products;
  for (std::size_t k = 0; k < 2 * dots; ++k) pairs[k] = 0;
  for (std::size_t e = 0; e < count; ++e) {
    for (std::size_t i = 0; i < n; ++i) at[i] = static_cast<const std::byte*>(x[i]) + e * size_of(Type);
    gram(at.data(), n, 1, products.data());
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i; j < n; ++j) {
        const std::size_t k = gram_place(n, i, j);
        double_double product = products[k];
        if constexpr (Type == dtype::f64)
          product.lo = std::fma(*static_cast<const double*>(at[i]), *static_cast<const double*>(at[j]), -product.hi);
        store(double_double(pairs[2 * k], pairs[2 * k + 1]) + product, pairs + 2 * k);
      }
  }
}

}  // namespace

gram_pairs_fn find_gram_pairs(dtype type) {
  switch (type) {
    case dtype::f16: return gram_pairs<dtype::f16>;
    case dtype::bf16: return gram_pairs<dtype::bf16>;
    case dtype::f32: return gram_pairs<dtype::f32>;
    case dtype::f64: return gram_pairs<dtype::f64>;
    default: return nullptr;
  }
}

void add_gram_pairs(const double* parts, std::size_t m, std::size_t n, double* total) {
  const std::size_t size = gram_pairs_size(n);
  for (std::size_t k = 0; k < size; k += 2) {
    double_double sum;
    for (std::size_t part = 0; part < m; ++part)
      sum = sum + double_double(parts[part * size + k], parts[part * size + k + 1]);
    store(sum, total + k);
  }
}

}  // namespace lsched
