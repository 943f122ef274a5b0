// What the subcommands of `lsched` share: how they are registered, and how they fail.
//
// A subcommand adds its options to the parser and leaves an action behind; main() runs the action of the one
// that was named. Usage errors are the parser's exceptions (exit status 2). An action answers with the exit
// status, or throws command_failure (errors.h). The parser's own header takes long to compile: only files that add
// options include it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ops/status.h"

namespace CLI {
class App;
}

namespace lsched::cli {

/// What main() and the subcommands tell each other.
struct command_context {
  std::vector<std::string> arguments;     ///< of this process, its own name first; used to start it again as ranks
  std::vector<std::string> program;       ///< of `run`: the words from PROGRAM on, which are not ours to parse
  std::function<int()> action;            ///< set by the subcommand that was named; answers the exit status
  std::vector<failure> flaws_of_files{};  ///< of LSCHED_ALGORITHM_FILES
};

/// Algorithms that are no part of the library become known by name.
void add_baselines();
void add_bench_command(CLI::App& app, command_context& context);
void add_completion_command(CLI::App& app, command_context& context);
void add_doctor_command(CLI::App& app, command_context& context);
void add_help_command(CLI::App& app, command_context& context);
void add_info_command(CLI::App& app, command_context& context);
void add_list_command(CLI::App& app, command_context& context);
void add_postmortem_command(CLI::App& app, command_context& context);
void add_run_command(CLI::App& app, command_context& context);
void add_show_command(CLI::App& app, command_context& context);
void add_simulate_command(CLI::App& app, command_context& context);
void add_soak_command(CLI::App& app, command_context& context);
void add_verify_command(CLI::App& app, command_context& context);
void add_trace_command(CLI::App& app, command_context& context);

/// Where PROGRAM begins in the words of a `run` command line; arguments.size() if it names none.
std::size_t find_program(const std::vector<std::string>& arguments);

}  // namespace lsched::cli
