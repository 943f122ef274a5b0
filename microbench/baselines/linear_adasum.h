// Adasum along the line of ranks, "adasum/linear", which the library's adaptive sums are compared with.
#pragma once

namespace lsched {

/// Adds it to algorithms(). Once, before anything else of these is called.
void add_linear_adasum();

}  // namespace lsched
