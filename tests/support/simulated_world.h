// Creates worlds of schedules, and runs simulations that must not fail.
#pragma once

#include <gtest/gtest.h>

#include "libsched/simulate/simulation.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {

constexpr picoseconds k_us = 1'000'000;

/// Returns the schedules of an algorithm for `bytes` bytes of data. The root is rank 0.
inline std::vector<schedule_ptr> collective_world(rank size, std::string_view collective, std::string_view algorithm,
                                                  std::uint64_t bytes, const activation& starts = {}) {
  shape data = typical_shape(*find_collective(collective), size, bytes, dtype::u8, kernel::sum);
  data.root = 0;
  return whole_world(size, [&](world place) { return generate(collective, algorithm, place, data, starts); });
}

inline std::vector<schedule_ptr> doubling_world(rank size, std::uint64_t bytes, const activation& starts = {}) {
  const bool is_partial = starts.policy != activation_policy::none;
  return collective_world(size, is_partial ? "partial_allreduce" : "allreduce", "recursive_doubling", bytes, starts);
}

inline simulation_report simulated(std::span<const schedule_ptr> ranks, const simulation& what = {},
                                   simulation_record* record = nullptr, bool trace = false) {
  auto report = simulate_schedules(ranks, what, record, trace);
  EXPECT_TRUE(report) << report.error().text;
  return report ? std::move(*report) : simulation_report{};
}

}  // namespace lsched::testing
