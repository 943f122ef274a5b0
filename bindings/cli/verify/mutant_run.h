// `lsched verify --mutants`: how many faults verify() overlooks, for every operator and generator.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bindings/cli/verify/verify_plan.h"
#include "libsched/oracle/mutant.h"

namespace lsched::cli {

struct mutant_counts {
  std::size_t killed = 0;
  std::size_t equivalent = 0;
  std::size_t survived = 0;
  std::size_t all() const { return killed + equivalent + survived; }
};

/// Of one algorithm, all policies and sizes together; by operator.
struct mutant_row {
  const algorithm* of = nullptr;
  std::array<mutant_counts, k_all_mutations.size()> counts{};
};

struct mutant_results {
  std::vector<mutant_row> rows{};
  mutant_counts total{};
  std::vector<std::string> survivors{};  ///< world, number, what was changed, and why that is a fault
};

/// Where small worlds show everything: 2, 3, 5 and 8 ranks with 2 elements each. The rest of the wish stays.
verify_wish mutant_wish(verify_wish wish);

/// Tries every mutant of every world, on all cores. The result does not depend on their number. `progress` is told how
/// many of the worlds are done.
mutant_results try_mutants(const std::vector<verify_case>& worlds,
                           const std::function<void(std::size_t, std::size_t)>& progress);

/// A table, or JSON lines, and the survivors.
void print(const mutant_results& results, bool as_json);

}  // namespace lsched::cli
