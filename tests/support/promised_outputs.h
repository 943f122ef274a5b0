// A check of the outputs of a world against the postcondition of its collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsched/postcondition/postcondition.h"

namespace lsched::testing {

using numbers = std::vector<std::int64_t>;

/// Checks the first output of each rank against the first inputs of all ranks. Reductions are sums. Returns a
/// description of the first wrong element, or an empty string.
std::string broken_promise(const postcondition& promise, const std::vector<numbers>& inputs,
                           const std::vector<numbers>& outputs);

}  // namespace lsched::testing
