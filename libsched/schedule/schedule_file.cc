#include "libsched/schedule/schedule_file.h"

#include <algorithm>
#include <utility>

#include "libsched/schedule/parser.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// A schedule and where in the text it begins.
struct part {
  schedule_ptr program;
  std::size_t at;
};

result<std::vector<part>> parse_parts(std::string_view text) {
  std::vector<part> parts;
  std::size_t at = 0;
  do {
    parser one(text, at);
    if (!one.read()) return one.why();
    parts.push_back({one.program(), one.begin()});
    at = one.next().at;
  } while (at < text.size());
  return parts;
}

result<std::vector<schedule_ptr>> world_of(std::string_view text, std::vector<part> parts) {
  const auto rank_of = [](const part& it) { return it.program->place().self; };
  const schedule& first = *parts.front().program;
  for (const part& it : parts) {
    if (it.program->place().size != first.place().size)
      return located(text, it.at,
                     "this schedule is of a world of " + counted(it.program->place().size, "rank") +
                         ", and the first one of " + std::to_string(first.place().size));
    if (it.program->name() != first.name())
      return located(text, it.at, "this schedule has another name than the first one");
  }
  std::stable_sort(parts.begin(), parts.end(), [&](const part& x, const part& y) { return rank_of(x) < rank_of(y); });
  std::vector<schedule_ptr> programs;
  for (const part& it : parts) {
    const auto wanted = static_cast<rank>(programs.size());
    if (rank_of(it) < wanted) return located(text, it.at, "rank " + std::to_string(rank_of(it)) + " is here twice");
    if (rank_of(it) > wanted) break;
    programs.push_back(it.program);
  }
  if (programs.size() < static_cast<std::size_t>(first.place().size))
    return located(
        text, text.size(),
        "rank " + std::to_string(programs.size()) + " of " + std::to_string(first.place().size) + " is missing");
  return programs;
}

}  // namespace

result<schedule_ptr> parse_schedule(std::string_view text) {
  parser one(text, 0);
  if (!one.read() || !one.end_text()) return one.why();
  return one.program();
}

result<std::vector<schedule_ptr>> parse_world(std::string_view text) {
  auto parts = parse_parts(text);
  if (!parts) return parts.error();
  return world_of(text, std::move(*parts));
}

result<schedule_ptr> parse_part(std::string_view text, world place) {
  auto parts = parse_parts(text);
  if (!parts) return parts.error();
  part mine = parts->front();
  if (parts->size() > 1) {
    const auto programs = world_of(text, std::move(*parts));
    if (!programs) return programs.error();
    if (place.size == mine.program->place().size) mine.program = (*programs)[static_cast<std::size_t>(place.self)];
  }
  if (mine.program->place() == place) return mine.program;
  const auto words = [](world it) { return "rank " + std::to_string(it.self) + " of " + std::to_string(it.size); };
  return located(text, mine.at,
                 failure{status::mismatch,
                         "the schedule is for " + words(mine.program->place()) + ", and this is " + words(place)});
}

std::string escaped(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (code >= 0x20 && code < 0x7f && letter != '"' && letter != '\\')
      text += letter;
    else
      text.append("\\x").append(1, digits[code >> 4]).append(1, digits[code & 15]);
  }
  return text;
}

}  // namespace lsched
