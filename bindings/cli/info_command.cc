// `lsched info`: what this build is, what this machine offers it, and what the environment tells it.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/launcher.h"
#include "bindings/cli/common/session.h"
#include "bindings/cli/common/words.h"
#include "bindings/environment.h"
#include "bindings/selection_environment.h"
#include "offload/cores.h"
#include "offload/idle_policy.h"
#include "offload/lane_choice.h"
#include "offload/pinning.h"
#include "ops/kernel.h"
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
    variable{"LSCHED_TUNING", "", "", "file with the tuning table that auto goes by"},
    variable{"LSCHED_TRACE", "", "", "prefix: every runtime writes a trace to PREFIX.RANK.json"},
    variable{"LSCHED_RANKS_PER_NODE", "", "", "every that many ranks make a node of their own"},
    variable{"LSCHED_RUN_FD", "", "", "set by `lsched run`: descriptor of the shared segment"},
    variable{"LSCHED_RUN_RANK", "", "", "set by `lsched run`: this process's rank"},
    variable{"LSCHED_RUN_SIZE", "", "", "set by `lsched run`: number of ranks"},
};

const variable* find_variable(std::string_view name) {
  const auto place =
      std::find_if(k_variables.begin(), k_variables.end(), [&](const variable& it) { return it.name == name; });
  return place == k_variables.end() ? nullptr : &*place;
}

bool takes(const variable& it, std::string_view value) {
  if (it.name == "LSCHED_LANE") return parse_lane(value).has_value();
  if (it.values.empty()) return true;
  for (std::string_view rest = it.values; !rest.empty();) {
    const auto bar = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, bar) == value) return true;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return false;
}

/// Insertions, deletions and replacements of letters that turn one word into the other.
std::size_t edits_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The known name that a misspelt one most likely means; empty if nothing is near.
std::string_view nearest(std::string_view name) {
  const auto distance = [&](const variable& it) { return edits_between(name, it.name); };
  const auto best = std::min_element(k_variables.begin(), k_variables.end(),
                                     [&](const variable& x, const variable& y) { return distance(x) < distance(y); });
  const std::size_t own_letters = name.size() - k_prefix.size();
  return distance(*best) <= std::max<std::size_t>(1, own_letters / 2) ? best->name : std::string_view();
}

std::vector<std::string> warnings_about_environment() {
  std::vector<std::string> warnings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(k_prefix) || name.starts_with(k_prefix_of_tests)) continue;
    const std::string_view value = text.substr(std::min(name.size() + 1, text.size()));
    const variable* known = find_variable(name);
    if (known != nullptr && (value.empty() || takes(*known, value))) continue;
    std::string line(name);
    if (known != nullptr) {
      line += "=" + std::string(value) + " is not understood; it takes " + std::string(known->values);
    } else {
      line += " is not a variable of libsched";
      if (const auto meant = nearest(name); !meant.empty()) line += "; did you mean " + std::string(meant) + "?";
    }
    warnings.push_back(std::move(line));
  }
  if (const auto by = read_selection(); !by) warnings.push_back(by.error().text);
  if (const auto ranks = number_in_environment("LSCHED_RANKS_PER_NODE", 1); !ranks)
    warnings.push_back(ranks.error().text);
  if (const auto launched = find_launch(); !launched) warnings.push_back(launched.error().text);
  const char* trace = text_in_environment("LSCHED_TRACE");
  if (const auto why = validate_trace(trace == nullptr ? "" : trace)) warnings.push_back(why->text);
  std::sort(warnings.begin(), warnings.end());
  return warnings;
}

json describe_environment() {
  json list = json::array();
  for (const variable& it : k_variables) {
    const char* value = text_in_environment(std::string(it.name).c_str());
    json entry{{"name", it.name}, {"value", nullptr}, {"source", value != nullptr ? "environment" : "default"}};
    if (value != nullptr)
      entry["value"] = value;
    else if (!it.unset.empty())
      entry["value"] = it.unset;
    entry["purpose"] = it.purpose;
    list.push_back(std::move(entry));
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
json describe_choice(unsigned ranks) {
  const char* wish = text_in_environment("LSCHED_IDLE");
  const auto mode = parse_idle_mode(wish != nullptr ? wish : "auto");
  const idle_policy policy = make_idle_policy(mode ? *mode : idle_mode::automatic, ranks, usable_cores());
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
  const auto parsed = parse_lane(wish != nullptr ? wish : "auto");
  const lane_choice choice = parsed ? *parsed : lane_choice{};
  if (validate(choice) != status::ok)
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
  all["idle"] = describe_choice(ranks);
  all["lane"] = describe_lane(ranks);
  all["environment"] = describe_environment();
  all["warnings"] = warnings_about_environment();
  return all;
}

// --- text --------------------------------------------------------------------------------------------------

std::string plain(const json& value) {
  if (value.is_null()) return "no";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string microseconds(const json& ns) {
  if (ns.is_string()) return ns.get<std::string>();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g us", ns.get<double>() / 1000);
  return text.data();
}

void print_line(const char* what, const std::string& text) { std::printf("%-10s %s\n", what, text.c_str()); }

void print(const json& all) {
  print_line("libsched", plain(all["version"]) + ", ABI " + plain(all["abi"]));
  for (const char* what : {"mpi", "hwloc", "onetbb", "compiler"}) print_line(what, plain(all["build"][what]));
  std::string targets;
  for (const json& target : all["build"]["simd_targets"]) targets += " " + plain(target);
  const bool is_avx512 = targets.find("AVX3") != std::string::npos;
  print_line("simd", plain(all["build"]["simd"]) + "  (this build and CPU can do:" + targets +
                         (is_avx512 ? "; AVX3 is AVX-512)" : ")"));
  const json& cores = all["cores"];
  const bool has_quota = cores["usable"] < cores["affinity"];
  print_line("cores", plain(cores["usable"]) + " usable (" + plain(cores["online"]) + " online, " +
                          plain(cores["affinity"]) + " by affinity" +
                          (has_quota ? ", fewer by the control group's quota)" : ")"));
  const json& idle = all["idle"];
  print_line("idle", "with " + plain(idle["ranks"]) + " local ranks: spins " + microseconds(idle["spin_ns"]) +
                         ", yields " + microseconds(idle["yield_ns"]) + ", then " + plain(idle["then"]));
  print_line("progress", idle["progress_core"].is_null()
                             ? "the scheduler places the progress thread"
                             : "progress thread near here: core " + plain(idle["progress_core"]));
  const json& lane = all["lane"];
  print_line("lane", "with " + plain(lane["ranks"]) + " local ranks: " +
                         (lane["why"].is_null() ? plain(lane["workers"]) + " oneTBB workers for large arithmetic"
                                                : "none, " + plain(lane["why"])));
  std::printf("environment\n");
  for (const json& it : all["environment"])
    std::printf("  %-22s %-8s (%s)  %s\n", plain(it["name"]).c_str(),
                it["value"].is_null() ? "-" : plain(it["value"]).c_str(), plain(it["source"]).c_str(),
                plain(it["purpose"]).c_str());
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
    print(all);
  for (const json& line : all["warnings"]) std::fprintf(stderr, "lsched: warning: %s\n", plain(line).c_str());
  return 0;
}

}  // namespace

void add_info_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("info", "Show the build, the machine and the environment");
  const auto options = std::make_shared<info_options>();
  command->add_option("--ranks", options->ranks, "Local ranks to choose the idle policy for")
      ->check(whole_number(1, k_most_ranks))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->footer("Example:  lsched info --ranks 4");
  command->callback([&context, options] { context.action = [options] { return info(*options); }; });
}

}  // namespace lsched::cli
