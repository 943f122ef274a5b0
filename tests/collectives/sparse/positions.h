// Helpers for the tests of regions: problems, and the positions of elements that ranks have selected.
#pragma once

#include <random>
#include <vector>

#include "collectives/sparse/steps/problem.h"
#include "tests/ops/lists.h"

namespace lsched {

using numbers = std::vector<std::uint64_t>;

inline sparse_problem problem_of(rank size, std::uint64_t count, boundary_rule rule = boundary_rule::pooled) {
  return {.count = count, .k = count, .place = {0, size}, .boundaries = rule};
}

/// Returns the positions that a rank has selected among `count` elements. In shape 0 the positions are spread evenly.
/// In shape 1 most positions are near the beginning. Shape 2 has one position. Other shapes have a few adjacent
/// positions.
inline list positions(int shape, std::uint64_t count, std::mt19937_64& draw) {
  list all;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool is_in = shape == 0   ? draw() % 8 == 0
                       : shape == 1 ? draw() % (1 + 200 * i / count) == 0
                       : shape == 2 ? i == count / 3
                                    : i > count / 2 && i < count / 2 + 9;
    if (is_in) all.push_back({i, bits_of(dtype::f32, 1)});
  }
  return all;
}

}  // namespace lsched
