// `lsched show`: prints the compiled schedule of one rank or of all ranks, also in other formats.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/given_file.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/printed_to.h"
#include "bindings/cli/draw.h"
#include "bindings/cli/goal/goal.h"
#include "collectives/requests/sample_requests.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct show_options {
  std::vector<schedule_ptr> given{};  ///< schedules from a file; if empty, schedules are generated
  std::string collective;
  std::string algorithm = "auto";
  request_options request{.ranks = 4};
  rank self = 0;
  bool all = false;
  std::uint64_t seed = 1;
  std::string dot, json, goal, svg, algorithm_file;  ///< paths of output files
  goal_scenario scenario;
};

json describe(region place) { return {{"buffer", place.buffer()}, {"offset", place.offset()}}; }

json describe(const schedule& program, op_id id) {
  const op& o = program.ops()[id];
  json entry{{"id", id}, {"kind", name_of(o.kind)}, {"need", o.need}};
  if (program.line_of(id) != 0) entry["line"] = program.line_of(id);
  if (is_communication(o.kind)) {
    entry["peer"] = o.peer;
    entry["tag"] = o.tag;
  }
  if (o.kind == op_kind::compute || o.kind == op_kind::capture) entry["what"] = name_of(o.what);
  if (o.a.exists() || o.c.exists()) {
    entry["dtype"] = name_of(o.type);
    entry["count"] = o.count;
  }
  if (o.a.exists()) entry["a"] = describe(o.a);
  if (o.b.exists()) entry["b"] = describe(o.b);
  if (o.c.exists()) entry["c"] = describe(o.c);
  if (const guard* const when = program.guard_of(o))
    entry["guard"] = {{"every", when->every}, {"phase", when->phase}, {"skips_empty", when->skips_empty}};
  entry["then"] = program.successors(id);
  return entry;
}

json describe(const schedule& program) {
  json all{{"name", program.name()},
           {"rank", program.place().self},
           {"ranks", program.place().size},
           {"synchronising", program.is_synchronising()},
           {"activation", words_for(program.starts())},
           {"seed", program.starts().seed},
           {"exit", program.exit()}};
  all["buffers"] = json::array();
  for (const buffer& each : program.buffers()) {
    all["buffers"].push_back({{"role", name_of(each.role)}, {"dtype", name_of(each.type)}, {"count", each.count}});
    if (each.has_lists()) all["buffers"].back()["room"] = each.lists.room;
    if (each.is_packed()) all["buffers"].back()["total"] = each.lists.total;
  }
  all["ops"] = json::array();
  for (op_id id = 0; id < program.ops().size(); ++id) all["ops"].push_back(describe(program, id));
  return all;
}

schedule_ptr compile_sparse(const show_options& options, rank self) {
  sparse_problem problem = problem_of(options.request);
  const sparse_algorithm& how = options.algorithm == "auto" ? choose_sparse(problem) : *find_sparse(options.algorithm);
  problem.place.self = self;
  if (options.collective == k_sparse_allreduce) return require(how.generate(problem));
  return require(partial_sparse_allreduce(how, problem, activation_of(options.request.activation, options.seed)));
}

schedule_ptr compile(const show_options& options, rank self) {
  if (!options.given.empty()) return options.given.at(static_cast<std::size_t>(self));
  if (is_sparse(options.collective)) return compile_sparse(options, self);
  const collective* const of = find_collective(options.collective);
  const request_options& request = options.request;
  const bool is_partial = of->activates || !request.activation.empty();
  return require(
      generate(options.collective, options.algorithm, {.self = self, .size = request.ranks}, shape_of(*of, request),
               is_partial ? activation_of(request.activation, options.seed) : activation{.seed = options.seed}));
}

std::vector<schedule_ptr> compile_world(const show_options& options) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < options.request.ranks; ++self) world.push_back(compile(options, self));
  return world;
}

/// Writes the schedules of all ranks, because the format does not support single ranks.
int show_goal(const show_options& options) {
  const std::vector<schedule_ptr> world = compile_world(options);
  const goal_export made = require(export_goal(world, options.scenario));
  print_to(options.goal);
  std::fputs(to_goal_text(made.program, made.description).c_str(), stdout);
  return 0;
}

/// Writes the text of an algorithm file. An MSCCL program is converted into an algorithm file.
int show_algorithm_file(const show_options& options) {
  const std::string text = algorithm_text_of(options.collective);  // first, because the output may be the same file
  print_to(options.algorithm_file);
  std::fputs(text.c_str(), stdout);
  return 0;
}

/// If the user has given a file instead of a collective, reads the file: an algorithm, schedules or a GOAL program.
void take_file(const CLI::App& command, show_options& options) {
  if (!is_path(options.collective)) return;
  const std::string path = options.collective;
  given_file given = read_given(path);
  if (given.is_algorithm())
    refuse_given(command, {"--algorithm"}, k_own_of_algorithm);
  else
    refuse_given(command,
                 {"--algorithm", "--ranks", "--count", "--dtype", "--op", "--mean", "--root", "--ranks-per-node",
                  "--tensors", "--k", "--activation", "--seed"},
                 k_own_of_schedules);
  options.collective = given.collective;
  options.algorithm = given.algorithm;
  if (given.program && !is_given(command, "--compute")) options.scenario.ns_per_byte = 1;  // as schedules_of() assumes
  options.given = schedules_of(std::move(given), path);
  if (!is_given(command, "--ranks"))
    options.request.ranks = usual_ranks(options.collective, options.algorithm, options.request.ranks);
  if (!is_given(command, "--count"))
    options.request.what.count =
        usual_count(options.collective, options.algorithm, options.request.ranks, options.request.what.count);
  if (!options.given.empty()) options.request.ranks = options.given.front()->place().size;
}

int show(const show_options& options) {
  if (options.self >= options.request.ranks)
    throw CLI::ValidationError("--rank", "rank " + std::to_string(options.self) + " does not exist in a world of " +
                                             counted(options.request.ranks, "rank"));
  if (options.scenario.initiator >= options.request.ranks)
    throw CLI::ValidationError("--initiator", "rank " + std::to_string(options.scenario.initiator) +
                                                  " does not exist in a world of " +
                                                  counted(options.request.ranks, "rank"));
  if (!options.goal.empty()) return show_goal(options);
  if (!options.svg.empty()) return draw_schedules(compile_world(options), options.scenario.initiator, options.svg);
  const rank first = options.all ? 0 : options.self;
  const rank end = options.all ? options.request.ranks : options.self + 1;
  json list = json::array();
  for (rank self = first; self < end; ++self) {
    const schedule_ptr program = compile(options, self);
    for (const std::string* file : {&options.json, &options.dot})
      if (self == first) print_to(*file);  // after compile(), so that a failure leaves the file unchanged
    if (!options.json.empty())
      list.push_back(describe(*program));
    else
      std::fputs((!options.dot.empty() ? to_dot(*program) : to_text(*program)).c_str(), stdout);
  }
  if (!options.json.empty()) std::printf("%s\n", json_text(options.all ? list : list.front(), 2).c_str());
  return 0;
}

}  // namespace

void add_show_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("show", "Print the compiled schedule of a collective");
  const auto options = std::make_shared<show_options>();
  const option_group group{*command};
  group.add("COLLECTIVE|FILE", options->collective, k_collective_or_file)->required()->check(any_word());
  group.add("--algorithm", options->algorithm, "Algorithm of the collective")->capture_default_str();
  add_request_options(*command, options->request);
  const CLI::Validator any_rank = whole_number(0, k_most_ranks);
  auto* self = group.add("--rank", options->self, "Rank whose schedule is printed", any_rank);
  group.add_flag("--all", options->all, "Print the schedules of all ranks")->excludes(self);
  group.add("--seed", options->seed, "Seed of policies with random choices", whole_number(0));
  auto* dot = group.add_file("--dot", options->dot, "Write Graphviz instead of the text form");
  auto* json = group.add_json(options->json, "one object; with --all, an array of them");
  auto* goal = group.add_file("--goal", options->goal, "Write one round of all ranks as GOAL text (LogGOPSim)");
  group.add_file("--algorithm-file", options->algorithm_file,
                 "Convert an MSCCL program into an algorithm file; no other option is allowed");
  json->excludes(dot);
  goal->excludes(dot)->excludes(json)->excludes(self);
  group.add_file("--svg", options->svg, "Draw the schedules of all ranks, in steps, as SVG")
      ->excludes(dot)
      ->excludes(json)
      ->excludes(goal)
      ->excludes(self);
  group.add("--initiator", options->scenario.initiator, "Rank whose call starts the round, for --goal and --svg",
            any_rank);
  group.add("--compute", options->scenario.ns_per_byte, "Time of a reduction or copy in ns per byte, for --goal",
            number(1e-6, 1e6));
  command->footer(
      "Example:  lsched show allreduce --ranks 6 --rank 0 --count 1000 --dot - | dot -Tsvg > allreduce.svg");
  command->callback([&context, options, command] {
    if (is_given(*command, "--algorithm-file")) {
      expect_only(*command, "--algorithm-file", {"COLLECTIVE|FILE"});
      if (!is_path(options->collective))
        throw CLI::ValidationError("--algorithm-file",
                                   "takes a file, but \"" + options->collective + "\" is not a path");
      context.action = [options] { return show_algorithm_file(*options); };
      return;
    }
    if (!is_path(options->collective)) expect_listed(options->collective, options->algorithm);
    context.action = [options, command] {
      take_file(*command, *options);
      expect_in_world(options->collective, options->request.activation, options->request.what.root,
                      options->request.ranks);
      return show(*options);
    };
  });
}

}  // namespace lsched::cli
