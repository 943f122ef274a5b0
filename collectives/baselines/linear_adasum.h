// Adasum along the line of ranks, "adasum/linear", a baseline for the library's adaptive sums.
#pragma once

namespace lsched {

/// Adds the algorithm to algorithms(). Must be called once, before the algorithm is looked up in the registry.
void add_linear_adasum();

}  // namespace lsched
