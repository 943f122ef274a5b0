// The scenarios that the explorer runs with its copy of the library. Tests explore each scenario with or without a
// planted bug.
#pragma once

#include <string_view>

#include "tests/models/threads.h"

namespace models {

/// The conditions under which the explorer runs a scenario.
struct circumstances {
  std::string_view bug;  ///< name of the planted bug in CMakeLists.txt; empty for the unchanged code
  memory model = memory::tso;
  std::string_view weakened;  ///< variable whose sequentially consistent stores become plain stores; empty for none
  limits most{};
};

struct world {
  std::string_view scenario;
  report (*run)(const circumstances& around);
};

/// Registers a world. Define the object at namespace scope.
struct known_world {
  explicit known_world(const world& it);
};

/// Explores a scenario. An unknown scenario is reported as a fault.
report run(std::string_view scenario, const circumstances& around = {});

}  // namespace models
