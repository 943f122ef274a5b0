// What the explorer's copy of the library offers to the tests: scenarios, explored, with a planted bug or without.
#pragma once

#include <string_view>

#include "tests/models/threads.h"

namespace models {

/// How a scenario is run.
struct circumstances {
  std::string_view bug;  ///< planted by CMakeLists.txt; empty: the code as it ships
  memory model = memory::tso;
  std::string_view weakened;  ///< this variable's sequentially consistent stores become plain ones
  limits most{};
};

struct world {
  std::string_view scenario;
  report (*run)(const circumstances& around);
};

/// Declares a world, at namespace scope.
struct known_world {
  explicit known_world(const world& it);
};

/// A report of a world that does not exist is a fault that says so.
report run(std::string_view scenario, const circumstances& around = {});

}  // namespace models
