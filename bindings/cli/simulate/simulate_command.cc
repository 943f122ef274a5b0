// `lsched simulate`: how long a collective takes on a machine that need not exist.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/common/world_file.h"
#include "bindings/cli/goal/goal.h"
#include "bindings/cli/simulate/calibration_report.h"
#include "bindings/cli/simulate/fig9_report.h"
#include "bindings/cli/simulate/simulation_batch.h"
#include "bindings/cli/simulate/simulation_files.h"
#include "bindings/cli/simulate/simulation_print.h"
#include "bindings/input_file.h"
#include "collectives/algorithm/algorithm.h"
#include "collectives/registry.h"
#include "libsched/simulate/schedule_world.h"

namespace lsched::cli {
namespace {

/// A calc of n then takes n ns.
constexpr goal_scenario k_goal_times{.ns_per_byte = 1};
constexpr double k_goal_compute = 1;  // ns per byte

std::vector<schedule_ptr> read_goal(const std::string& path) {
  const auto program = parse_goal_text(require(content_of(path)));
  if (!program) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": " + program.error().text);
  for (std::size_t r = 0; r < program->ranks.size(); ++r)
    for (const goal_op& it : program->ranks[r].ops)
      if (it.cpu != 0 || it.nic != 0)
        throw command_failure(LSCHED_ERR_UNSUPPORTED, path + ": rank " + std::to_string(r) +
                                                          " uses a second cpu or nic; ranks have one of each here");
  return require(import_goal(*program, k_goal_times));
}

simulated_run run_of(const simulate_options& options, rank ranks, std::uint64_t bytes, std::uint64_t seed) {
  simulated_run it{.ranks = ranks, .bytes = bytes, .seed = seed};
  it.what = {.where = machine_from(options), .skew = skew_from(options), .noise = noise_from(options)};
  it.what.skew.seed = it.what.noise.seed = seed;
  it.what.instance = options.instance;
  it.what.initiator = options.initiator;
  if (options.collective == "partial_allreduce") it.starts = require(read_activation(options.activation));
  it.starts.seed = seed;
  if (options.initiator >= ranks) throw CLI::ValidationError("--initiator", "there is no such rank");
  if (options.collective == k_sparse_allreduce) {
    it.sparse = &sparse_named(options.algorithm);
    it.problem = {.count = options.count,
                  .k = items_of(options.sparse, options.count),
                  .period = options.period,
                  .bucket = options.bucket};
  }
  const algorithm* how = lsched::find(options.collective, options.algorithm);
  if (how != nullptr && how->of->adapts && how->looks_at.nodes)
    it.remark = node_warning(*how, ranks, shape_of(options, it));
  return it;
}

simulated_run run_of(const simulate_options& options, std::span<const schedule_ptr> given, std::uint64_t seed) {
  simulated_run it{.ranks = static_cast<rank>(given.size()), .seed = seed, .given = given};
  it.what = {.where = machine_from(options), .skew = skew_from(options), .noise = noise_from(options)};
  if (options.file.empty()) it.what.where.compute = rounded(k_goal_compute * k_fs_per_ns);
  it.what.skew.seed = it.what.noise.seed = seed;
  it.what.instance = options.instance;
  it.what.initiator = options.initiator;
  if (options.initiator >= it.ranks) throw CLI::ValidationError("--initiator", "there is no such rank");
  if (options.initiator != 0 && given.front()->starts().policy != activation_policy::majority)
    throw CLI::ValidationError("--initiator", "changes nothing: the schedules' activation is not majority");
  return it;
}

std::vector<schedule_ptr> given_to(const simulate_options& options) {
  if (!options.file.empty()) return read_world_file(options.file);
  return options.goal.empty() ? std::vector<schedule_ptr>{} : read_goal(options.goal);
}

std::vector<simulated_run> runs_of(const simulate_options& options, std::span<const schedule_ptr> given) {
  std::vector<simulated_run> runs;
  for (std::uint64_t i = 0; i < options.seeds && !given.empty(); ++i)
    runs.push_back(run_of(options, given, options.seed + i));
  if (!given.empty()) return runs;
  for (const std::int32_t ranks : options.ranks)
    for (const std::uint64_t bytes : options.bytes)
      for (std::uint64_t i = 0; i < options.seeds; ++i) runs.push_back(run_of(options, ranks, bytes, options.seed + i));
  return runs;
}

result<simulation_report> play(const simulate_options& options, const simulated_run& it,
                               const std::function<void(std::uint64_t)>& progress, simulation_record* record) {
  const auto begin = std::chrono::steady_clock::now();
  const auto world = packed_world_of(options, it);
  if (!world) return world.error();
  const std::chrono::duration<double> generation = std::chrono::steady_clock::now() - begin;
  simulation what = it.what;
  what.progress = progress;
  auto report = simulate_schedules(*world, what, record, options.critical_path);
  if (report) report->generation_seconds = generation.count();
  return report;
}

int run_all(const simulate_options& options) {
  const std::vector<schedule_ptr> given = given_to(options);
  const std::vector<simulated_run> runs = runs_of(options, given);
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
      "Example:  lsched simulate --ranks 1048576 --bytes 1024 --noise lognormal\n"
      "          lsched show allreduce --ranks 3 --all > world.sched; lsched simulate --file world.sched");
  command->callback([&context, options, command] {
    check_simulate_options(*command, *options);
    context.action = [options, has_ranks = command->count("--ranks") > 0] { return simulate(*options, has_ranks); };
  });
}

}  // namespace lsched::cli
