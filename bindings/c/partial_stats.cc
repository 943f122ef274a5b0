// What a rank has seen of a partial schedule, in numbers and as JSON.
#include <algorithm>
#include <span>

#include "bindings/c/sized.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

static_assert(histogram::k_bins == LSCHED_HISTOGRAM_BINS);
static_assert(partial_figures::k_most_contributors + 1 == LSCHED_CONTRIBUTOR_BINS);

lsched_histogram told(const histogram& it) {
  lsched_histogram same{.sum = it.sum, .max = it.max, .bins = {}};
  std::ranges::copy(it.bins, same.bins);
  return same;
}

lsched_partial_stats stats_of(const lsched_schedule& schedule) {
  partial_figures now;
  schedule.world->process.driver().with_engine([&] { now = schedule.instance->stats->figures(); });
  lsched_partial_stats all{.rounds = now.rounds,
                           .contributors_sum = now.contributors_sum,
                           .contributors_min = now.contributors_min,
                           .contributors_max = now.contributors_max,
                           .contributors = {},
                           .staleness = told(now.staleness),
                           .in_time = now.in_time,
                           .late = now.late,
                           .uncalled = now.uncalled(),
                           .early_ns = told(now.early_ns),
                           .late_ns = told(now.late_ns),
                           .completion_ns = told(now.completion_ns),
                           .messages_sent = now.messages_sent,
                           .nulls_sent = now.nulls_sent,
                           .bytes_sent = now.bytes_sent,
                           .bytes_saved = now.bytes_saved};
  std::ranges::copy(now.contributors, all.contributors);
  return all;
}

// --- JSON ------------------------------------------------------------------------------------------------------------

std::string member(const char* name, const std::string& value) { return "\"" + std::string(name) + "\":" + value; }
std::string member(const char* name, std::uint64_t value) { return member(name, std::to_string(value)); }

std::string list_of(std::span<const std::uint64_t> bins) {
  while (!bins.empty() && bins.back() == 0) bins = bins.first(bins.size() - 1);
  std::string text = "[";
  for (const std::uint64_t& bin : bins) text += (&bin == bins.data() ? "" : ",") + std::to_string(bin);
  return text + "]";
}

std::string member(const char* name, const lsched_histogram& it) {
  return member(
      name, "{" + member("sum", it.sum) + "," + member("max", it.max) + "," + member("bins", list_of(it.bins)) + "}");
}

std::string json_of(const lsched_schedule& schedule, const lsched_partial_stats& it) {
  const auto [self, size] = schedule.world->joined.place();
  return "{" + member("schedule", "\"" + schedule.instance->label + "\"") + "," + member("rank", std::to_string(self)) +
         "," + member("ranks", std::to_string(size)) + "," + member("rounds", it.rounds) + "," +
         member("contributors_sum", it.contributors_sum) + "," + member("contributors_min", it.contributors_min) + "," +
         member("contributors_max", it.contributors_max) + "," + member("contributors", list_of(it.contributors)) +
         "," + member("staleness", it.staleness) + "," + member("in_time", it.in_time) + "," + member("late", it.late) +
         "," + member("uncalled", it.uncalled) + "," + member("early_ns", it.early_ns) + "," +
         member("late_ns", it.late_ns) + "," + member("completion_ns", it.completion_ns) + "," +
         member("messages_sent", it.messages_sent) + "," + member("nulls_sent", it.nulls_sent) + "," +
         member("bytes_sent", it.bytes_sent) + "," + member("bytes_saved", it.bytes_saved) + "}";
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_schedule_stats(const lsched_schedule* schedule, lsched_partial_stats* stats) {
  if (!is_there(stats)) return LSCHED_ERR_ARGUMENT;
  if (schedule == nullptr || !schedule->is_partial()) return refuse(schedule);
  return guarded(nullptr, [&] {
    write_struct(stats, stats_of(*schedule));
    return LSCHED_OK;
  });
}

lsched_status lsched_schedule_stats_print(const lsched_schedule* schedule, char* text, size_t bytes, size_t* needed) {
  if (text == nullptr && bytes > 0) return LSCHED_ERR_ARGUMENT;
  if (schedule == nullptr || !schedule->is_partial()) return refuse(schedule);
  return guarded(nullptr, [&] {
    copy_out(json_of(*schedule, stats_of(*schedule)), text, bytes, needed);
    return LSCHED_OK;
  });
}

}  // extern "C"
