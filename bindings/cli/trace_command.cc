// `lsched trace`: the traces of single ranks put together, so that messages between them become arrows.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/commands.h"
#include "bindings/cli/errors.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr int k_deepest = 8;  // ours nest to 4

/// Nothing unless the file is a trace, with numbers where `join` wants numbers.
std::optional<json> parse_trace(std::istream& file) {
  bool is_too_deep = false;
  const json content = json::parse(
      file, [&](int depth, json::parse_event_t, json&) { return depth <= k_deepest || !(is_too_deep = true); }, false);
  if (is_too_deep || !content.is_object() || !content.contains("traceEvents") || !content["traceEvents"].is_array())
    return std::nullopt;
  const json other = content.value("otherData", json::object());
  if (!other.is_object()) return std::nullopt;
  for (const char* key : {"lost", "cut"})
    if (other.contains(key) && !other[key].is_number_unsigned()) return std::nullopt;
  return content;
}

json read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": cannot be read");
  if (auto content = parse_trace(file)) return *std::move(content);
  throw command_failure(LSCHED_ERR_ARGUMENT, path + ": is not a trace file");
}

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
