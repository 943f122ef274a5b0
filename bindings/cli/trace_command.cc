// `lsched trace`: joins the traces of single ranks into one trace with an arrow for each message, or draws a picture of
// the traces.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/date_of.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/output_file.h"
#include "bindings/cli/picture/builders.h"
#include "bindings/input_file.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/trace/trace.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr int k_deepest = 8;  // maximum depth of JSON nesting; traces of libsched have depth 4
constexpr int k_depth_of_events = 2;
constexpr std::size_t k_most_drawn = 2000;  ///< maximum number of events of a picture without --round

/// The maximum time in microseconds, 142 years. The sum of two such times in nanoseconds fits a signed 64-bit number.
constexpr double k_largest_us = 0x1p52;

bool is_time(const json& us) { return us.is_number() && std::abs(us.get<double>()) <= k_largest_us; }

/// Returns the reason why a value is not an event of the Trace Event Format, or an empty text if the value is an event.
std::string flaw_of(const json& event) {
  if (!event.is_object()) return "the value is not an object";
  const auto has = [&](const char* key, bool (json::*is)() const noexcept) {
    const auto found = event.find(key);
    return found != event.end() && ((*found).*is)();
  };
  const auto lacks = [](const char* key, const char* kind) {
    return "\"" + std::string(key) + "\" is missing or not a " + std::string(kind);
  };
  for (const char* key : {"ph", "name"})
    if (!has(key, &json::is_string)) return lacks(key, "word");
  for (const char* key : {"pid", "tid"})
    if (!has(key, &json::is_number_integer)) return lacks(key, "whole number");
  if (event["ph"] != "M" && !has("ts", &json::is_number)) return lacks("ts", "number");
  if (event["ph"] == "X" && !has("dur", &json::is_number)) return lacks("dur", "number");
  for (const char* key : {"ts", "dur"})
    if (has(key, &json::is_number) && !is_time(event[key]))
      return "\"" + std::string(key) + "\" is not between -2^52 and 2^52 microseconds";
  return "";
}

/// Parses a trace file and validates every event while parsing.
class trace_parser {
 public:
  explicit trace_parser(const std::string& path) : path_(path), stream_(require(content_of(path))) {}

  json parse() {
    const json content = json::parse(
        stream_, [&](int depth, json::parse_event_t event, json& value) { return see(depth, event, value); }, false);
    if (!flaw_.empty()) refuse(place_of_flaw_, flaw_);
    if (content.is_discarded()) refuse(position(), "the file is not valid JSON");
    expect_frame(content);
    return content;
  }

 private:
  /// A position in the file. Lines and columns are numbered from 1.
  struct place {
    std::size_t line = 1, column = 1;
  };

  /// Returns the position of the character that was read last.
  place position() {
    const std::streamoff read = stream_.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in);
    const auto last = static_cast<std::size_t>(std::max<std::streamoff>(read - 1, 0));
    const std::string_view before = stream_.view().substr(0, last);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return {1 + static_cast<std::size_t>(std::ranges::count(before, '\n')), 1 + before.size() - line_start};
  }

  [[noreturn]] void refuse(const place& where, const std::string& why) const {
    throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": line " + std::to_string(where.line) + ", column " +
                                                   std::to_string(where.column) + ": " + why);
  }

  void note(const std::string& flaw) {
    if (flaw.empty() || !flaw_.empty()) return;
    flaw_ = flaw;
    place_of_flaw_ = position();
  }

  /// Validates a value. This function is the callback of the parser. Returns true if the parser must keep the value.
  bool see(int depth, json::parse_event_t event, const json& value) {
    using seen = json::parse_event_t;
    if (depth > k_deepest) note("the JSON values are nested too deep for a trace file");
    if (depth == k_depth_of_events - 1 && event == seen::key) is_event_ = value == "traceEvents";
    const bool is_whole = event == seen::object_end || event == seen::array_end || event == seen::value;
    if (is_event_ && depth == k_depth_of_events && is_whole)
      if (const std::string flaw = flaw_of(value); !flaw.empty()) note("this is not an event of a trace: " + flaw);
    return flaw_.empty();
  }

  /// Throws if the document has no events, or if "lost" or "cut" is not a number.
  void expect_frame(const json& content) const {
    const bool has_events = content.is_object() && content.contains("traceEvents") && content["traceEvents"].is_array();
    const json other = has_events ? content.value("otherData", json::object()) : json();
    const auto is_missing_or_number = [&](const char* key) {
      return !other.contains(key) || other[key].is_number_unsigned();
    };
    if (!other.is_object() || !is_missing_or_number("lost") || !is_missing_or_number("cut"))
      throw command_failure(
          LSCHED_ERR_ARGUMENT,
          path_ + ": this is not a trace file: \"traceEvents\" or \"otherData\" is missing or malformed");
  }

  const std::string& path_;
  std::istringstream stream_;
  bool is_event_ = false;  ///< true while the parser is in "traceEvents"
  std::string flaw_;
  place place_of_flaw_;
};

int join(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) trace_parser(path).parse();  // first, so that no partial document is written
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  const char* separator = "\n";
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", stdout);
  for (const std::string& path : paths) {
    const json part = trace_parser(path).parse();
    for (const json& event : part["traceEvents"]) {
      std::printf("%s%s", separator, json_text(event).c_str());
      separator = ",\n";
    }
    const json other = part.value("otherData", json::object());
    lost += other.value("lost", std::uint64_t{0});
    cut += other.value("cut", std::uint64_t{0});
  }
  std::printf("\n],\"otherData\":%s}\n", json_text(json{{"lost", lost}, {"cut", cut}}).c_str());
  return 0;
}

// --- a picture ---------------------------------------------------------------------------------------------

struct trace_options {
  std::vector<std::string> paths;
  std::string svg;
  std::string schedule;
  std::optional<round_no> round;
};

/// The content of the trace files of one run.
struct recorded_run {
  std::vector<trace_event> events;
  std::map<std::uint32_t, std::string> names;
  std::map<std::string, std::uint32_t> numbers;  ///< index of each schedule, by name; in order of appearance
  std::uint64_t lost = 0, cut = 0;
  std::size_t strange = 0;  ///< number of slices that other programs have written
  std::string note;
};

/// Converts a time that `flaw_of` accepts and that is not negative.
std::uint64_t nanoseconds(const json& us) { return static_cast<std::uint64_t>(std::llround(us.get<double>() * 1000)); }

/// Converts a slice into an event. Returns nothing if another program, and not to_trace_json(), has written the slice.
std::optional<trace_event> event_from(const json& slice, recorded_run& run) {
  const json with = slice.value("args", json::object());
  const auto is_number = [&](const char* key) { return with.contains(key) && with[key].is_number_unsigned(); };
  const bool has_schedule = with.is_object() && with.contains("schedule") && with["schedule"].is_string();
  if (!has_schedule || !is_number("round") || slice["ts"] < 0 || slice["dur"] < 0) return std::nullopt;
  const auto who = slice["pid"].get<std::int64_t>();
  if (who < 0 || who >= std::int64_t{k_most_ranks}) return std::nullopt;
  const auto number = run.numbers.try_emplace(with["schedule"], run.numbers.size()).first->second;
  run.names[number] = escaped(with["schedule"].get<std::string>());
  trace_event event{.begin_ns = nanoseconds(slice["ts"]),
                    .end_ns = nanoseconds(slice["ts"]) + nanoseconds(slice["dur"]),
                    .round = with["round"].get<round_no>(),
                    .schedule = number,
                    .who = static_cast<rank>(who)};
  if (!with.contains("op")) return event;
  const std::string name = slice["name"];
  const std::string kind = slice.value("cat", "");
  const auto row = std::ranges::find(k_kinds, kind, &kind_row::name);
  if (!is_number("op") || row == k_kinds.end()) return std::nullopt;
  event.op = with["op"].get<op_id>();
  event.kind = static_cast<op_kind>(row - k_kinds.begin());
  if (!is_communication(event.kind)) return event;
  event.peer = event.who;
  if (name == "call") return event;
  const auto peer = whole_number_in(name.substr(name.rfind(' ') + 1));
  if (!peer || *peer >= k_most_ranks || !is_number("tag")) return std::nullopt;
  event.peer = static_cast<rank>(*peer);
  event.tag = with["tag"].get<std::uint32_t>();
  return event;
}

recorded_run run_from(const trace_options& options) {
  recorded_run run;
  for (const std::string& path : options.paths) {
    const json part = trace_parser(path).parse();
    for (const json& each : part["traceEvents"]) {
      if (each["ph"] != "X") continue;
      const auto event = event_from(each, run);
      if (!event)
        ++run.strange;
      else
        run.events.push_back(*event);
    }
    const json other = part.value("otherData", json::object());
    run.lost += other.value("lost", std::uint64_t{0});
    run.cut += other.value("cut", std::uint64_t{0});
    if (const auto note = other.find("note"); note != other.end() && note->is_string())
      run.note = escaped(note->get<std::string>());
  }
  return run;
}

/// Returns names such as "allreduce/ring #5, allreduce/flat #6 and 3 more".
std::string names_of(const recorded_run& run) {
  std::set<std::uint32_t> used;
  for (const trace_event& event : run.events) used.insert(event.schedule);
  std::string text;
  std::size_t said = 0;
  constexpr std::size_t k_most = 4;
  for (const std::uint32_t number : used)
    if (said++ < k_most) text += (text.empty() ? "" : ", ") + run.names.at(number);
  return text + (said > k_most ? " and " + std::to_string(said - k_most) + " more" : "");
}

/// Removes events that the options exclude from the picture. Returns a text that describes the remaining events.
std::string choose(recorded_run& run, const trace_options& options) {
  const std::string known = names_of(run);
  const auto keep = [&](const auto& is_kept) {
    std::erase_if(run.events, [&](const trace_event& event) { return !is_kept(event); });
  };
  keep([&](const trace_event& event) {
    const std::string& name = run.names.at(event.schedule);
    const bool is_named = name == options.schedule || name.starts_with(options.schedule + " #");
    return (options.schedule.empty() || is_named) && (!options.round || event.round == *options.round);
  });
  if (run.events.empty())
    throw command_failure(
        LSCHED_ERR_ARGUMENT,
        options.paths.front() +
            (known.empty()
                 ? ": the trace contains no op of a schedule"
                 : ": the trace contains no op with this --schedule and --round. Its schedules are " + known));
  if (options.round) return "Round " + std::to_string(*options.round);
  if (run.events.size() <= k_most_drawn) return "All rounds";
  const trace_event last = *std::ranges::max_element(run.events, {}, &trace_event::end_ns);
  keep([&](const trace_event& event) { return event.schedule == last.schedule && event.round == last.round; });
  return "Round " + std::to_string(last.round) + ", the last of many (--schedule and --round choose others)";
}

int draw(const trace_options& options) {
  output_file file(options.svg);
  recorded_run run = run_from(options);
  const std::string chosen = choose(run, options);
  rank ranks = 0;
  for (const trace_event& event : run.events) ranks = std::max(ranks, event.who + 1);
  picture_words words{.title = names_of(run) + ", " + counted(ranks, "rank")};
  const bool is_simulated = run.note.starts_with("simulated");
  words.title += is_simulated ? ", " + run.note : ", measured";
  words.caption.push_back(chosen + (is_simulated ? "." : ". Files of " + date_of(options.paths) + "."));
  if (run.lost + run.cut > 0)
    words.caption.push_back(counted(run.lost, "event") + " not recorded, " + std::to_string(run.cut) + " not written.");
  if (run.strange > 0) words.caption.push_back(counted(run.strange, "slice") + " of other programs not drawn.");
  const schedule_picture made = picture_of_trace(run.events, run.names, words);
  for (const std::string& line : made.caption)
    if (line.starts_with("Only")) std::fprintf(stderr, "lsched: %s: %s\n", options.svg.c_str(), line.c_str());
  file.write(to_svg(made));
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("trace", "Merge the traces of ranks, or draw them");
  const auto options = std::make_shared<trace_options>();
  const option_group group{*command};
  group.add("FILE", options->paths, "Files of one run, written under LSCHED_TRACE or by lsched_trace_write")
      ->required();
  auto* svg = group.add_file("--svg", options->svg, "Draw the run as SVG instead");
  group
      .add("--schedule", options->schedule,
           "Draw only rounds of this schedule, such as \"allreduce/ring\" or \"allreduce/ring #5\"")
      ->needs(svg);
  group.add("--round", options->round, "Draw only this round (default: all rounds, or the last of many)")
      ->check(whole_number(0))
      ->needs(svg);
  command->footer(
      "Example:  LSCHED_TRACE=/tmp/hello lsched run -n 4 ./hello\n"
      "          lsched trace /tmp/hello.*.json > hello.json      # open it at https://ui.perfetto.dev\n"
      "          lsched trace /tmp/hello.*.json --round 3 --svg hello.svg");
  command->callback([&context, options] {
    context.action = [options] { return options->svg.empty() ? join(options->paths) : draw(*options); };
  });
}

}  // namespace lsched::cli
