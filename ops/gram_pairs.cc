#include "ops/gram_pairs.h"

#include "ops/double_double.h"

namespace lsched {

void add_gram_pairs(const double* parts, std::size_t m, std::size_t n, double* total) {
  const std::size_t size = gram_pairs_size(n);
  for (std::size_t k = 0; k < size; k += 2) {
    double_double sum;
    for (std::size_t part = 0; part < m; ++part)
      sum = sum + double_double(parts[part * size + k], parts[part * size + k + 1]);
    total[k] = sum.hi, total[k + 1] = sum.lo;
    make_canonical_pair(total + k);
  }
}

}  // namespace lsched
