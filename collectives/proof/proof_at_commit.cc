#include "collectives/proof/proof_at_commit.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "collectives/promise.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"

namespace lsched {
namespace {

constexpr std::string_view k_apart = "apart";

/// Returns the first line of a part, and removes the line.
std::string_view take_line(std::string_view& part) {
  const std::size_t end = std::min(part.find('\n'), part.size());
  const std::string_view line = part.substr(0, end);
  part.remove_prefix(std::min(end + 1, part.size()));
  return line;
}

aliasing aliasing_of(std::span<const std::string_view> lines) {
  std::vector<std::int64_t> offsets;
  std::vector<bool> is_apart;
  for (const std::string_view line : lines) {
    std::int64_t offset = 0;
    (void)std::from_chars(line.data(), line.data() + line.size(), offset);
    offsets.push_back(offset);
    is_apart.push_back(line == k_apart);
  }
  return {std::move(offsets), std::move(is_apart)};
}

status status_of(property what) {
  switch (what) {
    case property::matching: return status::unmatched;
    case property::progress:
    case property::holding: return status::cycle;
    default: return status::argument;
  }
}

failure failure_of(const finding& found, std::string_view name) {
  return {
      status_of(found.what),
      "the verification of \"" + escaped(name) + "\" failed: " + std::string(name_of(found.what)) + ": " + found.text,
      found.where, found.op};
}

}  // namespace

std::string describe_part(const schedule& program, std::optional<std::int64_t> offset) {
  return (offset ? std::to_string(*offset) : std::string(k_apart)) + "\n" + to_text(program);
}

std::optional<failure> find_fault(std::span<const std::string> parts) {
  std::vector<std::string_view> lines;
  std::string text;
  for (std::string_view part : parts) {
    lines.push_back(take_line(part));
    text += part;
  }
  const auto world = parse_world(text);
  if (!world) return world.error();
  auto promise = promise_for(*world);
  if (!promise) return promise.error();
  promise->what.round_cost.reset();
  const verification answer = verify(*world, promise->what, {.in_place = aliasing_of(lines), .most_findings = 1});
  if (answer.holds()) return std::nullopt;
  return failure_of(answer.findings.front(), world->front()->name());
}

}  // namespace lsched
