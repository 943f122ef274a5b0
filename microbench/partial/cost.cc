// What waiting for nobody costs where there is nobody to wait for.
#include "microbench/partial/cost.h"

namespace lsched::bench {

int run_cost(lsched_world* runtime, const cost_options& options) {
  team ranks(runtime);
  reporter out("cost", options.json, ranks);
  out.introduce(ranks);
  if (options.pin) pin_application(ranks, out);
  const auto wants = [&](std::string_view part) { return options.only.empty() || options.only == part; };
  double wrong = 0;
  if (wants("balanced")) wrong += measure_balanced(ranks, options, out);
  if (wants("offer")) wrong += measure_offers(ranks, options, out);
  if (wants("cpu")) wrong += measure_cpu(ranks, options, out);
  if (wants("idle")) wrong += measure_idle(ranks, options, out);
  if (wrong > 0) out.say("WRONG: %.0f results", wrong);
  return wrong > 0 ? 1 : 0;
}

}  // namespace lsched::bench
