#include "libsched/simulate/simulated_trace.h"

#include <algorithm>

namespace lsched {
namespace {

std::uint64_t nanoseconds(picoseconds time) { return static_cast<std::uint64_t>(time / 1000); }

}  // namespace

std::vector<trace_event> trace_of(const simulation_record& record, const simulation_report& report,
                                  const simulation& what) {
  std::vector<trace_event> events;
  events.reserve(record.ops.size());
  for (const simulated_op& it : record.ops) {
    if (it.who >= record.ranks) continue;
    events.push_back({.begin_ns = nanoseconds(it.begin),
                      .end_ns = nanoseconds(it.end),
                      .round = what.instance,
                      .who = it.who,
                      .op = it.op,
                      .peer = it.peer,
                      .tag = it.tag,
                      .kind = it.kind});
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

}  // namespace lsched
