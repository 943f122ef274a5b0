// Selects the parameters of tests of collectives: world sizes, and strides through lists of cases. LSCHED_TEST_SAMPLE=1
// selects fewer cases for slow runs (sanitizers, valgrind). LSCHED_TEST_FULL=1 (`make soak`) selects all cases.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "ops/base.h"

namespace lsched::testing {

inline bool sampled() {
  const char* wish = std::getenv("LSCHED_TEST_SAMPLE");
  return wish != nullptr && std::string_view(wish) == "1";
}

inline bool full() { return std::getenv("LSCHED_TEST_FULL") != nullptr; }

/// Returns the stride through a long list of cases: 1 in the full mode, `in_sample` in the sample mode, and `tested`
/// otherwise.
inline std::uint64_t stride(std::uint64_t tested, std::uint64_t in_sample) {
  return full() ? 1 : sampled() ? in_sample : tested;
}

/// Returns world sizes for tests that run each size in many orders of events. tests/collectives/proof_test.cc proves
/// the same properties for every size.
inline std::vector<rank> few_world_sizes() {
  if (sampled()) return {1, 2, 3, 5, 6, 7, 8, 13};
  return {1, 2, 3, 5, 6, 7, 8, 13, 16, 17, 33};
}

/// Returns all world sizes up to 33, and sizes close to larger powers of two.
inline std::vector<rank> world_sizes() {
  if (sampled()) return few_world_sizes();
  std::vector<rank> sizes;
  for (rank size = 1; size <= 33; ++size) sizes.push_back(size);
  sizes.insert(sizes.end(), {47, 48, 63, 64, 65, 127, 128, 129});
  return sizes;
}

inline std::set<std::uint64_t> few_counts_for(rank size) { return {0, 1, static_cast<std::uint64_t>(size) + 1}; }

inline std::set<std::uint64_t> counts_for(rank size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  if (sampled()) return few_counts_for(size);
  return {0, 1, 2, ranks - 1, ranks, ranks + 1, 1000};
}

}  // namespace lsched::testing
