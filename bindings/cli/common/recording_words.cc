#include "bindings/cli/common/recording_words.h"

#include <array>
#include <cstdio>
#include <ctime>

#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

constexpr std::size_t k_most_schedules = 4;

std::string words_for_message(const wait_note& wait) {
  const std::string peer = wait.peer == k_no_rank ? "any rank" : "rank " + std::to_string(wait.peer);
  return wait.kind == op_kind::send ? "waits until " + peer + " receives a message"
                                    : "waits for a message from " + peer;
}

std::string words_for_wait(const recorded_rank& one, std::int64_t wall_offset_ns) {
  const wait_note& wait = one.wait;
  if (wait.is_of_message()) return words_for_message(wait) + " since " + local_time(wait.since_ns, wall_offset_ns);
  const recorded_schedule* const in = one.find(wait.instance);
  std::string text = "in " + (in == nullptr ? "schedule #" + std::to_string(wait.instance) : printable(in->label)) +
                     ", round " + std::to_string(wait.round);
  if (wait.op != k_no_op)
    text += ", op " + std::to_string(wait.op) + " (" + std::string(name_of(wait.kind)) + ", rank " +
            std::to_string(wait.peer) + ")";
  return text + " since " + local_time(wait.since_ns, wall_offset_ns);
}

}  // namespace

std::string local_time(std::uint64_t monotonic_ns, std::int64_t wall_offset_ns) {
  constexpr std::int64_t k_end_us = 253'402'300'800'000'000;  // end of the year 9999
  const std::int64_t wall_us =
      static_cast<std::int64_t>(monotonic_ns + static_cast<std::uint64_t>(wall_offset_ns)) / 1000;
  if (wall_us < 0 || wall_us >= k_end_us) return "?";
  const time_t seconds = wall_us / 1'000'000;
  tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  std::snprintf(text.data() + length, text.size() - length, ".%06d", static_cast<int>(wall_us % 1'000'000));
  return text.data();
}

std::string printable(const std::string& label) { return escaped(label); }

std::string words_for_place(const recorded_rank& one, std::int64_t wall_offset_ns) {
  if (one.wait.round != 0) return words_for_wait(one, wall_offset_ns);
  std::string text;
  std::size_t found = 0;
  for (const recorded_schedule& each : one.schedules) {
    if (each.label.empty() || ++found > k_most_schedules) continue;
    text += (found == 1 ? "has entered " : ", ") +
            (each.entered == 0 ? std::string("no round") : "round " + std::to_string(each.entered)) + " of " +
            printable(each.label);
  }
  if (found > k_most_schedules) text += ", and has " + counted(found - k_most_schedules, "more schedule");
  return text;
}

}  // namespace lsched::cli
