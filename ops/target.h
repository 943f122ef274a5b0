// The SIMD targets of this build. Every source file that Highway compiles once for each target must include this header
// before Highway's headers, because all such files must agree. Internal to ops/. Other code uses the names of targets
// (ops/simd_targets.h).
#pragma once

// SSSE3 is left out because SSE4 is nearly as old and serves the same machines. SVE and RVV are left out because
// adasum.cc stores vectors in arrays, which needs a width that the compiler knows.
#ifndef HWY_DISABLED_TARGETS
#ifdef LSCHED_FEWER_TARGETS  // each takes minutes to compile with a sanitizer, and AVX2 covers all code
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#endif
