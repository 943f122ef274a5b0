// `lsched simulate`: computes the time of a collective on a modelled machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/output_file.h"
#include "bindings/cli/common/printed_to.h"
#include "bindings/cli/goal/goal.h"
#include "bindings/cli/picture/builders.h"
#include "bindings/cli/simulate/simulate.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

// --- the report --------------------------------------------------------------------------------------------

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

/// Returns the summary of a simulation. Other programs read the summary, so its keys must not change.
json summary_of(const simulated_run& run, const simulation_report& report) {
  const auto messages = static_cast<double>(report.messages + report.signals);
  return {{"engine", "events"},
          {"ranks", run.ranks},
          {"messages_per_s", messages > 0 && report.seconds > 0 ? json(messages / report.seconds) : json(nullptr)},
          {"bytes_per_rank", static_cast<double>(report.memory) / run.ranks},
          {"seconds", report.seconds},
          {"generation_seconds", report.generation_seconds},
          {"finish_us", us(report.last())}};
}

json describe(const simulate_options& options, const simulated_run& run, const simulation_report& report) {
  json all{{"ranks", run.ranks}};
  if (options.file.empty())
    all["bytes"] = run.bytes;
  else
    all["file"] = options.file;
  all.update({{"seed", run.seed},
              {"messages", report.messages},
              {"payload_bytes", report.bytes},
              {"signals", report.signals},
              {"nic_waits", report.nic_waits},
              {"active", report.active}});
  for (const auto& [name, q] : {std::pair{"first", 0.0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"last", 1.0}})
    all["finish_us"][name] = us(quantile(report.finish, q));
  if (run.sparse != nullptr) all["count"] = run.problem.count, all["k"] = run.problem.k;
  if (!run.warning.empty()) all["warning"] = run.warning;
  if (options.critical_path) all["critical_path"] = describe(*report.critical_path);
  return all;
}

/// Prints text for people, or two lines of JSON. The second line is the summary.
void print(const simulate_options& options, const simulated_run& run, const simulation_report& report, std::FILE* to) {
  json details = describe(options, run, report);
  json summary = summary_of(run, report);
  if (!options.json.empty()) {
    details["finish_ps"] = report.finish;  // times by rank
    std::fprintf(to, "%s\n%s\n", json_text(json{{"report", details}}).c_str(), json_text(summary).c_str());
    return;
  }
  const std::string subject = options.file.empty() ? std::to_string(run.bytes) + " B" : options.file;
  std::fprintf(to, "%s, %s, seed %llu\n", counted(run.ranks, "rank").c_str(), subject.c_str(),
               static_cast<unsigned long long>(run.seed));
  for (const char* said : {"ranks", "bytes", "file", "seed"}) details.erase(said);
  for (const char* said : {"engine", "ranks", "finish_us"}) summary.erase(said);
  print_lines(details, "  ", to);
  print_lines(summary, "  ", to);
}

// --- files beside the report -------------------------------------------------------------------------------

/// Returns the schedules of the first `most` ranks of a run.
std::vector<schedule_ptr> schedules_of(const simulate_options& options, const simulated_run& run, rank most) {
  std::vector<schedule_ptr> world;
  const schedule_generator generate = generator_of(options, run);
  for (rank r = 0; r < std::min(run.ranks, most); ++r) world.push_back(require(generate({r, run.ranks})));
  return world;
}

/// The output files of a run: a trace, a picture and a GOAL program.
class simulation_files {
 public:
  simulation_files(const simulate_options& options, std::size_t runs) : options_(options) {
    const auto open = [runs](const char* option, const std::string& path, std::optional<output_file>& file) {
      if (path.empty()) return;
      if (runs != 1)
        throw CLI::ValidationError(
            option, "a file holds only one simulation: give a single value of --ranks, --bytes and --seed");
      file.emplace(path);
    };
    open("--goal", options.to_goal, goal_);
    open("--trace", options.trace, trace_);
    open("--svg", options.svg, svg_);
    if (!goal_ && !svg_) record_.ranks = k_drawn_ranks;
  }

  /// Returns the record that the simulation must fill, or null if the user requests no such file.
  simulation_record* record() { return trace_ || goal_ || svg_ ? &record_ : nullptr; }

  /// Returns true if one of the files is standard output. The report then goes to standard error.
  bool own_stdout() const {
    return std::ranges::any_of(std::array{&trace_, &goal_, &svg_},
                               [](const auto* file) { return *file && (*file)->is_stdout(); });
  }

  void write(const simulated_run& run, const simulation_report& report) {
    if (goal_) {
      const goal_export made = require(export_goal(schedules_of(options_, run, run.ranks), run.model, record_));
      goal_->write(to_goal_text(made.program, made.description));
    }
    if (svg_) write_svg(run, report);
    if (trace_) write_trace(run, report);
  }

 private:
  void write_trace(const simulated_run& run, const simulation_report& report) {
    record_.ranks = k_drawn_ranks;
    const auto events = trace_of(record_, report, run.model);
    trace_context context{.names = {{0, subject()}}, .note = "simulated"};
    if (run.ranks > k_drawn_ranks) {
      context.note += ": the first " + std::to_string(k_drawn_ranks) + " of " + std::to_string(run.ranks) +
                      " ranks; arrows from and to others are missing";
      std::fprintf(stderr, "lsched: %s: %s\n", options_.trace.c_str(), context.note.c_str());
    }
    if (events.size() > context.most_events)
      std::fprintf(stderr, "lsched: %s has only the first %zu of %zu events\n", options_.trace.c_str(),
                   context.most_events, events.size());
    trace_->write(to_trace_json(events, context));
  }

  std::string subject() const {
    return options_.file.empty() ? options_.collective + "/" + options_.algorithm : options_.file;
  }

  void write_svg(const simulated_run& run, const simulation_report& report) {
    picture_words words{.title = subject() + ", " + counted(run.ranks, "rank")};
    if (options_.file.empty()) words.title += ", " + std::to_string(run.bytes) + " B a rank";
    if (run.starts.policy != activation_policy::none) words.caption.push_back("activation " + words_for(run.starts));
    const std::vector<schedule_ptr> shown = schedules_of(options_, run, k_drawn_ranks);
    svg_->write(to_svg(picture_of_round(record_, report, run.model, shown, words)));
  }

  const simulate_options& options_;
  std::optional<output_file> trace_, goal_, svg_;
  simulation_record record_;
};

// --- the command -------------------------------------------------------------------------------------------

result<simulation_report> play(const simulate_options& options, const simulated_run& run,
                               const simulation_progress& progress, simulation_record* record) {
  const auto begin = std::chrono::steady_clock::now();
  const auto world = packed_in_parallel(run.ranks, generator_of(options, run));
  if (!world) return world.error();
  const std::chrono::duration<double> generation = std::chrono::steady_clock::now() - begin;
  simulation model = run.model;
  model.progress = progress;
  const bool needs_path = options.critical_path || !options.svg.empty();
  auto report = simulate_schedules(*world, model, record, needs_path);
  if (report) report->generation_seconds = generation.count();
  return report;
}

int run_all(const simulate_options& options) {
  const std::vector<simulated_run> runs = runs_of(options);
  simulation_files files(options, runs.size());
  run_batch(
      runs.size(),
      [&](std::size_t i, const simulation_progress& progress) {
        return play(options, runs[i], progress, files.record());
      },
      [&](std::size_t i, const simulation_report& report) {
        files.write(runs[i], report);
        print(options, runs[i], report, files.own_stdout() ? stderr : stdout);
      });
  return 0;
}

}  // namespace

void add_simulate_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("simulate", "Time a collective on a modelled machine (LogGOPS)");
  const auto options = std::make_shared<simulate_options>();
  add_simulate_options(*command, *options);
  command->footer(
      "Several values of --ranks, --bytes or --seed are simulated in parallel, on all cores.\n"
      "Example:  lsched simulate --ranks 1048576 --bytes 1024 --skew lognormal\n"
      "          lsched show allreduce --ranks 3 --all > world.sched; lsched simulate world.sched");
  command->callback([&context, options, command] {
    check_simulate_options(*command, *options);
    context.action = [options, has_ranks = command->count("--ranks") > 0] {
      print_to(options->json);
      if (options->calibrate) return calibrate(!options->json.empty());
      return options->fig9 ? predict_fig9(*options, has_ranks) : run_all(*options);
    };
  });
}

}  // namespace lsched::cli
