// `lsched trace`: the traces of single ranks put together, so that messages between them become arrows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
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

/// A text as the parser takes it in; says how far it has come.
class reading {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reading(const char* at, const char** last) : at_(at), last_(last) {}
  reference operator*() const { return *(*last_ = at_); }
  reading& operator++() { return ++at_, *this; }
  reading operator++(int) { return {at_++, last_}; }
  friend bool operator==(const reading& x, const reading& y) { return x.at_ == y.at_; }

 private:
  const char* at_;
  const char** last_;  ///< what was read last
};

/// Why it is no event of the Trace Event Format; empty if it is one.
std::string flaw_of(const json& event) {
  if (!event.is_object()) return "not an object";
  const auto has = [&](const char* key, bool (json::*is)() const noexcept) {
    const auto found = event.find(key);
    return found != event.end() && ((*found).*is)();
  };
  const auto lacks = [](const char* key, const char* what) {
    return "no \"" + std::string(key) + "\", or no " + std::string(what);
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
  explicit trace_parser(const std::string& path) : path_(path), text_(require(content_of(path))), last_(text_.data()) {}

  json parse() {
    const char* const end = text_.data() + text_.size();
    const json content = json::parse(
        reading(text_.data(), &last_), reading(end, &last_),
        [&](int depth, json::parse_event_t what, json& value) { return see(depth, what, value); }, false);
    if (!flaw_.empty()) refuse(line_of_flaw_, flaw_);
    if (content.is_discarded()) refuse(line(), "no JSON");
    expect_frame(content);
    return content;
  }

 private:
  std::ptrdiff_t line() const { return 1 + std::count<const char*>(text_.data(), last_, '\n'); }

  [[noreturn]] void refuse(std::ptrdiff_t line, const std::string& why) const {
    throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": line " + std::to_string(line) + ": " + why);
  }

  void note(const std::string& flaw) {
    if (flaw.empty() || !flaw_.empty()) return;
    flaw_ = flaw;
    line_of_flaw_ = line();
  }

  /// Whether the parser is to keep it.
  bool see(int depth, json::parse_event_t what, const json& value) {
    using seen = json::parse_event_t;
    if (depth > k_deepest) note("nested too deep");
    if (depth == k_depth_of_events - 1 && what == seen::key) is_event_ = value == "traceEvents";
    const bool is_whole = what == seen::object_end || what == seen::array_end || what == seen::value;
    if (is_event_ && depth == k_depth_of_events && is_whole)
      if (const std::string flaw = flaw_of(value); !flaw.empty()) note("no event: " + flaw);
    return flaw_.empty();
  }

  /// That it has events, and numbers where `join` wants numbers.
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
  const std::string text_;
  const char* last_;
  bool is_event_ = false;  ///< what stands at their depth
  std::string flaw_;
  std::ptrdiff_t line_of_flaw_ = 0;
};

json read_trace(const std::string& path) { return trace_parser(path).parse(); }

int join(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) read_trace(path);  // twice, so that no half document is written
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  const char* separator = "\n";
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", stdout);
  for (const std::string& path : paths) {
    const json part = read_trace(path);
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
