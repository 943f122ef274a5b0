#include "microbench/baselines/list_source.h"

#include <algorithm>

namespace lsched {

list_source::list_source(const gradient_options& options, dtype type, std::uint64_t k)
    : gradients_(options),
      type_(type),
      k_(std::min(k, options.count)),
      room_(std::min(4 * k_, options.count)),
      narrow_(residual_of(type) == dtype::f32 ? options.count : 0),
      wide_(residual_of(type) == dtype::f64 ? options.count : 0),
      items_(room_ * item_size(type)) {}

/// Ranks are alike: the hint of one serves the next.
item_list list_source::draw(rank of, round_no round) {
  const bool is_wide = !wide_.empty();
  if (is_wide) {
    gradients_.draw(of, round, dtype::f64, wide_.data());
  } else {
    gradients_.draw(of, round, narrow_);
  }
  void* const residual = is_wide ? static_cast<void*>(wide_.data()) : narrow_.data();
  const accumulation vector{.residual = residual, .count = gradients_.options().count};
  const top_k_list found =
      sparse_kernels_of(type_).top_k(vector, k_, nan_policy::propagate, items_.data(), room_, hint_);
  return {items_.data(), found.count};
}

}  // namespace lsched
