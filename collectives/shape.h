// All that a generator is told about data.
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace lsched {

struct shape {
  std::uint64_t count = 0;  ///< elements a rank contributes; 0 is a count like any other
  dtype type = dtype::f32;
  kernel what = kernel::none;  ///< how contributions combine; none where nothing is combined
  bool in_place = false;       ///< at run time, input and output will be the same memory
  friend bool operator==(const shape&, const shape&) = default;
};

}  // namespace lsched
