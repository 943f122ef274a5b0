// Measures the cost of partial rounds without late ranks, and the cost of waiting for a late rank.
#include "microbench/partial/cost.h"

#include <thread>

#include "microbench/partial/partial_call.h"

namespace lsched::bench {
namespace {

/// Measures the cost of waiting. The last rank sleeps outside the library. All other ranks call and wait, and all
/// progress threads serve the open round. The processor time of all ranks, divided by the elapsed time, is the number
/// of cores that waiting keeps busy.
void measure_idle(team& ranks, const cost_options& options, reporter& out) {
  constexpr std::uint64_t k_bytes = 4096;
  partial_call call(ranks.runtime(), "full", k_bytes);
  call.offer_and_collect();
  bool is_right = call.is_right();
  out.progress("%d ranks wait %g s for rank %d", ranks.size() - 1, options.seconds, ranks.size() - 1);

  ranks.barrier();
  const double cpu_start = cpu_ms();
  const double wall = us_of([&] {
                        if (ranks.rank() == ranks.size() - 1)
                          std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
                        call.offer();
                        call.collect(call.ticket().round, LSCHED_FOREVER);
                      }) /
                      1e3;
  const double cpu = cpu_ms() - cpu_start;
  is_right = call.is_right() && call.report().offers == static_cast<std::uint64_t>(ranks.size()) && is_right;
  call.end();

  const double all_cpu = ranks.combine(cpu, LSCHED_SUM);
  const double longest = ranks.combine(wall, LSCHED_MAX);
  out.add({{"part", "idle"},
           {"seconds", longest / 1e3},
           {"cpu_fraction", all_cpu / longest},
           {"cpu_fraction_worst_rank", ranks.combine(cpu, LSCHED_MAX) / longest},
           {"wrong", ranks.combine(is_right ? 0.0 : 1.0, LSCHED_SUM)}},
          {{"cpu_ms", all_cpu}});
  out.print({column("ranks", "ranks"), column("waited s", "seconds", 2), column("processor ms, all ranks", "cpu_ms", 1),
             column("cores busy", "cpu_fraction", 4), column("worst rank", "cpu_fraction_worst_rank", 4)});
  out.say("Cores busy: total of all threads of all ranks, while %d ranks wait. A spinning rank costs 1.0.",
          ranks.size() - 1);
}

}  // namespace

int run_cost(lsched_world* runtime, const cost_options& options) {
  team ranks(runtime);
  reporter out("cost", options, ranks);
  const auto wants = [&](std::string_view part) { return options.only.empty() || options.only == part; };
  if (wants("balanced")) measure_balanced(ranks, options, out);
  if (wants("offer")) measure_offers(ranks, options, out);
  if (wants("cpu")) measure_cpu(ranks, options, out);
  if (wants("idle")) measure_idle(ranks, options, out);
  return out.finish();
}

}  // namespace lsched::bench
