#include "microbench/engine/engine_parts.h"

#include <algorithm>

namespace lsched::bench {

runtime_handle open_world_of_one(const lsched_config* config) {
  lsched_world* runtime = nullptr;
  auto why = fresh_diagnostic();
  expect_ok(lsched_world_open_threads(1, config, &runtime, &why), "lsched_world_open_threads", why);
  return runtime_handle(runtime);
}

std::vector<std::string> engine_parts() {
#if LSCHED_HAVE_TBB
  return {"graphs", "commit", "lane", "kernels", "limits"};
#else
  return {"graphs", "commit", "kernels", "limits"};
#endif
}

int run_engine(const engine_options& options) {
  reporter out("engine", options.json);
  const auto wants = [&](std::string_view part) { return options.only.empty() || options.only == part; };
  bool is_right = true;
  if (wants("graphs")) measure_graphs(out);
  if (wants("commit")) measure_commit(out);
#if LSCHED_HAVE_TBB
  if (wants("lane")) is_right = measure_lane(out) && is_right;
#endif
  if (wants("kernels")) is_right = measure_kernels(options.cell_seconds, out) && is_right;
  if (wants("limits")) measure_limits(out);
  if (!is_right) out.say("a result was wrong");
  return is_right ? 0 : 1;
}

}  // namespace lsched::bench
