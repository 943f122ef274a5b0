#include "bindings/cli/common/recording_words.h"

#include <time.h>

#include <array>
#include <cstdio>

#include "libsched/schedule/schedule_file.h"

namespace lsched::cli {
namespace {

constexpr std::size_t k_most_schedules = 4;

std::string words_for_wait(const recorded_rank& one, std::int64_t wall_offset_ns) {
  const wait_note& wait = one.wait;
  const recorded_schedule* const in = one.find(wait.instance % shm_record::k_ids);
  std::string text = "in " + (in == nullptr ? "schedule #" + std::to_string(wait.instance) : name_of(*in)) +
                     ", round " + std::to_string(wait.round);
  if (wait.op != k_no_op)
    text += ", op " + std::to_string(wait.op) + " (" + std::string(name_of(wait.kind)) + ", rank " +
            std::to_string(wait.peer) + ")";
  return text + " since " + time_of_day(wait.since_ns, wall_offset_ns);
}

}  // namespace

std::string time_of_day(std::uint64_t monotonic_ns, std::int64_t wall_offset_ns) {
  const std::int64_t wall_us = (static_cast<std::int64_t>(monotonic_ns) + wall_offset_ns) / 1000;
  const time_t seconds = wall_us / 1'000'000;
  tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%06d", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(wall_us % 1'000'000));
  return text.data();
}

std::string name_of(const recorded_schedule& one) { return escaped(one.label); }

std::string words_for_place(const recorded_rank& one, std::int64_t wall_offset_ns) {
  if (one.wait.round != 0) return words_for_wait(one, wall_offset_ns);
  std::string text;
  for (std::size_t i = 0; i < one.schedules.size() && i < k_most_schedules; ++i)
    text += (i == 0 ? "last called for round " : ", round ") + std::to_string(one.schedules[i].entered) + " of " +
            name_of(one.schedules[i]);
  if (one.schedules.size() > k_most_schedules)
    text += ", and of " + std::to_string(one.schedules.size() - k_most_schedules) + " more schedules";
  return text;
}

}  // namespace lsched::cli
