// `lsched show`: the compiled schedule of one rank, or of all of them, also in the words of others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/words.h"
#include "libsched/simulate/goal/goal_world.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct show_options {
  std::string collective;
  std::string algorithm = "auto";
  std::int32_t ranks = 4;
  std::int32_t rank = 0;
  bool all = false;
  data_options data;
  sparse_data sparse;
  std::string activation;
  std::uint64_t seed = 1;
  bool as_dot = false;
  bool as_json = false;
  bool as_goal = false;
  goal_scenario scenario;
};

const collective& collective_of(const std::string& name) {
  if (const collective* known = find_collective(name)) return *known;
  throw command_failure(choose(name, "auto", {}, {}).error());
}

json describe(region place) { return {{"buffer", place.buffer()}, {"offset", place.offset()}}; }

json describe(const schedule& program, op_id id) {
  const op& it = program.ops()[id];
  json entry{{"id", id}, {"kind", name_of(it.kind)}, {"need", it.need}};
  if (is_communication(it.kind)) {
    entry["peer"] = it.peer;
    entry["tag"] = it.tag;
  }
  if (it.kind == op_kind::compute || it.kind == op_kind::capture) entry["what"] = name_of(it.what);
  if (it.a.exists() || it.c.exists()) {
    entry["dtype"] = name_of(it.type);
    entry["count"] = it.count;
  }
  if (it.a.exists()) entry["a"] = describe(it.a);
  if (it.b.exists()) entry["b"] = describe(it.b);
  if (it.c.exists()) entry["c"] = describe(it.c);
  if (const guard* const when = program.guard_of(it))
    entry["guard"] = {{"every", when->every}, {"skips_empty", when->skips_empty}};
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
  for (const buffer& it : program.buffers()) {
    all["buffers"].push_back({{"role", name_of(it.role)}, {"dtype", name_of(it.type)}, {"count", it.count}});
    if (it.has_lists()) all["buffers"].back()["room"] = it.lists.room;
    if (it.is_packed()) all["buffers"].back()["total"] = it.lists.total;
  }
  all["ops"] = json::array();
  for (op_id id = 0; id < program.ops().size(); ++id) all["ops"].push_back(describe(program, id));
  return all;
}

schedule_ptr compile_sparse(const show_options& options, std::int32_t rank) {
  sparse_problem problem = problem_of(options.data, options.sparse, options.ranks);
  const sparse_algorithm& how = options.algorithm == "auto" ? choose_sparse(problem) : sparse_named(options.algorithm);
  problem.place.self = rank;
  if (options.collective == k_sparse_allreduce) return require(how.generate(problem));
  return require(partial_sparse_allreduce(how, problem, activation_of(options.activation, options.seed)));
}

schedule_ptr compile(const show_options& options, std::int32_t rank) {
  const bool is_sparse = options.collective == k_sparse_allreduce || options.collective == k_partial_sparse_allreduce;
  if (is_sparse) return compile_sparse(options, rank);
  const collective& of = collective_of(options.collective);
  return require(generate(options.collective, options.algorithm, {.self = rank, .size = options.ranks},
                          shape_of(of, options.ranks, options.data),
                          activation_of(of, options.activation, options.seed)));
}

/// The whole world, whoever was asked for: the format knows no single ranks.
int show_goal(const show_options& options) {
  std::vector<schedule_ptr> world;
  for (std::int32_t rank = 0; rank < options.ranks; ++rank) world.push_back(compile(options, rank));
  const goal_export made = require(export_goal(world, options.scenario));
  std::fputs(to_goal_text(made.program, made.remark).c_str(), stdout);
  return 0;
}

int show(const show_options& options) {
  if (options.as_goal) return show_goal(options);
  const std::int32_t first = options.all ? 0 : options.rank;
  const std::int32_t end = options.all ? options.ranks : options.rank + 1;
  json list = json::array();
  for (std::int32_t rank = first; rank < end; ++rank) {
    const schedule_ptr program = compile(options, rank);
    if (options.as_json)
      list.push_back(describe(*program));
    else
      std::fputs((options.as_dot ? to_dot(*program) : to_text(*program)).c_str(), stdout);
  }
  if (options.as_json) std::printf("%s\n", (options.all ? list : list.front()).dump(2).c_str());
  return 0;
}

}  // namespace

void add_show_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("show", "Print the compiled schedule of a collective");
  const auto options = std::make_shared<show_options>();
  command->add_option("COLLECTIVE", options->collective, "A collective that `lsched list` shows")->required();
  command->add_option("--algorithm", options->algorithm, "One of its algorithms")->capture_default_str();
  command->add_option("--ranks", options->ranks, "Size of the world")
      ->check(whole_number(1, k_most_ranks))
      ->capture_default_str();
  auto* rank = command->add_option("--rank", options->rank, "Whose schedule")->check(whole_number(0, k_most_ranks));
  rank->capture_default_str();
  command->add_flag("--all", options->all, "Every rank's")->excludes(rank);
  add_data_options(*command, options->data);
  add_sparse_options(*command, options->sparse);
  command->add_option("--activation", options->activation, "Policy of a partial collective (default: solo)")
      ->check(activation_words());
  command->add_option("--seed", options->seed, "Seed of the policies that draw")
      ->check(whole_number(0))
      ->capture_default_str();
  auto* dot = command->add_flag("--dot", options->as_dot, "Print Graphviz instead of the text form");
  auto* json = command->add_flag("--json", options->as_json, "Print a JSON object; with --all, an array of them");
  auto* goal = command->add_flag("--goal", options->as_goal, "Print one round of all ranks as GOAL text (LogGOPSim)");
  json->excludes(dot);
  goal->excludes(dot)->excludes(json)->excludes(rank);
  command->add_option("--initiator", options->scenario.initiator, "GOAL: whose call starts the round of policy solo")
      ->check(whole_number(0, k_most_ranks))
      ->capture_default_str();
  command->add_option("--ns-per-byte", options->scenario.ns_per_byte, "GOAL: time of a compute for each byte it writes")
      ->check(number(1e-6, 1e6))
      ->capture_default_str();
  command->footer("Example:  lsched show allreduce --ranks 6 --rank 0 --count 1000 --dot | dot -Tsvg > allreduce.svg");
  command->callback([&context, options] { context.action = [options] { return show(*options); }; });
}

}  // namespace lsched::cli
