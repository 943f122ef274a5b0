// Which SIMD targets this build has. A source file that Highway compiles once for each target includes this header
// before any of Highway's: all such files must agree. Internal to ops/; everybody else knows targets by their names,
// from ops/simd_targets.h.
#pragma once

// SSE4 is nearly as old as SSSE3 and serves the same machines: one target less to compile and test. Vectors whose
// width the compiler does not know cannot be kept in arrays, as adasum.cc keeps its sums.
#ifndef HWY_DISABLED_TARGETS
#ifdef LSCHED_FEWER_TARGETS  // each takes minutes to compile with a sanitizer, and AVX2 has all there is to look at
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#endif
