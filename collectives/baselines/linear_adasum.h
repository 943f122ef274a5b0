// Adasum along the line of ranks, "adasum/linear", a baseline for the library's adaptive sums.
#pragma once

namespace lsched {

/// Adds the algorithm to algorithms(). Must be called once, before any call of the registry that looks the algorithm
/// up.
void add_linear_adasum();

}  // namespace lsched
