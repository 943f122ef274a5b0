#include "libsched/schedule/schedule_file.h"

#include <algorithm>
#include <utility>

#include "libsched/schedule/scanner.h"
#include "ops/counted.h"

namespace lsched {
namespace {

result<std::vector<schedule_part>> read_parts(std::string_view text) {
  std::vector<schedule_part> parts;
  do {
    auto part = read_schedule(text, parts.empty() ? 0 : parts.back().next.at);
    if (!part) return part.error();
    parts.push_back(std::move(*part));
  } while (parts.back().next.at < text.size());
  return parts;
}

result<std::vector<schedule_ptr>> world_of(std::string_view text, std::vector<schedule_part> parts) {
  const auto rank_of = [](const schedule_part& part) { return part.program->place().self; };
  const schedule& first = *parts.front().program;
  for (const schedule_part& part : parts) {
    if (part.program->place().size != first.place().size)
      return located(text, part.begin,
                     "this schedule is for a world of " + counted(part.program->place().size, "rank") +
                         ", but the first schedule is for a world of " + std::to_string(first.place().size));
    if (part.program->name() != first.name())
      return located(
          text, part.begin,
          "this schedule and the first schedule have different names: a file contains the ranks of a single world");
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const schedule_part& x, const schedule_part& y) { return rank_of(x) < rank_of(y); });
  std::vector<schedule_ptr> programs;
  for (const schedule_part& part : parts) {
    const auto wanted = static_cast<rank>(programs.size());
    if (rank_of(part) < wanted)
      return located(text, part.begin, "rank " + std::to_string(rank_of(part)) + " occurs twice");
    if (rank_of(part) > wanted) break;
    programs.push_back(part.program);
  }
  if (programs.size() < static_cast<std::size_t>(first.place().size))
    return located(
        text, text.size(),
        "rank " + std::to_string(programs.size()) + " of " + std::to_string(first.place().size) + " is missing");
  return programs;
}

}  // namespace

result<schedule_ptr> parse_schedule(std::string_view text) {
  const auto part = read_schedule(text, 0);
  if (!part) return part.error();
  if (part->next.what == token::end) return part->program;
  return located(text, part->next.at, "expected the end of the text after one schedule but found " + shown(part->next));
}

result<std::vector<schedule_ptr>> parse_world(std::string_view text) {
  auto parts = read_parts(text);
  if (!parts) return parts.error();
  return world_of(text, std::move(*parts));
}

result<schedule_ptr> parse_part(std::string_view text, world place) {
  auto parts = read_parts(text);
  if (!parts) return parts.error();
  schedule_part found = parts->front();
  if (parts->size() > 1) {
    const auto programs = world_of(text, std::move(*parts));
    if (!programs) return programs.error();
    if (place.size == found.program->place().size) found.program = (*programs)[static_cast<std::size_t>(place.self)];
  }
  if (found.program->place() == place) return found.program;
  const auto words = [](world w) { return "rank " + std::to_string(w.self) + " of " + std::to_string(w.size); };
  return located(text, found.begin,
                 failure{status::mismatch,
                         "the schedule is for " + words(found.program->place()) + ", but this is " + words(place)});
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
