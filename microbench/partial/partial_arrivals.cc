#include "microbench/partial/partial_arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

namespace lsched::bench {
namespace {

constexpr double k_ns_per_ms = 1e6;

std::span<const std::uint64_t> bins_of(const lsched_histogram& it) { return it.bins; }

std::uint64_t values_in(const lsched_histogram& it) {
  return std::accumulate(bins_of(it).begin(), bins_of(it).end(), std::uint64_t{0});
}

/// The value that so many are below.
double value_at(const lsched_histogram& it, double below) {
  double seen = 0;
  for (std::size_t bin = 0; bin < bins_of(it).size(); ++bin) {
    const auto here = static_cast<double>(it.bins[bin]);
    if (seen + here > below) {
      const double first = bin == 0 ? 0 : std::ldexp(1.0, static_cast<int>(bin) - 1);
      const double last = std::min(bin == 0 ? 0 : 2 * first, static_cast<double>(it.max));
      return first + (last - first) * (below - seen + 0.5) / here;
    }
    seen += here;
  }
  return static_cast<double>(it.max);
}

/// Of all rounds in the order of lateness: those called for earliest, of which no time is known; early and late ones;
/// those too late to know, or not called for.
std::optional<double> median_lateness_ns(const lsched_partial_stats& it) {
  const auto early = static_cast<double>(values_in(it.early_ns)), late = static_cast<double>(values_in(it.late_ns));
  const double earliest = static_cast<double>(it.in_time) - early;
  const double middle = std::floor((static_cast<double>(it.rounds) - 1) / 2) - earliest;
  if (it.rounds == 0 || middle < 0 || middle >= early + late) return std::nullopt;
  return middle < early ? -value_at(it.early_ns, early - 1 - middle) : value_at(it.late_ns, middle - early);
}

std::string share_of(std::uint64_t saved, std::uint64_t sent) {
  const std::uint64_t all = saved + sent;
  return all == 0 ? "-" : text("%.0f %%", 100 * static_cast<double>(saved) / static_cast<double>(all));
}

double sum_of(const lsched_histogram& it) { return static_cast<double>(it.sum); }

std::optional<double> mean_lateness_ns(const lsched_partial_stats& it) {
  const std::uint64_t known = values_in(it.early_ns) + values_in(it.late_ns);
  if (known == 0) return std::nullopt;
  return (sum_of(it.late_ns) - sum_of(it.early_ns)) / static_cast<double>(known);
}

std::optional<double> in_ms(std::optional<double> ns) { return ns ? std::optional(*ns / k_ns_per_ms) : std::nullopt; }

constexpr double k_nothing = std::numeric_limits<double>::max();
std::optional<double> optional_of(double it) { return it == k_nothing ? std::nullopt : std::optional(it); }

nlohmann::json json_of(const std::optional<double>& it) { return it ? nlohmann::json(*it) : nlohmann::json(nullptr); }
std::string signed_text(const std::optional<double>& it) { return it ? text("%+.4f", *it) : "-"; }

}  // namespace

arrivals arrivals_of(const lsched_partial_stats& it) {
  const auto rounds = static_cast<double>(std::max(it.rounds, std::uint64_t{1}));
  return {.in_time = it.in_time,
          .late = it.late,
          .uncalled = it.uncalled,
          .lateness_ms = in_ms(mean_lateness_ns(it)),
          .lateness_ms_median = in_ms(median_lateness_ns(it)),
          .completion_ms = sum_of(it.completion_ns) / rounds / k_ns_per_ms,
          .bytes_sent = it.bytes_sent,
          .bytes_saved = it.bytes_saved};
}

std::vector<arrivals> gather(team& ranks, const arrivals& mine) {
  const auto number = [](std::uint64_t whole) { return static_cast<double>(whole); };
  const std::vector<double> numbers{number(mine.in_time),
                                    number(mine.late),
                                    number(mine.uncalled),
                                    mine.lateness_ms.value_or(k_nothing),
                                    mine.lateness_ms_median.value_or(k_nothing),
                                    mine.completion_ms,
                                    number(mine.bytes_sent),
                                    number(mine.bytes_saved)};
  const auto width = static_cast<std::ptrdiff_t>(numbers.size());
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(ranks.size()));
  std::ranges::copy(numbers, all.begin() + ranks.rank() * width);
  all = ranks.combine(all, LSCHED_SUM);
  std::vector<arrivals> of_ranks;
  const auto whole = [](double it) { return static_cast<std::uint64_t>(it); };
  for (auto at = all.begin(); at != all.end(); at += width)
    of_ranks.push_back({.in_time = whole(at[0]),
                        .late = whole(at[1]),
                        .uncalled = whole(at[2]),
                        .lateness_ms = optional_of(at[3]),
                        .lateness_ms_median = optional_of(at[4]),
                        .completion_ms = at[5],
                        .bytes_sent = whole(at[6]),
                        .bytes_saved = whole(at[7])});
  return of_ranks;
}

nlohmann::json json_of(const std::vector<arrivals>& of_ranks) {
  auto lines = nlohmann::json::array();
  for (const arrivals& it : of_ranks)
    lines.push_back({{"rank", lines.size()},
                     {"in_time", it.in_time},
                     {"late", it.late},
                     {"uncalled", it.uncalled},
                     {"lateness_ms", json_of(it.lateness_ms)},
                     {"lateness_ms_median", json_of(it.lateness_ms_median)},
                     {"completion_ms", it.completion_ms},
                     {"bytes_sent", it.bytes_sent},
                     {"bytes_saved", it.bytes_saved}});
  return lines;
}

table arrivals_table() {
  return table(
      {"policy", "rank", "in time", "late", "not called", "lateness, ms", "median", "completion, ms", "bytes saved"});
}

void add_rows(table& to, const std::string& policy, const std::vector<arrivals>& of_ranks) {
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    const arrivals& it = of_ranks[r];
    to.add({policy, std::to_string(r), std::to_string(it.in_time), std::to_string(it.late), std::to_string(it.uncalled),
            signed_text(it.lateness_ms), signed_text(it.lateness_ms_median), text("%.4f", it.completion_ms),
            share_of(it.bytes_saved, it.bytes_sent)});
  }
}

}  // namespace lsched::bench
