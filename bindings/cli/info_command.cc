// `lsched info`: the build, the machine, and the environment variables of the library.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "bindings/c/private_calls.h"
#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/printed_to.h"
#include "bindings/environment.h"
#include "bindings/environment_names.h"
#include "bindings/net_environment.h"
#include "bindings/selection_environment.h"
#include "bindings/wrapped_text.h"
#include "build_options.h"
#include "libsched/transport/shm/region_size.h"
#include "offload/cores.h"
#include "offload/idle_policy.h"
#include "offload/lane_choice.h"
#include "ops/kernel.h"
#include "ops/simd_targets.h"
#if LSCHED_HAVE_MPI
#include "bindings/mpi/mpi_library.h"
#endif

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

// --- environment -------------------------------------------------------------------------------------------

bool takes(const environment_variable& known, std::string_view value) {
  if (known.name == "LSCHED_LANE") return parse_lane(value).has_value();
  if (known.values.empty()) return true;
  const std::string words = "|" + std::string(known.values) + "|";
  return value.find('|') == value.npos && words.find("|" + std::string(value) + "|") != words.npos;
}

std::vector<std::string> warnings_about_environment() {
  std::vector<std::string> warnings = unknown_variables();
  for (const environment_variable& known : k_environment_variables) {
    const char* const value = text_in_environment(std::string(known.name).c_str());
    if (value != nullptr && !takes(known, value))
      warnings.push_back(std::string(known.name) + "=" + value + " is not valid: expected " +
                         std::string(known.values));
  }
  if (const auto by = read_selection(); !by) warnings.push_back(by.error().text);
  if (const auto ranks = number_in_environment("LSCHED_RANKS_PER_NODE", 1); !ranks)
    warnings.push_back(ranks.error().text);
  if (const auto network = network_in_environment(); !network) warnings.push_back(network.error().text);
  if (const auto gpu = cuda_device_in_environment(); !gpu) warnings.push_back(gpu.error().text);
  if (const auto region = region_in_environment(k_least_region_bytes); !region) warnings.push_back(region.error().text);
  if (const auto launched = find_launch(); !launched) warnings.push_back(launched.error().text);
  const char* trace = text_in_environment("LSCHED_TRACE");
  if (const auto why = validate_trace(trace == nullptr ? "" : trace)) warnings.push_back(why->text);
  std::sort(warnings.begin(), warnings.end());
  return warnings;
}

json describe_environment() {
  json list = json::array();
  for (const environment_variable& known : k_environment_variables) {
    const char* const set = text_in_environment(std::string(known.name).c_str());
    const std::string_view value = set != nullptr ? set : known.unset;
    list.push_back({{"name", known.name},
                    {"value", value.empty() ? json(nullptr) : json(value)},
                    {"source", set != nullptr ? "environment" : "default"},
                    {"purpose", known.purpose}});
  }
  return list;
}

// --- build and machine -------------------------------------------------------------------------------------

json describe_build() {
  json build{{"name", lsched_private_calls.build}};
#if LSCHED_HAVE_MPI
  build["mpi"] = mpi_library();
#else
  build["mpi"] = nullptr;
#endif
  const std::string topology = topology_library();
  build["hwloc"] = topology == "none" ? json(nullptr) : json(topology);
#if LSCHED_HAVE_TBB
  build["onetbb"] = "oneTBB " LSCHED_TBB_VERSION;
#else
  build["onetbb"] = nullptr;
#endif
  build["compiler"] =
#if defined(__clang__)
      "Clang " __clang_version__;
#else
      "GCC " __VERSION__;
#endif
  build["simd"] = simd_target();
  json targets = json::array();
  for (std::size_t place = 0; !simd_target_at(place).empty(); ++place) targets.push_back(simd_target_at(place));
  build["simd_targets"] = std::move(targets);
  return build;
}

json describe_duration(std::chrono::nanoseconds time) {
  return time == idle_policy::forever ? json("forever") : json(time.count());
}

/// Returns the idle policy that a world of `ranks` local ranks would choose on this machine.
json describe_idle(unsigned ranks) {
  const char* wish = text_in_environment("LSCHED_IDLE");
  const auto mode = parse_idle_mode(wish != nullptr ? wish : "auto");
  const idle_policy policy = make_idle_policy(mode.value_or(idle_mode::automatic), ranks, usable_cores());
  const auto near = core_near_caller(ranks);
  json choice{{"ranks", ranks},
              {"spin_ns", describe_duration(policy.spin)},
              {"yield_ns", describe_duration(policy.yield)},
              {"yields_at_least", policy.turns},
              {"unless_they_take_ns", describe_duration(policy.patience)}};
  choice["then"] =
      policy.spin == idle_policy::forever || policy.yield == idle_policy::forever ? "never sleeps" : "sleeps";
  choice["progress_core"] = near ? json(*near) : json(nullptr);
  return choice;
}

json describe_lane(unsigned ranks) {
  const char* wish = text_in_environment("LSCHED_LANE");
  const lane_choice choice = parse_lane(wish != nullptr ? wish : "auto").value_or(k_lane_auto);
  if (validate_lane(choice) != status::ok)
    return {{"ranks", ranks},
            {"kind", nullptr},
            {"workers", 0},
            {"why", "oneTBB is not in this build, so opening a world fails: unset LSCHED_LANE"}};
  const unsigned workers = lane_workers(choice, ranks, usable_cores());
  if (workers != 0) return {{"ranks", ranks}, {"kind", "tbb"}, {"workers", workers}, {"why", nullptr}};
  return {{"ranks", ranks}, {"kind", "inline"}, {"workers", 0}, {"why", why_inline(choice)}};
}

/// Returns the addresses to which ranks of other hosts would connect.
json describe_network() {
  const auto chosen = network_in_environment();
  json all{{"addresses", json::array()}, {"interfaces_from", nullptr}};
  if (!chosen) return all;
  for (const std::string& each : addresses_by_interface(chosen->interfaces)) all["addresses"].push_back(each);
  if (!chosen->interfaces_from.empty()) all["interfaces_from"] = chosen->interfaces_from;
  return all;
}

json describe(unsigned ranks) {
  json all;
  all["version"] = lsched_version();
  all["abi"] = LSCHED_ABI;
  all["build"] = describe_build();
  all["cores"] = {
      {"online", sysconf(_SC_NPROCESSORS_ONLN)}, {"affinity", allowed_cores().size()}, {"usable", usable_cores()}};
  all["idle"] = describe_idle(ranks);
  all["lane"] = describe_lane(ranks);
  all["network"] = describe_network();
  all["environment"] = describe_environment();
  all["warnings"] = warnings_about_environment();
  return all;
}

void print_info(json all) {
  const json environment = all["environment"];
  print_lines({{"build", all["build"]["name"]}});
  all["build"].erase("name");
  print_lines(all["build"]);
  for (const char* shown : {"build", "environment", "warnings"}) all.erase(shown);
  print_lines(all);
  std::printf("environment\n");
  for (const json& each : environment)
    std::printf("  %-22s %-8s (%s)\n      %s\n", text_of(each["name"]).c_str(), text_of(each["value"]).c_str(),
                text_of(each["source"]).c_str(), wrapped(text_of(each["purpose"]), 6).c_str());
}

struct info_options {
  unsigned ranks = 1;
  std::string json;
};

int info(const info_options& options) {
  print_to(options.json);
  const json all = describe(options.ranks);
  if (!options.json.empty())
    std::printf("%s\n", json_text(all, 2).c_str());
  else
    print_info(all);
  for (const json& line : all["warnings"]) std::fprintf(stderr, "lsched: warning: %s\n", text_of(line).c_str());
  return 0;
}

}  // namespace

void add_info_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("info", "Show the build, the machine and the environment");
  const auto options = std::make_shared<info_options>();
  const option_group group{*command};
  group.add("-n,--ranks", options->ranks, "Number of local ranks for which the idle policy is shown",
            whole_number(1, k_most_ranks));
  group.add_json(options->json, "one object");
  command->footer("Example:  lsched info --ranks 4");
  command->callback([&context, options] { context.action = [options] { return info(*options); }; });
}

}  // namespace lsched::cli
