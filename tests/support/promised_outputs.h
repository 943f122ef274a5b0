// What the outputs of a world should hold, computed from what its collective promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsched/postcondition/postcondition.h"

namespace lsched::testing {

using numbers = std::vector<std::int64_t>;

/// By rank, the first input and the first output. Answers the first element of an output that is not what the promise
/// says of it, in words, or an empty string. Reductions are sums.
std::string broken_promise(const postcondition& promise, const std::vector<numbers>& inputs,
                           const std::vector<numbers>& outputs);

}  // namespace lsched::testing
