// What comes before the first round, and between rounds that use other memory: writing and compiling a rank's schedule,
// and binding a committed schedule to new buffers. Neither talks to anybody; the exchange of a commit is not in it.
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "collectives/registry.h"
#include "microbench/engine/engine_parts.h"

namespace lsched::bench {
namespace {

constexpr rank k_ranks = 64;
constexpr std::uint64_t k_count = 262144;  // floats
constexpr std::uint64_t k_rounds = 1000;   // of each

using microseconds = std::vector<double>;

template <class Job>
microseconds measure(Job&& job) {
  microseconds samples;
  for (std::uint64_t i = 0; i < k_rounds + k_rounds / 10; ++i) {
    const auto begin = clock::now();
    job();
    if (i >= k_rounds / 10) samples.push_back(ns_between(begin, clock::now()) / 1e3);
  }
  return samples;
}

/// The slowest of a first, a middle and the last rank.
void measure_schedules(const algorithm& how, table& lines, reporter& out) {
  const shape data{.count = k_count, .type = dtype::f32, .what = kernel::sum};
  summary slowest;
  std::size_t ops = 0;
  for (const rank r : {rank{0}, k_ranks / 3, k_ranks - 1}) {
    const world place{r, k_ranks};
    if (const auto why = validate(how, place, data)) return;
    const summary its = summarise(measure([&] {
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
            {"ranks", k_ranks},
            {"count", k_count},
            {"ops", ops},
            {"us_median", slowest.median},
            {"us_p95", slowest.p95}});
}

void measure_rebind(table& lines, reporter& out) {
  const runtime_handle runtime = open_world_of_one();
  std::array<std::vector<float>, 2> inputs{std::vector<float>(k_count), std::vector<float>(k_count)};
  std::vector<float> output(k_count);
  const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                   .input = inputs[0].data(),
                                   .output = output.data(),
                                   .count = k_count,
                                   .dtype = LSCHED_F32,
                                   .reduction = LSCHED_SUM,
                                   .algorithm = nullptr};
  schedule_handle schedule = created("lsched_allreduce_create", lsched_allreduce_create, runtime.get(), &desc);
  std::size_t turn = 0;
  constexpr int k_batch = 100;  // a clock read takes as long as a few
  const microseconds batches = measure([&] {
    for (int i = 0; i < k_batch; ++i) {
      const void* in = inputs[++turn % 2].data();
      void* into = output.data();
      expect_ok(lsched_rebind(schedule.get(), &in, &into), "lsched_rebind");
    }
  });
  const summary its = summarise(batches);
  lines.add({"rebind", "", text("%.3f", its.median / k_batch), text("%.3f", its.p95 / k_batch)});
  out.json(
      {{"bench", "commit"}, {"what", "rebind"}, {"us_median", its.median / k_batch}, {"us_p95", its.p95 / k_batch}});
  close(std::move(schedule));
}

}  // namespace

void measure_commit(reporter& out) {
  table lines({text("allreduce, %d ranks, %s", k_ranks, size_text(4 * k_count).c_str()), "ops", "us", "p95"});
  for (const algorithm& how : algorithms())
    if (how.of->name == "allreduce") measure_schedules(how, lines, out);
  measure_rebind(lines, out);
  out.print(lines);
  out.say(
      "Generating and compiling one rank's schedule, the slowest of three ranks; medians. rebind: new buffers for a "
      "committed one.");
}

}  // namespace lsched::bench
