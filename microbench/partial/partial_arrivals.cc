#include "microbench/partial/partial_arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lsched::bench {
namespace {

std::span<const std::uint64_t> bins_of(const lsched_histogram& values) { return values.bins; }

std::uint64_t count_of(const lsched_histogram& values) {
  return std::accumulate(bins_of(values).begin(), bins_of(values).end(), std::uint64_t{0});
}

/// Returns the value with index `below` in the sorted values of the histogram, interpolated within the value's bin.
double value_at(const lsched_histogram& values, double below) {
  double seen = 0;
  for (std::size_t bin = 0; bin < bins_of(values).size(); ++bin) {
    const auto here = static_cast<double>(values.bins[bin]);
    if (seen + here > below) {
      const double first = bin == 0 ? 0 : std::ldexp(1.0, static_cast<int>(bin) - 1);
      const double last = std::min(bin == 0 ? 0 : 2 * first, static_cast<double>(values.max));
      return first + (last - first) * (below - seen + 0.5) / here;
    }
    seen += here;
  }
  return static_cast<double>(values.max);
}

result in_ms(double ns) { return ns / 1e6; }

/// Sorts all rounds by lateness, and returns the median. Calls that were so early that their time was not kept come
/// first, then early calls, then late calls. Missing calls, and calls that were so late that their time was not kept,
/// come last.
result median_lateness_ms(const lsched_partial_stats& stats) {
  const auto early = static_cast<double>(count_of(stats.early_ns)), late = static_cast<double>(count_of(stats.late_ns));
  const double earliest = static_cast<double>(stats.in_time) - early;
  const double middle = std::floor((static_cast<double>(stats.rounds) - 1) / 2) - earliest;
  if (stats.rounds == 0 || middle < 0 || middle >= early + late) return nullptr;
  return in_ms(middle < early ? -value_at(stats.early_ns, early - 1 - middle)
                              : value_at(stats.late_ns, middle - early));
}

result mean_lateness_ms(const lsched_partial_stats& stats) {
  const std::uint64_t known = count_of(stats.early_ns) + count_of(stats.late_ns);
  if (known == 0) return nullptr;
  return in_ms((static_cast<double>(stats.late_ns.sum) - static_cast<double>(stats.early_ns.sum)) /
               static_cast<double>(known));
}

constexpr double k_null = std::numeric_limits<double>::max();

}  // namespace

result arrivals_of(const lsched_partial_stats& stats) {
  const auto rounds = static_cast<double>(std::max(stats.rounds, std::uint64_t{1}));
  return {{"in_time", stats.in_time},
          {"late", stats.late},
          {"uncalled", stats.uncalled},
          {"lateness_ms", mean_lateness_ms(stats)},
          {"lateness_ms_median", median_lateness_ms(stats)},
          {"completion_ms", in_ms(static_cast<double>(stats.completion_ns.sum) / rounds)},
          {"bytes_sent", stats.bytes_sent},
          {"bytes_saved", stats.bytes_saved}};
}

std::vector<result> gather(team& ranks, const result& own) {
  std::vector<double> all(own.size() * static_cast<std::size_t>(ranks.size()));
  auto next = all.begin() + ranks.rank() * static_cast<std::ptrdiff_t>(own.size());
  for (const result& value : own) *next++ = value.is_null() ? k_null : value.get<double>();
  all = ranks.combine(all, LSCHED_SUM);
  std::vector<result> of_ranks;
  next = all.begin();
  for (int r = 0; r < ranks.size(); ++r) {
    result& one = of_ranks.emplace_back(result{{"rank", r}});
    for (const auto& [key, value] : own.items()) {
      one[key] = *next == k_null ? result() : result(*next);
      if (value.is_number_unsigned()) one[key] = static_cast<std::uint64_t>(*next);
      ++next;
    }
  }
  return of_ranks;
}

}  // namespace lsched::bench
