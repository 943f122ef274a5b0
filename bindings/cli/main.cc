// The program `lsched`.
#include "bindings/cli/program/program.h"
#include "bindings/cli/program/tools.h"
#include "bindings/selection_environment.h"
#include "collectives/baselines/linear_adasum.h"
#include "collectives/baselines/sparse_baselines.h"

namespace lsched::cli {
namespace {

void add_commands(CLI::App& app, command_context& context) {
  add_sparse_baselines();
  add_linear_adasum();
  context.flaws_of_files = load_algorithm_files();  // must precede commands that list the names of algorithms
  add_info_command(app, context);
  add_doctor_command(app, context);
  add_list_command(app, context);
  add_show_command(app, context);
  add_run_command(app, context);
  add_postmortem_command(app, context);
  add_simulate_command(app, context);
  add_trace_command(app, context);
  add_help_command(app, context);
  add_completion_command(app, context);
  add_verify_command(app, context);
  add_tools(app);
}

}  // namespace
}  // namespace lsched::cli

int main(int argc, char** argv) {
  using namespace lsched::cli;
  become_tool(argv);
  return run_program(
      {.name = "lsched",
       .summary = "Collective communication as schedules: run ranks, look at schedules, check a machine.",
       .footer = "Example:  lsched run -n 4 ./my_program\n"
                 "`lsched COMMAND --help` explains a command. docs/index.md lists all pages.\n"
                 "Exit status: 0 done, 1 failed, 2 usage error. `lsched run --help` lists further values.",
       .add_commands = add_commands,
       .find_program = find_program},
      {argv, argv + argc});
}
