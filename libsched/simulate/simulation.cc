#include "libsched/simulate/simulation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace lsched {
namespace {

std::string in_us(picoseconds time) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.10g us", static_cast<double>(time) / 1e6);
  return text.data();
}

std::uint64_t nanoseconds(picoseconds time) { return static_cast<std::uint64_t>(time / 1000); }

}  // namespace

picoseconds simulation_report::last() const {
  return finish.empty() ? 0 : *std::max_element(finish.begin(), finish.end());
}

picoseconds simulation_report::quantile(double q) const {
  if (finish.empty()) return 0;
  std::vector<picoseconds> times = finish;
  const auto wanted = static_cast<std::size_t>(std::ceil(q * static_cast<double>(times.size())));
  const auto place = times.begin() + static_cast<std::ptrdiff_t>(wanted == 0 ? 0 : wanted - 1);
  std::nth_element(times.begin(), place, times.end());
  return *place;
}

std::optional<failure> validate(const start_times& starts, rank size, picoseconds limit) {
  for (rank r = 0; r < size; ++r) {
    const picoseconds start = starts(r);
    if (start >= 0 && start < limit) continue;
    const std::string when = start == k_forever ? in_us(start) + " or later" : in_us(start);
    return failure{
        status::argument,
        "rank " + std::to_string(r) + " would begin at " + when + ": starts lie between 0 and " + in_us(limit), r};
  }
  return std::nullopt;
}

result<simulation_report> checked(simulation_report report) {
  if (report.last() >= k_forever)
    return failure{status::unsupported, "it takes longer than " + in_us(k_forever) + " of simulated time"};
  if (report.bytes == k_too_many_bytes) return failure{status::unsupported, "more than 2^64 bytes are sent"};
  return report;
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
