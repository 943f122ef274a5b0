// The text form of a tuning table.
#pragma once

#include <string>

#include "collectives/tuning_table.h"

namespace lsched {

/// Returns the text from which parse_tuning reads this table.
std::string to_text(const tuning_table& table);

}  // namespace lsched
