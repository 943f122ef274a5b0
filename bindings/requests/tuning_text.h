// A tuning table as the text that the library reads.
#pragma once

#include <string>

#include "collectives/tuning_table.h"

namespace lsched {

/// What parse_tuning makes that table of.
std::string to_text(const tuning_table& table);

}  // namespace lsched
