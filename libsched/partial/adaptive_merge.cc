#include "libsched/partial/adaptive_merge.h"

#include <array>
#include <utility>

#include "ops/adasum/adasum.h"
#include "ops/kernel.h"

namespace lsched {

adaptive_merge::adaptive_merge(dtype type, std::vector<tensor> tensors)
    : element_bytes_(size_of(type)),
      dot_norms_(find_dot_norms(type)),
      scaled_add_(find_scaled_add(type)),
      tensors_(std::move(tensors)) {}

void adaptive_merge::operator()(const std::byte* earlier, std::byte* later) const {
  for (const tensor& it : tensors_) {
    if (it.count == 0) continue;
    const std::byte* a = earlier + it.begin * element_bytes_;
    std::byte* b = later + it.begin * element_bytes_;
    std::array<double, k_dot_sums> sums;
    dot_norms_(a, b, it.count, sums.data());
    const auto [x, y] = adasum_coefficients_of(sums.data());
    scaled_add_(x, a, y, b, b, it.count);
  }
}

}  // namespace lsched
