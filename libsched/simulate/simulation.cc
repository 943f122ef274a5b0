#include "libsched/simulate/simulation.h"

#include <algorithm>
#include <cmath>

namespace lsched {
namespace {

std::uint64_t nanoseconds(picoseconds time) { return static_cast<std::uint64_t>(time / 1000); }

}  // namespace

result<simulation_report> simulate_schedules(const packed_world& ranks, const simulation& what,
                                             simulation_record* record, bool trace) {
  simulated_round round{.where = what.where,
                        .starts = start_times(what.skew, ranks.size(), what.instance),
                        .instance = what.instance,
                        .initiator = what.initiator,
                        .progress = what.progress};
  if (what.noise.mean > 0)
    round.noise = [&what](rank r, op_id op, picoseconds) { return noise_of(what.noise, r, what.instance, op); };
  return simulate_round(ranks, round, record, trace);
}

result<simulation_report> simulate_schedules(std::span<const schedule_ptr> ranks, const simulation& what,
                                             simulation_record* record, bool trace) {
  const auto packed = packed_world::of(ranks);
  if (!packed) return packed.error();
  return simulate_schedules(*packed, what, record, trace);
}

std::vector<trace_event> trace_of(const simulation_record& record, const simulation_report& report,
                                  const simulation& what) {
  std::vector<trace_event> events;
  events.reserve(record.ops.size());
  for (const simulated_op& fired : record.ops) {
    if (fired.who >= record.ranks) continue;
    events.push_back({.begin_ns = nanoseconds(fired.begin),
                      .end_ns = nanoseconds(fired.end),
                      .round = what.instance,
                      .who = fired.who,
                      .op = fired.op,
                      .peer = fired.peer,
                      .tag = fired.tag,
                      .kind = fired.kind});
  }
  const rank size = static_cast<rank>(report.finish.size());
  const start_times starts(what.skew, size, what.instance);
  for (rank r = 0; r < std::min(size, record.ranks); ++r) {
    const picoseconds end = report.finish[static_cast<std::size_t>(r)];
    events.push_back({.begin_ns = nanoseconds(std::min(starts(r), end)),
                      .end_ns = nanoseconds(end),
                      .round = what.instance,
                      .who = r});
  }
  return events;
}

picoseconds mean_latency(const simulation_report& report, const start_times& calls) {
  double total = 0;
  for (std::size_t r = 0; r < report.finish.size(); ++r)
    total += static_cast<double>(std::max<picoseconds>(0, report.finish[r] - calls(static_cast<rank>(r))));
  return std::llround(total / static_cast<double>(std::max<std::size_t>(1, report.finish.size())));
}

}  // namespace lsched
