// `lsched simulate`: how long a collective takes on a machine that need not exist.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/calibration.h"
#include "bindings/cli/fig9_prediction.h"
#include "bindings/cli/output_file.h"
#include "bindings/cli/simulate_options.h"
#include "bindings/cli/simulation_batch.h"
#include "bindings/cli/words.h"
#include "libsched/closed_form.h"
#include "libsched/goal_world.h"
#include "libsched/schedule_world.h"
#include "libsched/simulated_trace.h"
#include "libsched/sweep.h"
#include "libsched/window.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

std::optional<program> program_named(const simulate_options& options, rank ranks, std::uint64_t bytes) {
  const std::string name = options.collective + "/" + options.algorithm;
  if (name == "allreduce/recursive_doubling" || name == "partial_allreduce/recursive_doubling")
    return recursive_doubling_program{ranks, bytes};
  if (name == "allreduce/tree") return tree_program{ranks, bytes};
  if (name == "allreduce/ring") return ring_program{ranks, bytes};
  if (name == "reduce/binomial") return tree_program{ranks, bytes, 2, true};
  if (name == "barrier/dissemination") return dissemination_program{ranks, bytes};
  if (name == "gather/linear") return gather_program{ranks, bytes};
  return std::nullopt;
}

// --- one simulation ----------------------------------------------------------------------------------------

struct run {
  rank ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
  simulation what{};
  bool is_program = true;
  std::span<const schedule_ptr> goal{};  ///< of --goal
};

/// A world as the generators write it, or as a GOAL file has it.
result<std::vector<schedule_ptr>> world_of(const simulate_options& options, const run& it) {
  if (!it.goal.empty()) return std::vector(it.goal.begin(), it.goal.end());
  const shape data{.count = it.bytes, .type = dtype::u8, .what = kernel::sum};
  std::vector<schedule_ptr> ranks;
  for (rank r = 0; r < it.ranks; ++r) {
    auto program = generate(options.collective, options.algorithm, {r, it.ranks},
                            options.collective == "barrier" ? shape{} : data, {.policy = it.what.starts});
    if (!program) return program.error();
    ranks.push_back(std::move(*program));
  }
  return ranks;
}

result<simulation_report> simulate_world(const simulate_options& options, const run& it, const simulation& what,
                                         simulation_record* record) {
  const auto ranks = world_of(options, it);
  if (!ranks) return ranks.error();
  return simulate_schedules(*ranks, what, record, options.critical_path);
}

/// A calc of n then takes n ns.
constexpr goal_scenario k_goal_times{.ns_per_byte = 1};
constexpr double k_goal_compute = 1;  // ns per byte

std::vector<schedule_ptr> read_goal(const std::string& path) {
  const auto program = parse_goal(read_whole_file(path));
  if (!program) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": " + program.error().text);
  for (std::size_t r = 0; r < program->ranks.size(); ++r)
    for (const goal_op& it : program->ranks[r].ops)
      if (it.cpu != 0 || it.nic != 0)
        throw command_failure(LSCHED_ERR_UNSUPPORTED, path + ": rank " + std::to_string(r) +
                                                          " uses a second cpu or nic; ranks have one of each here");
  return require(import_goal(*program, k_goal_times));
}

result<simulation_report> simulate_closed(const simulation& what) {
  const auto time = closed_form(what);
  if (!time) return time.error();
  simulation_report report{.engine = "closed"};
  report.finish.assign(1, *time);
  return report;
}

run run_of(const simulate_options& options, rank ranks, std::uint64_t bytes, std::uint64_t seed) {
  run it{.ranks = ranks, .bytes = bytes, .seed = seed};
  it.what = {.where = machine_from(options), .skew = skew_from(options), .noise = noise_from(options)};
  it.what.skew.seed = it.what.noise.seed = seed;
  it.what.instance = options.instance;
  it.what.initiator = options.initiator;
  if (options.collective == "partial_allreduce")
    it.what.starts = options.activation == "full"   ? activation_policy::full
                     : options.activation == "solo" ? activation_policy::solo
                                                    : activation_policy::majority;
  if (options.initiator >= ranks) throw CLI::ValidationError("--initiator", "there is no such rank");
  const auto read = options.schedules || !options.to_goal.empty() ? std::nullopt : program_named(options, ranks, bytes);
  it.is_program = read.has_value();
  if (!it.is_program && options.engine != "window")
    throw CLI::ValidationError("--engine", "only window knows " + options.collective + "/" + options.algorithm);
  if (read) it.what.what = *read;
  return it;
}

run run_of(const simulate_options& options, std::span<const schedule_ptr> goal, std::uint64_t seed) {
  run it{.ranks = static_cast<rank>(goal.size()), .seed = seed, .is_program = false, .goal = goal};
  it.what = {.where = machine_from(options), .skew = skew_from(options), .noise = noise_from(options)};
  it.what.where.compute = rounded(k_goal_compute * k_fs_per_ns);
  it.what.skew.seed = it.what.noise.seed = seed;
  it.what.instance = options.instance;
  return it;
}

std::vector<run> runs_of(const simulate_options& options, std::span<const schedule_ptr> goal) {
  std::vector<run> runs;
  for (std::uint64_t i = 0; i < options.seeds && !goal.empty(); ++i)
    runs.push_back(run_of(options, goal, options.seed + i));
  if (!goal.empty()) return runs;
  for (const std::int32_t ranks : options.ranks)
    for (const std::uint64_t bytes : options.bytes)
      for (std::uint64_t i = 0; i < options.seeds; ++i) runs.push_back(run_of(options, ranks, bytes, options.seed + i));
  return runs;
}

result<simulation_report> play(const simulate_options& options, const run& it,
                               const std::function<void(std::uint64_t)>& progress, simulation_record* record) {
  simulation what = it.what;
  what.progress = progress;
  if (!it.is_program) return simulate_world(options, it, what, record);
  if (options.engine == "closed") return simulate_closed(what);
  if (options.engine == "sweep") return simulate_sweep(what);
  auto report = simulate_window(what);
  if (!report || (!options.critical_path && record == nullptr)) return report;
  auto traced = simulate_window(what, true, record);
  if (traced && options.critical_path) report->critical_path = traced->critical_path;
  return report;
}

// --- reports -----------------------------------------------------------------------------------------------

double us(picoseconds time) { return static_cast<double>(time) / k_ps_per_us; }

json describe(const path_parts& path) {
  return {{"L", path.L},
          {"o", path.o},
          {"g", path.g},
          {"G_bytes", path.G_bytes},
          {"O_bytes", path.O_bytes},
          {"compute_bytes", path.compute_bytes},
          {"noise_us", us(path.noise)},
          {"start_us", us(path.start)}};
}

/// The line that others read; its keys stay.
json summary(const run& it, const simulation_report& report) {
  const bool is_played = report.messages + report.signals > 0 && report.seconds > 0;
  const auto messages = static_cast<double>(report.messages + report.signals);
  return {{"engine", report.engine},
          {"ranks", it.ranks},
          {"messages_per_s", is_played ? json(messages / report.seconds) : json(nullptr)},
          {"bytes_per_rank", static_cast<double>(report.memory) / it.ranks},
          {"seconds", report.seconds},
          {"finish_us", us(report.last())}};
}

json details(const simulate_options& options, const run& it, const simulation_report& report) {
  json all{{"ranks", it.ranks},
           it.goal.empty() ? json{"bytes", it.bytes} : json{"goal", options.goal},
           {"seed", it.seed},
           {"messages", report.messages}, {"payload_bytes", report.bytes}, {"signals", report.signals},
           {"nic_waits", report.nic_waits}, {"active", report.active}};
  for (const auto& [name, q] : {std::pair{"first", 0.0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"last", 1.0}})
    all["finish_us"][name] = us(report.quantile(q));
  if (report.critical_path) all["critical_path"] = describe(*report.critical_path);
  return {{"report", all}};
}

void print(const simulate_options& options, const run& it, const simulation_report& report) {
  const std::string what = it.goal.empty() ? std::to_string(it.bytes) + " B" : options.goal;
  std::printf("%s, %d ranks, %s, seed %llu\n", std::string(report.engine).c_str(), it.ranks, what.c_str(),
              static_cast<unsigned long long>(it.seed));
  std::printf("  finish us: first %.3f, half %.3f, 90%% %.3f, 99%% %.3f, last %.3f\n", us(report.quantile(0)),
              us(report.quantile(0.5)), us(report.quantile(0.9)), us(report.quantile(0.99)), us(report.last()));
  std::printf("  messages %llu, bytes %llu, signals %llu, waited for a NIC %llu\n",
              static_cast<unsigned long long>(report.messages), static_cast<unsigned long long>(report.bytes),
              static_cast<unsigned long long>(report.signals), static_cast<unsigned long long>(report.nic_waits));
  if (report.messages + report.signals > 0)
    std::printf("  took %.3f s: %.1f M messages/s, %.1f bytes per rank\n", report.seconds,
                static_cast<double>(report.messages + report.signals) / report.seconds / 1e6,
                static_cast<double>(report.memory) / it.ranks);
  if (!report.critical_path) return;
  const path_parts& path = *report.critical_path;
  std::printf("  critical path: %lld L + %lld o + %lld g + %lld G + %lld O + %lld compute + %.3f us noise, "
              "begun at %.3f us\n",
              static_cast<long long>(path.L), static_cast<long long>(path.o), static_cast<long long>(path.g),
              static_cast<long long>(path.G_bytes), static_cast<long long>(path.O_bytes),
              static_cast<long long>(path.compute_bytes), us(path.noise), us(path.start));
}

/// What is written beside the report.
class outputs {
 public:
  outputs(const simulate_options& options, std::size_t runs) : options_(options) {
    if (options.trace.empty() && options.to_goal.empty()) return;
    if (runs != 1)
      throw CLI::ValidationError(options.trace.empty() ? "--to-goal" : "--trace", "a file is of one simulation");
    if (!options.trace.empty()) trace_.emplace(options.trace);
    if (!options.to_goal.empty()) goal_.emplace(options.to_goal);
    if (!goal_) record_.ranks = options.trace_ranks;
  }

  simulation_record* record() { return trace_ || goal_ ? &record_ : nullptr; }

  void write(const run& it, const simulation_report& report) {
    if (goal_) write_goal(it);
    if (trace_) write_trace(it, report);
  }

 private:
  void write_goal(const run& it) {
    const goal_export made = require(export_goal(require(world_of(options_, it)), it.what, record_));
    goal_->write(to_goal_text(made.program, made.remark));
  }

  void write_trace(const run& it, const simulation_report& report) {
    record_.ranks = options_.trace_ranks;
    const auto events = trace_of(record_, report, it.what);
    const std::string name = it.goal.empty() ? options_.collective + "/" + options_.algorithm : options_.goal;
    trace_context around{.names = {{0, name}}, .remark = "simulated"};
    if (it.ranks > options_.trace_ranks) {
      around.remark += ": the first " + std::to_string(options_.trace_ranks) + " of " + std::to_string(it.ranks) +
                       " ranks; arrows from and to others are missing";
      std::fprintf(stderr, "%s: %s\n", options_.trace.c_str(), around.remark.c_str());
    }
    if (events.size() > around.most_events)
      std::fprintf(stderr, "%s: the first %zu of %zu events\n", options_.trace.c_str(), around.most_events,
                   events.size());
    trace_->write(to_trace_json(events, around));
  }

  const simulate_options& options_;
  std::optional<output_file> trace_, goal_;
  simulation_record record_;
};

int run_all(const simulate_options& options) {
  const auto goal = options.goal.empty() ? std::vector<schedule_ptr>{} : read_goal(options.goal);
  const std::vector<run> runs = runs_of(options, goal);
  outputs files(options, runs.size());
  std::vector<simulation_task> tasks;
  for (const run& it : runs)
    tasks.emplace_back(
        [&options, &it, &files](const auto& progress) { return play(options, it, progress, files.record()); });

  run_batch(
      tasks,
      [&](std::size_t i, const simulation_report& report) {
        files.write(runs[i], report);
        if (options.as_json)
          std::printf("%s\n%s\n", details(options, runs[i], report).dump().c_str(), summary(runs[i], report).dump().c_str());
        else
          print(options, runs[i], report);
      },
      options.as_json);
  return 0;
}

// --- figure 9 ----------------------------------------------------------------------------------------------

const char* policy_name(activation_policy policy) {
  if (policy == activation_policy::full) return "synchronous";
  return policy == activation_policy::solo ? "solo" : "majority";
}

json describe(const fig9_point& it) {
  return {{"kind", "modelled"},           {"ranks", it.ranks}, {"policy", policy_name(it.policy)},
          {"mean_ms", it.latency_ms},     {"formula_ms", it.formula_ms},
          {"nap", it.active},             {"rounds", it.rounds}};
}

json describe(const fig9_measurement& it) {
  json row{{"kind", "measured"}, {"ranks", it.ranks}, {"policy", policy_name(it.policy)}, {"mean_ms", it.latency_ms}};
  if (it.active > 0) row["nap"] = it.active;
  return row;
}

void print(const fig9_point& it, const fig9_measurement* measured) {
  std::printf("%10d  %-12s %14.6g %14.6g %12.1f", it.ranks, policy_name(it.policy), it.latency_ms, it.formula_ms,
              it.active);
  if (measured != nullptr) std::printf(" | %14.6g", measured->latency_ms);
  if (measured != nullptr && measured->active > 0) std::printf(" %12.1f", measured->active);
  std::printf("\n");
}

/// Modelled and measured in columns of their own.
void print(const simulate_options& options, const std::vector<fig9_point>& points,
           const std::vector<fig9_measurement>& measured) {
  std::printf("Modelled, not measured%s: linear skew of %g us per rank, %llu B.\n\n",
              measured.empty() ? "" : " (left of the bar)", options.skew_us,
              static_cast<unsigned long long>(options.bytes.front()));
  std::printf("%10s  %-12s %14s %14s %12s", "ranks", "policy", "modelled ms", "formula ms", "modelled NAP");
  if (!measured.empty()) std::printf(" | %14s %12s", "measured ms", "measured NAP");
  std::printf("\n");
  for (const fig9_point& it : points) print(it, find(measured, it));
}

/// Where something was measured, there is a prediction.
void add_measured(std::vector<rank>& ranks, const std::vector<fig9_measurement>& measured) {
  for (const fig9_measurement& it : measured) ranks.push_back(it.ranks);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

int predict(const simulate_options& options, bool has_ranks) {
  fig9_request what{.bytes = options.bytes.front(), .where = machine_from(options), .is_quiet = options.as_json};
  what.skew = rounded(options.skew_us * k_ps_per_us);
  if (has_ranks) what.ranks.assign(options.ranks.begin(), options.ranks.end());
  std::vector<fig9_measurement> measured;
  if (!options.measured.empty()) {
    measured = read_fig9_measurements(options.measured, what.bytes, options.skew_us / 1000);
    add_measured(what.ranks, measured);
  }
  if (!options.plot.empty()) expect_plottable(options.plot);
  const auto points = predict_fig9(what);
  if (options.as_json) {
    for (const fig9_measurement& it : measured) std::printf("%s\n", describe(it).dump().c_str());
    for (const fig9_point& it : points) std::printf("%s\n", describe(it).dump().c_str());
  } else {
    print(options, points, measured);
  }
  if (!options.plot.empty()) plot_fig9_prediction(options.plot, points, measured, what);
  return 0;
}

// --- calibration -------------------------------------------------------------------------------------------

/// The exit status.
int check_usable(const calibration& found) {
  if (found.objection.empty()) return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "lsched: not usable: %s\n", found.objection.c_str());
  return 1;
}

int calibrate(const simulate_options& options) {
  const calibration found = calibrate_this_machine();
  json all{{"kind", "calibration"}, {"L_ns", found.L_ns},   {"o_ns", found.o_ns},
           {"g_ns", found.g_ns},    {"G_ns_per_byte", found.G_ns_per_byte}, {"spread", found.spread}};
  if (!found.objection.empty()) all["not_usable"] = found.objection;
  for (const prediction& it : found.predictions)
    all["predictions"].push_back({{"algorithm", it.algorithm},
                                  {"ranks", it.ranks},
                                  {"bytes", it.bytes},
                                  {"measured_us", it.measured_us},
                                  {"modelled_us", it.modelled_us},
                                  {"is_crowded", it.is_crowded}});
  if (options.as_json) {
    std::printf("%s\n", all.dump().c_str());
    return check_usable(found);
  }
  std::printf("Measured between two threads of this machine, quick rounds, medians of repetitions (spread %.0f%%):\n"
              "  --L %.0f --o %.0f --g %.0f --G %.4f\n\n",
              100 * found.spread, found.L_ns, found.o_ns, found.g_ns, found.G_ns_per_byte);
  std::printf("%-20s %6s %9s %14s %14s %8s\n", "allreduce", "ranks", "bytes", "measured us", "modelled us", "error");
  for (const prediction& it : found.predictions)
    std::printf("%-20s %6d %9llu %14.3f %14.3f %+7.0f%%%s\n", it.algorithm.c_str(), it.ranks,
                static_cast<unsigned long long>(it.bytes), it.measured_us, it.modelled_us,
                100 * (it.modelled_us / it.measured_us - 1), it.is_crowded ? "  more ranks than cores" : "");
  std::printf("\nWhat this cannot know: a network (there was none), congestion, what more ranks than cores cost each\n"
              "other in wake-ups, and L and o apart from each other: o is the time a start takes its caller, L is the\n"
              "rest of a hop.\n");
  return check_usable(found);
}

int simulate(const simulate_options& options, bool has_ranks) {
  if (options.calibrate) return calibrate(options);
  return options.fig9 ? predict(options, has_ranks) : run_all(options);
}

}  // namespace

void add_simulate_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("simulate", "Time a collective on a modelled machine (LogGOPS)");
  const auto options = std::make_shared<simulate_options>();
  add_simulate_options(*command, *options);
  command->footer(
      "Several --ranks, --bytes or --seeds are simulated at once, one per core.\n"
      "Example:  lsched simulate --ranks 1048576 --bytes 1024 --noise lognormal --engine window");
  command->callback([&context, options, command] {
    check_simulate_options(*command, *options);
    context.action = [options, has_ranks = command->count("--ranks") > 0] { return simulate(*options, has_ranks); };
  });
}

}  // namespace lsched::cli
