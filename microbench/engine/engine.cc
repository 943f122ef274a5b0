#include "microbench/engine/engine_parts.h"

#include <algorithm>

#include "build_options.h"

namespace lsched::bench {

runtime_handle open_world_of_one(const lsched_config* config) {
  lsched_world* runtime = nullptr;
  auto why = fresh_diagnostic();
  expect_ok(lsched_world_open_threads(1, config, &runtime, &why), "lsched_world_open_threads", why);
  return runtime_handle(runtime);
}

std::vector<std::string> engine_parts() {
#if LSCHED_HAVE_TBB
  return {"graphs", "commit", "lane", "limits"};
#else
  return {"graphs", "commit", "limits"};
#endif
}

int run_engine(const engine_options& options) {
  reporter out("engine", options);
  const auto wants = [&](std::string_view part) { return options.only.empty() || options.only == part; };
  if (wants("graphs")) measure_graphs(out);
  if (wants("commit")) measure_commit(out);
#if LSCHED_HAVE_TBB
  if (wants("lane")) measure_lane(out);
#endif
  if (wants("limits")) measure_limits(out);
  return out.finish();
}

}  // namespace lsched::bench
