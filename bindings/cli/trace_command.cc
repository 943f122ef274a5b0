// `lsched trace`: the traces of single ranks put together, so that messages between them become arrows.
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/commands.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

json read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": cannot be read");
  json content = json::parse(file, nullptr, false);
  if (content.is_object() && content["traceEvents"].is_array()) return content;
  throw command_failure(LSCHED_ERR_ARGUMENT, path + ": is not a trace file");
}

int join(const std::vector<std::string>& paths) {
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
