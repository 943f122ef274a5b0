// How late contributions of a partial Adasum become one: by Adasum, tensor by tensor, on the application's thread.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/adasum/adasum.h"
#include "ops/adasum/tensor.h"

namespace lsched {

class adaptive_merge {
 public:
  /// Of vectors of a floating type; elements in no tensor are the later one's.
  adaptive_merge(dtype type, std::vector<tensor> tensors);

  /// later = the adaptive sum of both.
  void operator()(const std::byte* earlier, std::byte* later) const;

 private:
  std::size_t element_bytes_;
  dot_norms_fn dot_norms_;
  scaled_add_fn scaled_add_;
  std::vector<tensor> tensors_;
};

}  // namespace lsched
