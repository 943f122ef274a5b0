// Measures the work before the first round: generating and compiling the schedule of a rank. Also measures the work
// between two rounds on different memory: binding a committed schedule to other buffers. Both kinds of work are local.
// The messages that ranks exchange in a commit are not measured.
#include <algorithm>
#include <array>

#include "collectives/registry.h"
#include "microbench/engine/engine_parts.h"

namespace lsched::bench {
namespace {

constexpr rank k_ranks = 64;
constexpr std::uint64_t k_count = 262144;  // floats
constexpr std::uint64_t k_rounds = 1000;   // for each measurement

/// Returns the durations of `job` in microseconds. The first calls are a warm-up and are not included.
template <class Job>
summary measure(Job&& job) {
  std::vector<double> us;
  for (std::uint64_t i = 0; i < k_rounds + k_rounds / 10; ++i) us.push_back(us_of(job));
  us.erase(us.begin(), us.begin() + k_rounds / 10);
  return summarise(std::move(us));
}

/// Measures the schedules of three ranks, and reports the slowest.
void measure_schedules(const algorithm& how, reporter& out) {
  const shape data{.count = k_count, .type = dtype::f32, .what = kernel::sum};
  summary slowest;
  std::size_t ops = 0;
  for (const rank r : {rank{0}, k_ranks / 3, k_ranks - 1}) {
    const world place{r, k_ranks};
    if (const auto why = validate(how, place, data)) return;
    const summary us = measure([&] {
      const auto made = how.generate(place, data, {});
      if (!made) throw failed(made.error().text);
      ops = std::max(ops, (*made)->ops().size());
    });
    if (us.median > slowest.median) slowest = us;
  }
  out.add({{"bench", "commit"},
           {"what", how.name},
           {"ranks", k_ranks},
           {"count", k_count},
           {"ops", ops},
           {"us_median", slowest.median},
           {"us_p95", slowest.p95}});
}

void measure_rebind(reporter& out) {
  const runtime_handle runtime = open_world_of_one();
  std::array<std::vector<float>, 2> inputs{std::vector<float>(k_count), std::vector<float>(k_count)};
  std::vector<float> output(k_count);
  schedule_handle schedule = make_allreduce(runtime.get(), inputs[0].data(), output.data(), k_count);
  std::size_t turn = 0;
  constexpr int k_batch = 100;  // several rebinds per clock read, because a clock read takes as long as a few rebinds
  const summary us = measure([&] {
    for (int i = 0; i < k_batch; ++i) {
      const void* in = inputs[++turn % 2].data();
      void* into = output.data();
      expect_ok(lsched_rebind(schedule.get(), &in, &into), "lsched_rebind");
    }
  });
  out.add({{"bench", "commit"}, {"what", "rebind"}, {"us_median", us.median / k_batch}, {"us_p95", us.p95 / k_batch}});
  close(std::move(schedule));
}

}  // namespace

void measure_commit(reporter& out) {
  for (const algorithm& how : algorithms())
    if (how.of->name == "allreduce") measure_schedules(how, out);
  measure_rebind(out);
  const std::string heading = text("allreduce, %d ranks, %s", k_ranks, size_text(4 * k_count).c_str());
  out.print({column(heading.c_str(), "what"), column("ops", "ops"), column("us", "us_median", 3),
             column("p95", "us_p95", 3)});
  out.say(
      "Generating and compiling one rank's schedule, the slowest of three ranks; medians. rebind: new buffers for a "
      "committed schedule.");
}

}  // namespace lsched::bench
