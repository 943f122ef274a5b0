// From one floating format to another, by a factor on the way.
//
// As everywhere in ops: the same bits at every SIMD level, in the default floating-point environment; no allocation;
// any number of threads at once. Vectors need no alignment beyond that of their element, and may be null only when
// count is 0.
#pragma once

#include "ops/base.h"

namespace lsched {

/// output[i] = factor * input[i], the product rounded to f64 and that to nearest even in the output's type, its
/// subnormals included: once in all if factor is a power of two. What is too large becomes an infinity, NaN the
/// positive quiet one without payload. input and output are disjoint.
using convert_fn = void (*)(const void* input, std::size_t count, double factor, void* output);

/// nullptr if one of them is an integer.
convert_fn find_convert(dtype from, dtype to);

}  // namespace lsched
