// `lsched trace`: the traces of single ranks put together, so that messages between them become arrows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr int k_deepest = 8;  // ours nest to 4
constexpr int k_depth_of_events = 2;

/// Why a value is no event of the Trace Event Format; empty if it is one.
std::string flaw_of(const json& event) {
  if (!event.is_object()) return "not an object";
  const auto has = [&](const char* key, bool (json::*is)() const noexcept) {
    const auto found = event.find(key);
    return found != event.end() && ((*found).*is)();
  };
  const auto lacks = [](const char* key, const char* kind) {
    return "no \"" + std::string(key) + "\", or no " + std::string(kind);
  };
  for (const char* key : {"ph", "name"})
    if (!has(key, &json::is_string)) return lacks(key, "word");
  for (const char* key : {"pid", "tid"})
    if (!has(key, &json::is_number_integer)) return lacks(key, "whole number");
  if (event["ph"] != "M" && !has("ts", &json::is_number)) return lacks("ts", "number");
  if (event["ph"] == "X" && !has("dur", &json::is_number)) return lacks("dur", "number");
  return "";
}

/// Parses a file and looks at every event of it as it comes by.
class trace_parser {
 public:
  explicit trace_parser(const std::string& path) : path_(path), stream_(require(content_of(path))) {}

  json parse() {
    const json content = json::parse(
        stream_, [&](int depth, json::parse_event_t event, json& value) { return see(depth, event, value); }, false);
    if (!flaw_.empty()) refuse(line_of_flaw_, flaw_);
    if (content.is_discarded()) refuse(line(), "no JSON");
    expect_frame(content);
    return content;
  }

 private:
  /// Of the character that was read last.
  std::ptrdiff_t line() {
    const std::streamoff read = stream_.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in);
    const std::string_view text = stream_.view();
    return 1 + std::count(text.begin(), text.begin() + std::max<std::streamoff>(read - 1, 0), '\n');
  }

  [[noreturn]] void refuse(std::ptrdiff_t line, const std::string& why) const {
    throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": line " + std::to_string(line) + ": " + why);
  }

  void note(const std::string& flaw) {
    if (flaw.empty() || !flaw_.empty()) return;
    flaw_ = flaw;
    line_of_flaw_ = line();
  }

  /// Whether the parser is to keep the value.
  bool see(int depth, json::parse_event_t event, const json& value) {
    using seen = json::parse_event_t;
    if (depth > k_deepest) note("nested too deep");
    if (depth == k_depth_of_events - 1 && event == seen::key) is_event_ = value == "traceEvents";
    const bool is_whole = event == seen::object_end || event == seen::array_end || event == seen::value;
    if (is_event_ && depth == k_depth_of_events && is_whole)
      if (const std::string flaw = flaw_of(value); !flaw.empty()) note("no event: " + flaw);
    return flaw_.empty();
  }

  /// Refuses a document without events, or without numbers where `join` wants numbers.
  void expect_frame(const json& content) const {
    const bool has_events = content.is_object() && content.contains("traceEvents") && content["traceEvents"].is_array();
    const json other = has_events ? content.value("otherData", json::object()) : json();
    const auto is_missing_or_number = [&](const char* key) {
      return !other.contains(key) || other[key].is_number_unsigned();
    };
    if (!other.is_object() || !is_missing_or_number("lost") || !is_missing_or_number("cut"))
      throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": is not a trace file");
  }

  const std::string& path_;
  std::istringstream stream_;
  bool is_event_ = false;  ///< values at the depth of events are events
  std::string flaw_;
  std::ptrdiff_t line_of_flaw_ = 0;
};

int join(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) trace_parser(path).parse();  // twice, so that no half document is written
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  const char* separator = "\n";
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", stdout);
  for (const std::string& path : paths) {
    const json part = trace_parser(path).parse();
    for (const json& event : part["traceEvents"]) {
      std::printf("%s%s", separator, event.dump().c_str());
      separator = ",\n";
    }
    const json other = part.value("otherData", json::object());
    lost += other.value("lost", std::uint64_t{0});
    cut += other.value("cut", std::uint64_t{0});
  }
  std::printf("\n],\"otherData\":%s}\n", json{{"lost", lost}, {"cut", cut}}.dump().c_str());
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("trace", "Put the traces of single ranks together, on standard output");
  const auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("FILE", *paths, "Files of one run, written under LSCHED_TRACE or by lsched_trace_write")
      ->required();
  command->footer(
      "Example:  LSCHED_TRACE=/tmp/hello lsched run -n 4 ./hello\n"
      "          lsched trace /tmp/hello.*.json > hello.json      # open it at https://ui.perfetto.dev");
  command->callback([&context, paths] { context.action = [paths] { return join(*paths); }; });
}

}  // namespace lsched::cli
