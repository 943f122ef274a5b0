// `lsched doctor`: checks frequent causes of problems, from the command in PATH to the limits of the process, and
// prints a line for each check.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/pages.h"
#include "bindings/cli/common/printed_to.h"
#include "bindings/cli/doctor/finding.h"
#include "bindings/input_file.h"
#include "bindings/wrapped_text.h"

namespace lsched::cli::doctor {
namespace {

using report_json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> k_conditions{"ok", "warning", "error"};

struct doctor_options {
  int ranks = 4;
  std::string json, also;
};

std::vector<finding> examine_all(int ranks) {
  return {examine_command(),
          examine_library(),
          examine_mpi(),
          examine_launcher(),
          examine_shared_memory(),
          examine_peer_reads(),
          examine_network(),
          examine_address_limit(ranks),
          examine_file_limit(ranks),
          examine_descriptor_limit(ranks),
          examine_cores(),
          examine_gpu()};
}

/// Reads the findings of another program: `[{"subject": …, "state": "ok", "text": …, "page": …}, …]`.
std::vector<finding> read_findings(const std::string& path) {
  std::vector<finding> made;
  try {
    for (const report_json& each : report_json::parse(require(content_of(path)))) {
      const auto state = std::ranges::find(k_conditions, each.at("state").get<std::string>());
      if (state == k_conditions.end())
        throw command_failure(LSCHED_ERR_ARGUMENT, path + ": the state of each finding must be ok, warning or error");
      made.push_back(
          {each.at("subject"), static_cast<condition>(state - k_conditions.begin()), each.at("text"), each.at("page")});
    }
  } catch (const report_json::exception& why) {
    throw command_failure(LSCHED_ERR_ARGUMENT, path + ": " + why.what());
  }
  return made;
}

std::string_view word_for(condition state) { return k_conditions[static_cast<std::size_t>(state)]; }

void print_findings(const std::vector<finding>& all) {
  for (const finding& each : all)
    std::printf("%-8s %s\n", std::string(word_for(each.state)).c_str(),
                wrapped(each.subject + ": " + each.text + " (" + each.page + ")", 9).c_str());
  std::printf("%s\n", wrapped(place_of_pages(all.front().page)).c_str());
}

report_json json_of(const std::vector<finding>& all, condition worst) {
  report_json checks = report_json::array();
  for (const finding& each : all)
    checks.push_back(
        {{"subject", each.subject}, {"state", word_for(each.state)}, {"text", each.text}, {"page", each.page}});
  return {{"version", lsched_version()}, {"state", word_for(worst)}, {"checks", checks}};
}

int run_doctor(const doctor_options& options) {
  print_to(options.json);
  std::vector<finding> all = examine_all(options.ranks);
  if (!options.also.empty())
    for (finding& each : read_findings(options.also)) all.push_back(std::move(each));
  const condition worst = std::ranges::max_element(all, {}, &finding::state)->state;
  if (options.json.empty())
    print_findings(all);
  else
    std::printf("%s\n", json_text(json_of(all, worst), 2).c_str());
  return worst == condition::error ? 1 : 0;
}

}  // namespace
}  // namespace lsched::cli::doctor

namespace lsched::cli {

void add_doctor_command(CLI::App& app, command_context& context) {
  CLI::App* command =
      app.add_subcommand("doctor", "Check the installation, the launcher and the limits of this process");
  const auto options = std::make_shared<doctor::doctor_options>();
  const option_group group{*command};
  group.add("-n,--ranks", options->ranks, "Local ranks to compare limits with", whole_number(1, k_most_ranks));
  group.add_json(options->json, "one object");
  group.add_file("--also", options->also, "Add the findings of a JSON file, as `python -m libsched doctor` does");
  command->footer(
      "Exit status: 1 if a line is an error, else 0.\n"
      "Example:  lsched doctor --ranks 8");
  command->callback([&context, options] { context.action = [options] { return doctor::run_doctor(*options); }; });
}

}  // namespace lsched::cli
