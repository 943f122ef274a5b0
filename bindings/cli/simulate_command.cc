// `lsched simulate`: how long a collective takes on a machine that need not exist.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/calibration.h"
#include "bindings/cli/fig9_prediction.h"
#include "bindings/cli/input_file.h"
#include "bindings/cli/output_file.h"
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

constexpr std::uint64_t k_most_simulated_ranks = 1 << 24;

struct simulate_options {
  std::string collective = "allreduce";
  std::string algorithm = "recursive_doubling";
  std::vector<std::int32_t> ranks{8};
  std::vector<std::uint64_t> bytes{1024};
  std::string engine = "window";
  bool schedules = false;
  std::string goal;
  std::string to_goal;
  std::string activation = "solo";
  std::int32_t initiator = 0;

  double L = 2500, o = 1500, g = 1000, G = 6, O = 0, compute = 0;  // ns, ns per byte
  std::uint64_t S = 65'535;
  std::vector<std::string> levels;
  std::string rules = "libsched";

  std::string skew = "none";
  double skew_us = 1000, sigma = 0.5, shift_us = 0, most_us = 0;
  std::int32_t stragglers = 1;
  std::string skew_file;
  std::vector<std::int32_t> skew_ranks;
  std::string cpu_noise = "none";
  double cpu_noise_us = 25, period_us = 1000, alpha = 2, jitter_us = 0;
  std::string noise_file;
  bool cosched = false;
  double speed_cv = 0, slow_share = 0, slow_factor = 2;
  std::uint64_t instance = 1;
  std::uint64_t seed = 1, seeds = 1;

  bool critical_path = false;
  std::string trace;
  std::int32_t trace_ranks = 64;
  bool fig9 = false;
  std::string plot;
  bool calibrate = false;
  bool as_json = false;
};

// --- words to values ---------------------------------------------------------------------------------------

constexpr double k_ps_per_ns = 1e3, k_ps_per_us = 1e6, k_fs_per_ns = 1e6;

std::int64_t whole(double value) { return std::llround(value); }

loggops cost_from(double L, double o, double g, double G, double O) {
  return {.L = whole(L * k_ps_per_ns),
          .o = whole(o * k_ps_per_ns),
          .g = whole(g * k_ps_per_ns),
          .G = whole(G * k_fs_per_ns),
          .O = whole(O * k_fs_per_ns)};
}

/// RANKS:L:o:g:G, perhaps with ":nic"
machine_level level_from(const std::string& text) {
  const bool shares_nic = text.ends_with(":nic");
  const std::string word = shares_nic ? text.substr(0, text.size() - 4) : text;
  std::array<double, 5> values{};
  int end = 0;
  const int found = std::sscanf(word.c_str(), "%lf:%lf:%lf:%lf:%lf%n", &values[0], &values[1], &values[2], &values[3],
                                &values[4], &end);
  const bool is_whole = found == 5 && static_cast<std::size_t>(end) == word.size();
  if (!is_whole || values[0] < 1 || values[0] > 1e9 || *std::min_element(values.begin(), values.end()) < 0)
    throw CLI::ValidationError("--level", "\"" + text + "\" is not RANKS:L:o:g:G[:nic]");
  return {.ranks = static_cast<rank>(values[0]), .cost = cost_from(values[1], values[2], values[3], values[4], 0), .shares_nic = shares_nic};
}

machine machine_from(const simulate_options& options) {
  machine where{.levels = {}, .S = options.S, .compute = whole(options.compute * k_fs_per_ns)};
  where.rules = options.rules == "loggopsim" ? semantics::loggopsim : semantics::libsched;
  for (const std::string& word : options.levels) where.levels.push_back(level_from(word));
  where.levels.push_back({.cost = cost_from(options.L, options.o, options.g, options.G, options.O)});
  return where;
}

constexpr std::array k_skews{skew_kind::none,       skew_kind::linear,    skew_kind::uniform, skew_kind::lognormal,
                             skew_kind::stragglers, skew_kind::empirical, skew_kind::fixed,   skew_kind::rotating};
constexpr std::array k_noises{noise_kind::none, noise_kind::periodic, noise_kind::exponential, noise_kind::pareto,
                              noise_kind::trace};

template <class Kinds>
std::vector<std::string> names_in(const Kinds& kinds) {
  std::vector<std::string> names;
  for (const auto kind : kinds) names.emplace_back(name_of(kind));
  return names;
}

template <class Kinds>
auto kind_named(const Kinds& kinds, const std::string& name) {
  return *std::find_if(kinds.begin(), kinds.end(), [&](auto kind) { return name_of(kind) == name; });
}

/// Microseconds, one number a line.
std::vector<picoseconds> read_samples(const std::string& path) {
  std::ifstream file(path);
  std::vector<picoseconds> samples;
  for (double sample = 0; file >> sample;) samples.push_back(whole(sample * k_ps_per_us));
  if (!file.eof() || samples.empty()) throw command_failure(path + " does not hold numbers");
  return samples;
}

start_skew skew_from(const simulate_options& options) {
  start_skew skew{.kind = kind_named(k_skews, options.skew),
                  .scale = whole(options.skew_us * k_ps_per_us),
                  .sigma = options.sigma,
                  .count = options.stragglers,
                  .shift = whole(options.shift_us * k_ps_per_us),
                  .most = whole(options.most_us * k_ps_per_us),
                  .seed = options.seed};
  if (skew.kind == skew_kind::empirical) skew.samples = read_samples(options.skew_file);
  skew.ranks.assign(options.skew_ranks.begin(), options.skew_ranks.end());
  std::ranges::sort(skew.ranks);
  if ((skew.kind == skew_kind::fixed) == skew.ranks.empty())
    throw CLI::ValidationError("--skew-ranks", "the ranks of fixed skew, and of no other");
  return skew;
}

noise_trace read_noise_trace(const std::string& path) {
  auto trace = parse_noise_trace(content_of(path));
  if (!trace) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": " + trace.error().text);
  return std::move(*trace);
}

cpu_noise noise_from(const simulate_options& options) {
  cpu_noise noise{.kind = kind_named(k_noises, options.cpu_noise),
                  .scale = whole(options.cpu_noise_us * k_ps_per_us),
                  .period = whole(options.period_us * k_ps_per_us),
                  .alpha = options.alpha,
                  .jitter = whole(options.jitter_us * k_ps_per_us),
                  .is_cosched = options.cosched,
                  .pace = {options.speed_cv, options.slow_share, options.slow_factor},
                  .seed = options.seed};
  if (noise.kind == noise_kind::periodic && noise.scale >= noise.period)
    throw CLI::ValidationError("--cpu-noise-us", "a CPU cannot be away longer than a period");
  if ((noise.kind == noise_kind::trace) == options.noise_file.empty())
    throw CLI::ValidationError("--noise-file", "the trace of trace noise, and of no other");
  if (noise.kind == noise_kind::trace) noise.trace = read_noise_trace(options.noise_file);
  return noise;
}

std::optional<program> program_named(const simulate_options& options, rank ranks, std::uint64_t bytes) {
  const std::string name = options.collective + "/" + options.algorithm;
  if (name == "allreduce/recursive_doubling" || name == "partial_allreduce/recursive_doubling")
    return recursive_doubling_program{ranks, bytes};
  if (name == "allreduce/tree") return tree_program{ranks, bytes};
  if (name == "allreduce/ring") return ring_program{ranks, bytes};
  if (name == "reduce/binomial") return tree_program{ranks, bytes, 2, true};
  if (name == "barrier/dissemination") return dissemination_program{ranks, k_signal_bytes};
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
  const auto program = parse_goal(content_of(path));
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

/// Options that would change nothing are mistakes.
void check_engine(const simulate_options& options) {
  if (options.engine == "window") return;
  if (options.schedules) throw CLI::ValidationError("--schedules", "only --engine window runs them");
  if (options.critical_path) throw CLI::ValidationError("--critical-path", "only --engine window knows it");
  if (!options.trace.empty()) throw CLI::ValidationError("--trace", "only --engine window has events");
  if (!options.to_goal.empty()) throw CLI::ValidationError("--to-goal", "only --engine window runs schedules");
  if (!options.goal.empty()) throw CLI::ValidationError("--goal", "only --engine window runs it");
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
  it.what.where.compute = whole(k_goal_compute * k_fs_per_ns);
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
  check_engine(options);
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

int predict(const simulate_options& options, bool has_ranks) {
  fig9_request what{.bytes = options.bytes.front(), .where = machine_from(options), .is_quiet = options.as_json};
  what.skew = whole(options.skew_us * k_ps_per_us);
  if (has_ranks) what.ranks.assign(options.ranks.begin(), options.ranks.end());
  if (!options.plot.empty()) expect_plottable(options.plot);
  const auto points = predict_fig9(what);
  if (!options.as_json) {
    std::printf("Modelled, not measured: linear skew of %g us per rank, %llu B.\n\n", options.skew_us,
                static_cast<unsigned long long>(what.bytes));
    std::printf("%10s  %-12s %16s %16s %12s %7s\n", "ranks", "policy", "mean ms", "formula ms", "NAP", "rounds");
  }
  for (const fig9_point& it : points)
    if (options.as_json)
      std::printf("%s\n", json{{"kind", "modelled"},
                               {"ranks", it.ranks},
                               {"policy", policy_name(it.policy)},
                               {"mean_ms", it.latency_ms},
                               {"formula_ms", it.formula_ms},
                               {"nap", it.active},
                               {"rounds", it.rounds}}
                              .dump()
                              .c_str());
    else
      std::printf("%10d  %-12s %16.6g %16.6g %12.1f %7zu\n", it.ranks, policy_name(it.policy), it.latency_ms,
                  it.formula_ms, it.active, it.rounds);
  if (!options.plot.empty()) plot_fig9_prediction(options.plot, points, what);
  return 0;
}

// --- calibration -------------------------------------------------------------------------------------------

int calibrate(const simulate_options& options) {
  const calibration found = calibrate_this_machine();
  json all{{"kind", "calibration"}, {"L_ns", found.L_ns},   {"o_ns", found.o_ns},
           {"g_ns", found.g_ns},    {"G_ns_per_byte", found.G_ns_per_byte}};
  for (const prediction& it : found.predictions)
    all["predictions"].push_back({{"algorithm", it.algorithm},
                                  {"ranks", it.ranks},
                                  {"bytes", it.bytes},
                                  {"measured_us", it.measured_us},
                                  {"modelled_us", it.modelled_us},
                                  {"is_crowded", it.is_crowded}});
  if (options.as_json) {
    std::printf("%s\n", all.dump().c_str());
    return 0;
  }
  std::printf("Measured between two threads of this machine, medians:\n"
              "  --L %.0f --o %.0f --g %.0f --G %.4f\n\n", found.L_ns, found.o_ns, found.g_ns, found.G_ns_per_byte);
  std::printf("%-20s %6s %9s %14s %14s %8s\n", "allreduce", "ranks", "bytes", "measured us", "modelled us", "error");
  for (const prediction& it : found.predictions)
    std::printf("%-20s %6d %9llu %14.3f %14.3f %+7.0f%%%s\n", it.algorithm.c_str(), it.ranks,
                static_cast<unsigned long long>(it.bytes), it.measured_us, it.modelled_us,
                100 * (it.modelled_us / it.measured_us - 1), it.is_crowded ? "  more ranks than cores" : "");
  std::printf("\nWhat this cannot know: a network (there was none), congestion, what more ranks than cores cost each\n"
              "other in wake-ups, and L and o apart from each other: o is the time a start takes its caller, L is the\n"
              "rest of a hop.\n");
  return 0;
}

int simulate(const simulate_options& options, bool has_ranks) {
  if (options.calibrate) return calibrate(options);
  return options.fig9 ? predict(options, has_ranks) : run_all(options);
}

// --- options -----------------------------------------------------------------------------------------------

void add_machine_options(CLI::App& command, simulate_options& options) {
  const auto time = [&](const char* name, double& value, const char* text) {
    command.add_option(name, value, text)->check(number(0, 1e12))->capture_default_str()->group("Machine");
  };
  time("--L", options.L, "Latency of the wire, ns");
  time("--o", options.o, "CPU time of a message at either end, ns");
  time("--g", options.g, "Gap between messages at a NIC, ns");
  time("--G", options.G, "Gap per byte, ns (0.04 is 25 GB/s)");
  time("--O", options.O, "CPU time per byte, ns");
  time("--compute", options.compute, "Reduction or copy, ns per byte");
  command.add_option("--S", options.S, "Largest eager message, bytes; longer ones rendezvous")
      ->check(whole_number(0))->capture_default_str()->group("Machine");
  command.add_option("--level", options.levels, "RANKS:L:o:g:G[:nic] of groups of neighbours, innermost first; repeatable; with \"nic\" a group "
                     "shares the one to ranks outside")
      ->group("Machine");
  command.add_option("--semantics", options.rules, "Whose rules: libsched, or LogGOPSim's main line")
      ->check(CLI::IsMember({"libsched", "loggopsim"}))->capture_default_str()->group("Machine");
}

void add_noise_options(CLI::App& command, simulate_options& options) {
  const auto time = [&](const char* name, double& value, const char* text) {
    command.add_option(name, value, text)->check(number(0, 1e12))->capture_default_str()->group("Skew and noise");
  };
  command.add_option("--skew,--noise", options.skew, "When ranks begin")
      ->check(CLI::IsMember(names_in(k_skews)))->capture_default_str()->group("Skew and noise");
  time("--skew-us", options.skew_us,
       "Per rank (linear, rotating), most (uniform), median (lognormal), delay (stragglers, fixed)");
  command.add_option("--sigma", options.sigma, "Of lognormal skew")
      ->check(number(0, 10))->capture_default_str()->group("Skew and noise");
  time("--shift-us", options.shift_us, "Added to uniform, lognormal and rotating skew");
  time("--most-us", options.most_us, "Larger skews are cut to this; 0: none are");
  command.add_option("--stragglers", options.stragglers, "How many ranks straggle")
      ->check(whole_number(0, k_most_simulated_ranks))->capture_default_str()->group("Skew and noise");
  command.add_option("--skew-file", options.skew_file, "Starts in us, one a line, for empirical skew")
      ->check(CLI::ExistingFile)->group("Skew and noise");
  command.add_option("--skew-ranks", options.skew_ranks, "Who begins late under fixed skew")
      ->check(whole_number(0, k_most_simulated_ranks))->group("Skew and noise");
  command.add_option("--cpu-noise", options.cpu_noise, "What CPUs lose meanwhile")
      ->check(CLI::IsMember(names_in(k_noises)))->capture_default_str()->group("Skew and noise");
  time("--cpu-noise-us", options.cpu_noise_us, "Length (periodic), mean (exponential), scale (pareto)");
  command.add_option("--period-us", options.period_us, "Of periodic noise")
      ->check(number(1e-3, 1e12))->capture_default_str()->group("Skew and noise");
  command.add_option("--alpha", options.alpha, "Of pareto noise")
      ->check(number(1e-2, 1e3))->capture_default_str()->group("Skew and noise");
  command.add_option("--noise-file", options.noise_file, "Trace noise: lines of start and duration, ns (LogGOPSim's)")
      ->check(CLI::ExistingFile)->group("Skew and noise");
  command.add_flag("--cosched", options.cosched, "Trace noise: all ranks are away together")->group("Skew and noise");
  time("--jitter-us", options.jitter_us, "Mean of what the wire adds to L");
  command.add_option("--speed-cv", options.speed_cv, "Spread of the ranks' speeds, normal around 1")
      ->check(number(0, 1))->capture_default_str()->group("Skew and noise");
  command.add_option("--slow-share", options.slow_share, "Share of the ranks that are slow all the time")
      ->check(number(0, 1))->capture_default_str()->group("Skew and noise");
  command.add_option("--slow-factor", options.slow_factor, "How many times slower those are")
      ->check(number(1, 1e6))->capture_default_str()->group("Skew and noise");
  command.add_option("--instance", options.instance, "Which of many rounds: other draws, another turn of rotating skew")
      ->check(whole_number(1))->capture_default_str()->group("Skew and noise");
  command.add_option("--seed", options.seed, "Of all draws")->capture_default_str()->group("Skew and noise");
  command.add_option("--seeds", options.seeds, "Simulate so many seeds from --seed on")
      ->check(whole_number(1, 1'000'000))->capture_default_str()->group("Skew and noise");
}

}  // namespace

void add_simulate_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("simulate", "Time a collective on a modelled machine (LogGOPS)");
  const auto options = std::make_shared<simulate_options>();
  auto* collective = command->add_option("--collective", options->collective, "allreduce, barrier, reduce, gather, partial_allreduce, …")
      ->capture_default_str();
  auto* algorithm = command->add_option("--algorithm", options->algorithm,
                      "recursive_doubling, tree, ring; dissemination; binomial; linear; or what `lsched list` shows")
      ->capture_default_str();
  auto* ranks = command->add_option("--ranks", options->ranks, "Sizes of the world")
                    ->check(whole_number(1, k_most_simulated_ranks))->capture_default_str();
  auto* bytes = command->add_option("--bytes", options->bytes, "Bytes a rank contributes")
      ->check(whole_number(0, k_max_count))->capture_default_str();
  command->add_option("--engine", options->engine, "window: events; sweep: rounds; closed: formulas")
      ->check(CLI::IsMember({"window", "sweep", "closed"}))->capture_default_str();
  auto* schedules = command->add_flag("--schedules", options->schedules,
                                      "Simulate what the generator writes for every rank, op by op");
  auto* goal = command->add_option("--goal", options->goal, "Simulate a GOAL program, text or binary, instead")
                   ->check(CLI::ExistingFile)
                   ->excludes(collective)->excludes(algorithm)->excludes(ranks)->excludes(bytes)->excludes(schedules);
  auto* to_goal = command->add_option("--to-goal", options->to_goal,
                                      "Write the round that is simulated, as it went there, as GOAL text");
  auto* policy = command->add_option("--activation", options->activation, "Policy of a partial allreduce")
      ->check(CLI::IsMember(activation_names()))->capture_default_str();
  auto* initiator = command->add_option("--initiator", options->initiator, "Whose call counts with majority")
      ->check(whole_number(0, k_most_simulated_ranks))->capture_default_str();
  add_machine_options(*command, *options);
  for (CLI::Option* other : {policy, initiator, command->get_option("--compute")}) goal->excludes(other);
  add_noise_options(*command, *options);
  command->add_flag("--critical-path", options->critical_path, "Count L, o, g, G and noise on the longest path");
  auto* trace = command->add_option("--trace", options->trace, "Write what every rank does, for https://ui.perfetto.dev");
  command->add_option("--trace-ranks", options->trace_ranks, "How many ranks, from 0 on, the trace shows")
      ->check(whole_number(1, k_most_simulated_ranks))->capture_default_str()->needs(trace);
  auto* fig9 = command->add_flag("--fig9", options->fig9,
                                 "Predict Figure 9 of Li et al. 2020, by default at 32 to 10^6 ranks")
                   ->excludes(trace)->excludes(goal)->excludes(to_goal);
  command->add_option("--plot", options->plot, "Draw that figure (gnuplot)")->needs(fig9);
  command->add_flag("--calibrate", options->calibrate, "Measure L, o, g and G here, and how far predictions are off")
      ->excludes(fig9)->excludes(trace)->excludes(goal)->excludes(to_goal);
  command->add_flag("--json", options->as_json, "Print JSON lines; the last is the summary");
  command->footer(
      "Several --ranks, --bytes or --seeds are simulated at once, one per core.\n"
      "Example:  lsched simulate --ranks 1048576 --bytes 1024 --noise lognormal --engine window");
  command->callback([&context, options, ranks] {
    context.action = [options, has_ranks = ranks->count() > 0] { return simulate(*options, has_ranks); };
  });
}

}  // namespace lsched::cli
