#include "libsched/simulation.h"

#include <algorithm>
#include <cmath>

namespace lsched {

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

picoseconds mean_latency(const simulation_report& report, const start_times& calls) {
  double total = 0;
  for (std::size_t r = 0; r < report.finish.size(); ++r)
    total += static_cast<double>(std::max<picoseconds>(0, report.finish[r] - calls(static_cast<rank>(r))));
  return std::llround(total / static_cast<double>(std::max<std::size_t>(1, report.finish.size())));
}

}  // namespace lsched
