// What there is to say to who asks for an algorithm that makes less of it here than its name promises.
#pragma once

#include <string_view>

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// One sentence, if with so many ranks and such nodes an adaptive sum combines nothing adaptively; else empty. A world
/// of one rank has nothing to combine by any algorithm, which needs no saying. Static.
std::string_view remark_on(const algorithm& how, rank size, const shape& data);

}  // namespace lsched
