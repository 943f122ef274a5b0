// Requests to try algorithms with: what the command proves and simulates, and what tests and benchmarks run.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/selection.h"

namespace lsched {

/// A request that the collective can be asked for, with everything in it that it takes: `count` elements a block, or as
/// many on average where blocks differ (some have one more and some one less, some ranks of a neighbor_exchange have
/// nothing to say to each other). The root is neither the first nor the last rank where there is another. Late
/// contributions to an adaptive sum are merged by sum if that is `what`, else by adasum.
shape typical_shape(const collective& of, rank size, std::uint64_t count, dtype type, kernel what);

/// A vector cut into that many tensors. The first ones have an element more where it cannot be divided; no gaps.
std::vector<tensor> equal_tensors(std::uint64_t count, std::uint64_t number);

/// Variants of the request over the algorithm's tunables, one changed at a time; the first is the request itself.
std::vector<shape> variants_of(const algorithm& how, rank size, const shape& data);

/// choose, then generate.
result<schedule_ptr> generate(std::string_view collective, std::string_view wanted, world place, const shape& data,
                              const activation& starts = {});

}  // namespace lsched
