// Sample requests for algorithms. The command verifies and simulates schedules for these requests. Tests and benchmarks
// run such schedules.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/selection.h"

namespace lsched {

/// Returns a complete request for the collective. Each block has `count` elements. If the collective allows blocks of
/// different sizes, some blocks have one element more or less. In a neighbor_exchange, some pairs of ranks have no
/// block. If there are at least three ranks, the root is neither the first nor the last rank. Late contributions to an
/// adaptive sum are merged by kernel::sum if `what` is kernel::sum, else by kernel::adasum.
shape typical_shape(const collective& of, rank size, std::uint64_t count, dtype type, kernel what);

/// Returns `number` tensors without gaps that cover a vector. If `count` is not divisible by `number`, the first
/// tensors have one more element.
std::vector<tensor> equal_tensors(std::uint64_t count, std::uint64_t number);

/// Returns the request itself, followed by variants. In a variant, members that the algorithm uses have other values.
std::vector<shape> variants_of(const algorithm& how, rank size, const shape& data);

/// Chooses the algorithm (`wanted` is its name, or "auto"), and generates the schedule of rank `place.self`.
result<schedule_ptr> generate(std::string_view collective, std::string_view wanted, world place, const shape& data,
                              const activation& starts = {});

}  // namespace lsched
