// Algorithms that are read from a text at run time and take part like those of the library.
#pragma once

#include <string_view>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Whether a text begins as an algorithm file does; if not, it may be a schedule file.
bool is_algorithm_text(std::string_view text);

/// Adds the algorithm that a text of the form of docs/reference/algorithm_file.md describes to the registry, behind its
/// collective's, and its partial form where the collective has one; for the rest of the process. A text that was added
/// before is found again. Any thread.
///
/// "auto" takes it only for requests that were proved with it: all ranks' schedules are made and verified first, once
/// for each request. Who names it gets it without.
///
/// Failures: "line L, column C: …" with ARGUMENT or UNSUPPORTED; STATE for another algorithm of that name.
result<const algorithm*> add_written(std::string_view text);

}  // namespace lsched
