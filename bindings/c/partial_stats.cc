// Statistics of a partial schedule on one rank, for the C interface.
#include <algorithm>
#include <span>
#include <string>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

static_assert(histogram::k_bins == LSCHED_HISTOGRAM_BINS);
static_assert(partial_figures::k_most_contributors + 1 == LSCHED_CONTRIBUTOR_BINS);

lsched_histogram histogram_of(const histogram& figures) {
  lsched_histogram same{.sum = figures.sum, .max = figures.max, .bins = {}};
  std::ranges::copy(figures.bins, same.bins);
  return same;
}

lsched_partial_stats stats_of(const lsched_schedule& schedule) {
  partial_figures now;
  schedule.world->process.driver().with_engine([&] { now = schedule.instance->partial->stats->figures(); });
  lsched_partial_stats all{.rounds = now.rounds,
                           .contributors_sum = now.contributors_sum,
                           .contributors_min = now.contributors_min,
                           .contributors_max = now.contributors_max,
                           .contributors = {},
                           .staleness = histogram_of(now.staleness),
                           .in_time = now.in_time,
                           .late = now.late,
                           .uncalled = now.uncalled(),
                           .early_ns = histogram_of(now.early_ns),
                           .late_ns = histogram_of(now.late_ns),
                           .completion_ns = histogram_of(now.completion_ns),
                           .messages_sent = now.messages_sent,
                           .nulls_sent = now.nulls_sent,
                           .bytes_sent = now.bytes_sent,
                           .bytes_saved = now.bytes_saved};
  std::ranges::copy(now.contributors, all.contributors);
  return all;
}

std::string json_of(std::uint64_t number) { return std::to_string(number); }

std::string json_of(std::span<const std::uint64_t> bins) {
  while (!bins.empty() && bins.back() == 0) bins = bins.first(bins.size() - 1);
  std::string text = "[";
  for (const std::uint64_t& bin : bins) text += (&bin == bins.data() ? "" : ",") + std::to_string(bin);
  return text + "]";
}

std::string json_of(const lsched_histogram& histogram) {
  return "{\"sum\":" + json_of(histogram.sum) + ",\"max\":" + json_of(histogram.max) +
         ",\"bins\":" + json_of(std::span(histogram.bins)) + "}";
}

}  // namespace

std::string stats_json_of(const lsched_schedule& schedule) {
  const lsched_partial_stats stats = stats_of(schedule);
  const auto [self, size] = schedule.world->place();
  std::string text = "{\"schedule\":\"" + schedule.instance->label + "\",\"rank\":" + std::to_string(self) +
                     ",\"ranks\":" + std::to_string(size);
  const auto add = [&](const char* name, const auto& value) {
    text += ",\"" + std::string(name) + "\":" + json_of(value);
  };
  add("rounds", stats.rounds);
  add("contributors_sum", stats.contributors_sum);
  add("contributors_min", stats.contributors_min);
  add("contributors_max", stats.contributors_max);
  add("contributors", std::span(stats.contributors));
  add("staleness", stats.staleness);
  add("in_time", stats.in_time);
  add("late", stats.late);
  add("uncalled", stats.uncalled);
  add("early_ns", stats.early_ns);
  add("late_ns", stats.late_ns);
  add("completion_ns", stats.completion_ns);
  add("messages_sent", stats.messages_sent);
  add("nulls_sent", stats.nulls_sent);
  add("bytes_sent", stats.bytes_sent);
  add("bytes_saved", stats.bytes_saved);
  return text + "}";
}

}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_schedule_stats(const lsched_schedule* schedule, lsched_partial_stats* stats) {
  if (!is_there(stats)) return report(kept_diagnostic(), refusal_of(stats));
  if (schedule == nullptr || !schedule->is_partial())
    return refuse(schedule, "only partial schedules have these statistics", kept_diagnostic());
  return guarded(kept_diagnostic(), [&] {
    write_struct(stats, stats_of(*schedule));
    return LSCHED_OK;
  });
}

}  // extern "C"
