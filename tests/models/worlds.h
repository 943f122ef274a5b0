// What every variant of the library offers to the tests: scenarios, explored.
//
// A variant is the library's text, as it is or with one line changed for the worse; CMakeLists.txt makes them.
#pragma once

#include <string_view>

#include "tests/models/threads.h"

namespace models {

/// How a scenario is run.
struct circumstances {
  memory model = memory::tso;
  std::string_view weakened;  ///< this variable's sequentially consistent stores become plain ones
  limits most{};
};

struct world {
  std::string_view variant;
  std::string_view scenario;
  report (*run)(const circumstances& around);
};

/// Declares a world, at namespace scope.
struct known_world {
  explicit known_world(const world& it);
};

/// A report of a world that does not exist is a fault that says so.
report run(std::string_view variant, std::string_view scenario, const circumstances& around = {});

}  // namespace models
