// What comes before the first round, and between rounds that use other memory: writing and compiling a rank's schedule,
// and binding a committed schedule to new buffers. Neither talks to anybody; the exchange of a commit is not in it.
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "collectives/registry.h"
#include "microbench/benchmarks.h"
#include "microbench/harness.h"

namespace lsched::bench {
namespace {

using microseconds = std::vector<double>;

template <class Job>
microseconds measure(std::uint64_t rounds, Job&& job) {
  microseconds samples;
  for (std::uint64_t i = 0; i < rounds + rounds / 10; ++i) {
    const auto begin = clock::now();
    job();
    if (i >= rounds / 10) samples.push_back(ns_between(begin, clock::now()) / 1e3);
  }
  return samples;
}

/// The slowest of a first, a middle and the last rank.
void measure_schedules(const algorithm& how, const commit_options& options, table& lines, reporter& out) {
  const shape data{.count = options.count, .type = dtype::f32, .what = kernel::sum};
  summary slowest;
  std::size_t ops = 0;
  for (const rank r : {rank{0}, options.ranks / 3, options.ranks - 1}) {
    const world place{r, options.ranks};
    if (const auto why = objection(how, place, data)) return;
    const summary its = summarise(measure(options.rounds, [&] {
      const auto made = how.generate(place, data, {});
      if (!made) throw failed(made.error().text);
      ops = std::max(ops, (*made)->ops().size());
    }));
    if (its.median > slowest.median) slowest = its;
  }
  const std::string name(how.name);
  lines.add({name, std::to_string(ops), text("%.1f", slowest.median), text("%.1f", slowest.p95)});
  out.json({{"bench", "commit"},
            {"what", name},
            {"ranks", options.ranks},
            {"count", options.count},
            {"ops", ops},
            {"us_median", slowest.median},
            {"us_p95", slowest.p95}});
}

void measure_rebind(const commit_options& options, table& lines, reporter& out) {
  lsched_world* runtime = nullptr;
  auto why = fresh_diagnostic();
  expect_ok(lsched_world_open_threads(1, nullptr, &runtime, &why), "lsched_world_open_threads", why);
  std::array<std::vector<float>, 2> inputs{std::vector<float>(options.count), std::vector<float>(options.count)};
  std::vector<float> output(options.count);
  lsched_schedule* schedule = nullptr;
  const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                   .input = inputs[0].data(),
                                   .output = output.data(),
                                   .count = options.count,
                                   .dtype = LSCHED_F32,
                                   .reduction = LSCHED_SUM,
                                   .algorithm = nullptr};
  expect_ok(lsched_allreduce_create(runtime, &desc, &schedule, &why), "lsched_allreduce_create", why);
  std::size_t turn = 0;
  constexpr int k_batch = 100;  // a clock read takes as long as a few
  const microseconds batches = measure(options.rounds, [&] {
    for (int i = 0; i < k_batch; ++i) {
      const void* in = inputs[++turn % 2].data();
      void* into = output.data();
      expect_ok(lsched_rebind(schedule, &in, &into), "lsched_rebind");
    }
  });
  const summary its = summarise(batches);
  lines.add({"rebind", "", text("%.3f", its.median / k_batch), text("%.3f", its.p95 / k_batch)});
  out.json(
      {{"bench", "commit"}, {"what", "rebind"}, {"us_median", its.median / k_batch}, {"us_p95", its.p95 / k_batch}});
  close(schedule_handle(schedule));
  expect_ok(lsched_world_close(runtime), "lsched_world_close");
}

}  // namespace

int run_commit(const commit_options& options) {
  reporter out("commit", options.json);
  table lines(
      {text("allreduce, %d ranks, %s", options.ranks, size_text(4 * options.count).c_str()), "ops", "us", "p95"});
  for (const algorithm& how : algorithms())
    if (how.of->name == "allreduce") measure_schedules(how, options, lines, out);
  measure_rebind(options, lines, out);
  out.print(lines);
  out.say(
      "Generating and compiling one rank's schedule, the slowest of three ranks; medians. rebind: new buffers for a "
      "committed one.");
  return 0;
}

}  // namespace lsched::bench
