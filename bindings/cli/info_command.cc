// `lsched info`: what this build is, what this machine offers it, and what the environment tells it.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/environment.h"
#include "bindings/selection_environment.h"
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

constexpr std::string_view k_prefix = "LSCHED_";
/// For the library's own tests, which say what they take.
constexpr std::string_view k_prefix_of_tests = "LSCHED_TEST_";

struct variable {
  std::string_view name;
  std::string_view unset;   ///< what holds where it is not set
  std::string_view values;  ///< the words it takes, separated by "|"; empty: anything
  std::string_view purpose;
};

constexpr std::array k_variables{
    variable{"LSCHED_PROGRESS", "thread", "thread|caller", "who serves the engine while the application computes"},
    variable{"LSCHED_IDLE", "auto", "auto|spin|yield|park", "what a waiting thread does"},
    variable{"LSCHED_LANE", "auto", "auto|inline|tbb|tbb:WORKERS", "where large arithmetic runs"},
    variable{"LSCHED_READ_PEERS", "yes", "yes|no",
             "large messages are read from the sender's process where the system permits it"},
    variable{"LSCHED_ALGORITHM", "", "", "what auto is: collective=algorithm,..."},
    variable{"LSCHED_ALGORITHM_FILES", "", "", "algorithm files, loaded when a world is opened: path:path:..."},
    variable{"LSCHED_TUNING", "", "", "file with the tuning table that auto goes by"},
    variable{"LSCHED_TRACE", "", "", "prefix: every rank writes a trace to PREFIX.RANK.json"},
    variable{"LSCHED_RECORDER", "", "", "file for `lsched postmortem`: where each rank is, also after its end"},
    variable{"LSCHED_REGION", "", "", "address space of a rank's shared region, such as 64M"},
    variable{"LSCHED_WORLD", "", "alone", "a world of one, whoever has started the process"},
    variable{"LSCHED_CUDA_DEVICE", "", "", "number of the GPU whose memory may hold buffers"},
    variable{"LSCHED_CUDA_STREAMS", "auto", "auto|host", "who waits where a GPU's stream is to wait for a round"},
    variable{"LSCHED_RANKS_PER_NODE", "", "", "every that many ranks make a node of their own"},
    variable{"LSCHED_RUN_FD", "", "", "set by `lsched run`: descriptor of the shared segment"},
    variable{"LSCHED_RUN_RANK", "", "", "set by `lsched run`: this process's rank"},
    variable{"LSCHED_RUN_SIZE", "", "", "set by `lsched run`: number of ranks"},
    variable{"LSCHED_RUN_LAUNCHER", "", "", "set by `lsched run`: descriptor through which ranks end with it"},
};

bool takes(const variable& known, std::string_view value) {
  if (known.name == "LSCHED_LANE") return parse_lane(value).has_value();
  if (known.values.empty()) return true;
  const std::string words = "|" + std::string(known.values) + "|";
  return value.find('|') == value.npos && words.find("|" + std::string(value) + "|") != words.npos;
}

/// The known name that a misspelt one most likely means, by the letters at their ends that agree; empty if these are
/// no more than half.
std::string_view nearest(std::string_view name) {
  const auto likeness = [&](const variable& known) {
    const std::string_view other = known.name;
    return (std::ranges::mismatch(name, other).in1 - name.begin()) +
           (std::mismatch(name.rbegin(), name.rend(), other.rbegin(), other.rend()).first - name.rbegin());
  };
  const auto best = std::ranges::max_element(k_variables, {}, likeness);
  const auto prefix = std::ssize(k_prefix);
  return 2 * (likeness(*best) - prefix) > std::ssize(name) - prefix ? best->name : std::string_view();
}

std::vector<std::string> warnings_about_environment() {
  std::vector<std::string> warnings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(k_prefix) || name.starts_with(k_prefix_of_tests)) continue;
    const std::string_view value = text.substr(std::min(name.size() + 1, text.size()));
    const auto known = std::ranges::find(k_variables, name, &variable::name);
    if (known != k_variables.end() && (value.empty() || takes(*known, value))) continue;
    std::string line(name);
    if (known != k_variables.end()) {
      line += "=" + std::string(value) + " is not understood; it takes " + std::string(known->values);
    } else {
      line += " is not a variable of libsched";
      if (const auto near = nearest(name); !near.empty()) line += "; did you mean " + std::string(near) + "?";
    }
    warnings.push_back(std::move(line));
  }
  if (const auto by = read_selection(); !by) warnings.push_back(by.error().text);
  if (const auto ranks = number_in_environment("LSCHED_RANKS_PER_NODE", 1); !ranks)
    warnings.push_back(ranks.error().text);
  if (const auto gpu = number_in_environment("LSCHED_CUDA_DEVICE"); !gpu) warnings.push_back(gpu.error().text);
  if (const auto region = bytes_in_environment("LSCHED_REGION"); !region) warnings.push_back(region.error().text);
  if (const auto launched = find_launch(); !launched) warnings.push_back(launched.error().text);
  const char* trace = text_in_environment("LSCHED_TRACE");
  if (const auto why = validate_trace(trace == nullptr ? "" : trace)) warnings.push_back(why->text);
  std::sort(warnings.begin(), warnings.end());
  return warnings;
}

json describe_environment() {
  json list = json::array();
  for (const variable& known : k_variables) {
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
  json build;
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

/// What a runtime of `ranks` local ranks would choose here.
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
    return {{"ranks", ranks}, {"kind", nullptr}, {"workers", 0}, {"why", "oneTBB is not in this build: opening fails"}};
  const unsigned workers = lane_workers(choice, ranks, usable_cores());
  if (workers != 0) return {{"ranks", ranks}, {"kind", "tbb"}, {"workers", workers}, {"why", nullptr}};
  return {{"ranks", ranks}, {"kind", "inline"}, {"workers", 0}, {"why", why_inline(choice)}};
}

json describe(unsigned ranks) {
  json all;
  all["version"] = lsched_version();
  all["abi"] = lsched_abi();
  all["build"] = describe_build();
  all["cores"] = {
      {"online", sysconf(_SC_NPROCESSORS_ONLN)}, {"affinity", allowed_cores().size()}, {"usable", usable_cores()}};
  all["idle"] = describe_idle(ranks);
  all["lane"] = describe_lane(ranks);
  all["environment"] = describe_environment();
  all["warnings"] = warnings_about_environment();
  return all;
}

void print_info(json all) {
  const json environment = all["environment"];
  print_lines(all["build"]);
  for (const char* shown : {"build", "environment", "warnings"}) all.erase(shown);
  print_lines(all);
  std::printf("environment\n");
  for (const json& each : environment)
    std::printf("  %-22s %-8s (%s)  %s\n", text_of(each["name"]).c_str(), text_of(each["value"]).c_str(),
                text_of(each["source"]).c_str(), text_of(each["purpose"]).c_str());
}

struct info_options {
  unsigned ranks = 1;
  bool as_json = false;
};

int info(const info_options& options) {
  const json all = describe(options.ranks);
  if (options.as_json)
    std::printf("%s\n", all.dump(2).c_str());
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
  group.add("--ranks", options->ranks, "Local ranks to choose the idle policy for", whole_number(1, k_most_ranks));
  group.add_flag("--json", options->as_json, "Print one JSON object");
  command->footer("Example:  lsched info --ranks 4");
  command->callback([&context, options] { context.action = [options] { return info(*options); }; });
}

}  // namespace lsched::cli
