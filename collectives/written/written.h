// Algorithms that are read from a text at run time, and are then used like the algorithms of the library.
#pragma once

#include <string_view>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Returns true if the text begins like an algorithm file, not like a schedule file.
bool is_algorithm_text(std::string_view text);

/// Adds the algorithm that a text describes (docs/reference/algorithm_file.md) to the registry, after the other
/// algorithms of its collective. The algorithm stays in the registry until the process ends. If the collective has a
/// partial form, that form of the algorithm is also added. If the text was added before, returns the existing
/// algorithm. Thread-safe.
///
/// "auto" chooses the algorithm only for requests that have been proved: the schedules of all ranks are generated and
/// verified once for each request. A dense request that names the algorithm needs no proof.
///
/// Returns ARGUMENT or UNSUPPORTED with a text of the form "line L, column C: …", and STATE if another algorithm has
/// the same name.
result<const algorithm*> add_written(std::string_view text);

}  // namespace lsched
