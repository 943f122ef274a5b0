// `lsched simulate`: how long a collective takes on a machine that need not exist.
#include <CLI/CLI.hpp>
#include <bit>
#include <memory>

#include "bindings/cli/calibration_report.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/errors.h"
#include "bindings/cli/fig9_report.h"
#include "bindings/cli/simulation_batch.h"
#include "bindings/cli/simulation_files.h"
#include "bindings/cli/simulation_print.h"
#include "bindings/cli/words.h"
#include "bindings/input_file.h"
#include "collectives/registry.h"
#include "collectives/remark.h"
#include "libsched/closed_form.h"
#include "libsched/goal_world.h"
#include "libsched/schedule_world.h"
#include "libsched/sweep.h"
#include "libsched/window.h"

namespace lsched::cli {
namespace {

std::optional<program> program_named(const simulate_options& options, rank ranks, std::uint64_t bytes) {
  const std::string name = options.collective + "/" + options.algorithm;
  if (name == "allreduce/recursive_doubling" || name == "partial_allreduce/recursive_doubling")
    return recursive_doubling_program{ranks, bytes};
  if (name == "allreduce/tree") return tree_program{ranks, bytes};
  if (name == "allreduce/ring") return ring_program{ranks, bytes};
  if (name == "adasum/recursive_doubling") return recursive_doubling_program{ranks, bytes, 2};
  // The windowed engine runs the schedules of these: their messages are of too many sizes for it.
  const bool is_halving = options.engine != "window" && std::has_single_bit(static_cast<std::uint32_t>(ranks));
  if (is_halving && name == "allreduce/rabenseifner") return halving_program{ranks, bytes};
  if (is_halving && name == "adasum/halving") return halving_program{ranks, bytes, true, !options.free_sums};
  if (name == "reduce/binomial") return tree_program{ranks, bytes, 2, true};
  if (name == "barrier/dissemination") return dissemination_program{ranks, bytes};
  if (name == "gather/linear") return gather_program{ranks, bytes};
  return std::nullopt;
}

result<simulation_report> simulate_world(const simulate_options& options, const simulated_run& it,
                                         const simulation& what, simulation_record* record) {
  if (options.alike) {
    const auto world = fold_world(it.ranks, [&](lsched::world place) { return rank_of(options, it, place); });
    if (!world) return world.error();
    return simulate_alike(*world, what, options.critical_path);
  }
  const auto ranks = world_of(options, it);
  if (!ranks) return ranks.error();
  return simulate_schedules(*ranks, what, record, options.critical_path);
}

/// A calc of n then takes n ns.
constexpr goal_scenario k_goal_times{.ns_per_byte = 1};
constexpr double k_goal_compute = 1;  // ns per byte

std::vector<schedule_ptr> read_goal(const std::string& path) {
  const auto program = parse_goal(require(content_of(path)));
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

/// Why another engine than window cannot do it.
std::string who_knows(const simulate_options& options, rank ranks) {
  const std::string what = options.collective + "/" + options.algorithm;
  constexpr rank k_known = 2;
  if (!program_named(options, k_known, 0)) return "only window knows " + what;
  return options.engine + " knows " + what + " of 2^k ranks only, not of " + std::to_string(ranks) +
         ": use --engine window";
}

simulated_run run_of(const simulate_options& options, rank ranks, std::uint64_t bytes, std::uint64_t seed) {
  simulated_run it{.ranks = ranks, .bytes = bytes, .seed = seed};
  it.what = {.where = machine_from(options), .skew = skew_from(options), .noise = noise_from(options)};
  it.what.skew.seed = it.what.noise.seed = seed;
  it.what.instance = options.instance;
  it.what.initiator = options.initiator;
  if (options.collective == "partial_allreduce") it.what.starts = require(read_activation(options.activation));
  it.what.starts.seed = seed;
  if (options.initiator >= ranks) throw CLI::ValidationError("--initiator", "there is no such rank");
  const bool needs_schedules = has_number(it.what.starts.policy) || it.what.starts.full_every != 0;
  const auto read = options.schedules || options.alike || !options.to_goal.empty() || needs_schedules
                        ? std::nullopt
                        : program_named(options, ranks, bytes);
  it.is_program = read.has_value();
  if (!it.is_program && options.engine != "window") throw CLI::ValidationError("--engine", who_knows(options, ranks));
  if (read) it.what.what = *read;
  if (options.collective == k_sparse_allreduce) {
    it.sparse = &sparse_named(options.algorithm);
    it.problem = {.count = options.count,
                  .k = items_of(options.sparse, options.count),
                  .period = options.period,
                  .bucket = options.bucket};
  }
  const algorithm* how = find(options.collective, options.algorithm);
  if (how != nullptr && how->of->adapts && how->looks_at.nodes)
    it.remark = remark_on(*how, ranks, shape_of(options, it));
  return it;
}

simulated_run run_of(const simulate_options& options, std::span<const schedule_ptr> goal, std::uint64_t seed) {
  simulated_run it{.ranks = static_cast<rank>(goal.size()), .seed = seed, .is_program = false, .goal = goal};
  it.what = {.where = machine_from(options), .skew = skew_from(options), .noise = noise_from(options)};
  it.what.where.compute = rounded(k_goal_compute * k_fs_per_ns);
  it.what.skew.seed = it.what.noise.seed = seed;
  it.what.instance = options.instance;
  return it;
}

std::vector<simulated_run> runs_of(const simulate_options& options, std::span<const schedule_ptr> goal) {
  std::vector<simulated_run> runs;
  for (std::uint64_t i = 0; i < options.seeds && !goal.empty(); ++i)
    runs.push_back(run_of(options, goal, options.seed + i));
  if (!goal.empty()) return runs;
  for (const std::int32_t ranks : options.ranks)
    for (const std::uint64_t bytes : options.bytes)
      for (std::uint64_t i = 0; i < options.seeds; ++i) runs.push_back(run_of(options, ranks, bytes, options.seed + i));
  return runs;
}

result<simulation_report> play(const simulate_options& options, const simulated_run& it,
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

int run_all(const simulate_options& options) {
  const auto goal = options.goal.empty() ? std::vector<schedule_ptr>{} : read_goal(options.goal);
  const std::vector<simulated_run> runs = runs_of(options, goal);
  simulation_files files(options, runs.size());
  std::vector<simulation_task> tasks;
  for (const simulated_run& it : runs)
    tasks.emplace_back(
        [&options, &it, &files](const auto& progress) { return play(options, it, progress, files.record()); });

  run_batch(tasks, [&](std::size_t i, const simulation_report& report) {
    files.write(runs[i], report);
    print(options, runs[i], report);
  });
  return 0;
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
