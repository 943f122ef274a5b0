// What waiting costs. Every rank but the last calls and waits; the last sleeps, in the operating system, not
// in the library. All progress threads serve the open round meanwhile. The processor time of all ranks,
// divided by the time that passed, is the number of cores that waiting keeps busy.
#include <thread>

#include <nlohmann/json.hpp>

#include "microbench/partial/cost.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_count = 1024;

/// A partial allreduce of policy full: application threads wait in it, and it is served in the background
/// too.
schedule_handle make_full(lsched_world* runtime) {
  const lsched_partial_desc desc{.struct_size = sizeof desc,
                                 .count = k_count,
                                 .dtype = LSCHED_F32,
                                 .reduction = LSCHED_SUM,
                                 .activation = "full",
                                 .seed = 0,
                                 .lag = LSCHED_LATEST,
                                 .algorithm = nullptr};
  return created("lsched_partial_create", lsched_partial_create, runtime, &desc);
}

/// One round; answers whether the result is the sum of a one from each rank.
bool run_round(const schedule_handle& schedule, int ranks) {
  const std::vector<float> ones(k_count, 1.0f);
  std::vector<float> sum(k_count);
  lsched_ticket ticket{};
  auto why = fresh_diagnostic();
  expect_ok(lsched_offer(schedule.get(), ones.data(), &ticket), "lsched_offer");
  expect_ok(lsched_collect(ticket, sum.data(), LSCHED_FOREVER, nullptr, &why), "lsched_collect", why);
  return sum == std::vector<float>(k_count, static_cast<float>(ranks));
}

}  // namespace

double measure_idle(team& ranks, const cost_options& options, reporter& out) {
  auto schedule = make_full(ranks.runtime());
  bool is_right = run_round(schedule, ranks.size());
  out.progress("%d ranks wait %g s for rank %d", ranks.size() - 1, options.seconds, ranks.size() - 1);

  ranks.barrier();
  const auto start = clock::now();
  const double cpu_start = cpu_ms();
  const bool is_late = ranks.rank() == ranks.size() - 1;
  if (is_late) std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  is_right = run_round(schedule, ranks.size()) && is_right;
  const double cpu = cpu_ms() - cpu_start;
  const double wall = ms_between(start, clock::now());
  close(std::move(schedule));

  const double all_cpu = ranks.combine(cpu, LSCHED_SUM);
  const double worst_cpu = ranks.combine(cpu, LSCHED_MAX);
  const double longest = ranks.combine(wall, LSCHED_MAX);
  const double wrong = ranks.combine(is_right ? 0.0 : 1.0, LSCHED_SUM);
  out.json({{"bench", "cost"},
            {"part", "idle"},
            {"ranks", ranks.size()},
            {"seconds", longest / 1e3},
            {"cpu_fraction", all_cpu / longest},
            {"cpu_fraction_worst_rank", worst_cpu / longest},
            {"wrong", static_cast<std::uint64_t>(wrong)}});
  table lines({"ranks", "waited s", "processor ms, all ranks", "cores busy", "worst rank"});
  lines.add({std::to_string(ranks.size()), text("%.2f", longest / 1e3), text("%.1f", all_cpu),
             text("%.4f", all_cpu / longest), text("%.4f", worst_cpu / longest)});
  out.print(lines);
  out.say("Cores busy: of all threads of all ranks together, while %d wait. A rank that spins costs 1.0.",
          ranks.size() - 1);
  return wrong;
}

}  // namespace lsched::bench
