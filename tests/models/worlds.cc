#include "tests/models/worlds.h"

namespace models {
namespace {

std::vector<world>& all() {
  static std::vector<world> worlds;
  return worlds;
}

}  // namespace

known_world::known_world(const world& it) { all().push_back(it); }

report run(std::string_view variant, std::string_view scenario, const circumstances& around) {
  for (const world& it : all())
    if (it.variant == variant && it.scenario == scenario) return it.run(around);
  report none;
  none.fault = "there is no scenario " + std::string(scenario) + " of variant " + std::string(variant);
  return none;
}

}  // namespace models
