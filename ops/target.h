// SIMD targets: which ones this build has, which of them this CPU runs, and which one dispatch goes to.
// Internal to ops/; everybody else knows targets by their names, from ops/kernel.h.
//
// A source file that Highway compiles once for each target includes this header before any of Highway's: it
// narrows the set of targets, and the tables of all such files must agree on it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

// SSE4 is nearly as old as SSSE3 and serves the same machines: one target less to compile and test. Vectors whose
// width the compiler does not know cannot be kept in arrays, as linear-inl.h keeps its sums.
#ifndef HWY_DISABLED_TARGETS
#ifdef LSCHED_FEWER_TARGETS  // each takes minutes to compile with a sanitizer, and AVX2 has all there is to look at
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#endif

namespace lsched {

/// Highway numbers its targets by bits, from best to worst.
inline constexpr std::size_t k_target_bits = 63;

/// Place of the bit of the target that dispatch goes to: the best one that can run, or the forced one.
std::size_t current_target();

/// Answers, for every place of a bit, TableOf<bit>::pointer: a table, or nullptr where this build lacks the target.
template <template <std::int64_t> class TableOf, std::size_t... Places>
consteval auto tables_of_targets(std::index_sequence<Places...>) {
  return std::array{TableOf<std::int64_t{1} << Places>::pointer...};
}
template <template <std::int64_t> class TableOf>
consteval auto tables_of_targets() {
  return tables_of_targets<TableOf>(std::make_index_sequence<k_target_bits>());
}

}  // namespace lsched
