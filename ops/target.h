// The SIMD targets of this build. Highway compiles some source files once for each target. All these files must use the
// same list of targets, so each must include this header before Highway's headers. Only these files and
// ops/simd_targets.cc include this header. Other code uses the names of targets (ops/simd_targets.h).
#pragma once

// SSSE3 is left out because nearly every machine with SSSE3 has SSE4, too. SVE and RVV are left out because adasum.cc
// stores SIMD vectors in arrays, so the compiler must know the width of a vector.
#ifndef HWY_DISABLED_TARGETS
#ifdef LSCHED_FEWER_TARGETS  // each target takes minutes with a sanitizer; AVX2 covers all code
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#endif
