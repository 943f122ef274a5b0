// What messages cost, by size and level of the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "libsched/simulate/loggops.h"
#include "libsched/simulate/packed_world.h"

namespace lsched {

/// Costs are kept if there are few, else computed when they are asked for.
class cost_table {
 public:
  cost_table(const packed_world& world, const machine& where) : world_(world), where_(where) {
    const std::size_t levels = where.levels.size();
    if (world.size_count() * levels > k_most_costs) return;
    for (std::uint32_t size = 0; size < world.size_count(); ++size)
      for (std::size_t level = 0; level < levels; ++level)
        costs_.push_back(cost_of(where, level, world.bytes_of(size)));
  }

  /// Valid until the next call.
  const message_cost& cost(std::uint32_t size_number, std::size_t level) {
    if (!costs_.empty()) return costs_[size_number * where_.levels.size() + level];
    return last_cost_ = cost_of(where_, level, world_.bytes_of(size_number));
  }

  std::size_t memory() const { return costs_.capacity() * sizeof(message_cost); }

 private:
  static constexpr std::size_t k_most_costs = 1024;

  const packed_world& world_;
  const machine& where_;
  std::vector<message_cost> costs_;  ///< by size, then level
  message_cost last_cost_;
};

}  // namespace lsched
