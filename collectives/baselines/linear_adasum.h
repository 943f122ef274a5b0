// Adasum along the line of ranks, "adasum/linear", a baseline for the library's adaptive sums.
#pragma once

namespace lsched {

/// Adds the algorithm to algorithms(). Must be called once, before all other functions of the registry.
void add_linear_adasum();

}  // namespace lsched
