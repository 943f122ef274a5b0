// Registration of the subcommands of `lsched`, and the state that they share with run_program().
//
// A subcommand adds its options to the parser. If the command line contains the subcommand, the parser calls the
// subcommand's callback. The callback sets an action, which run_program() then runs (program/program.h). The parser
// throws usage errors (exit status 2). The action returns the exit status, or throws command_failure (errors.h). Only
// files that add options should include the parser's header, because that header compiles slowly.
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

/// State that run_program() and the subcommands share.
struct command_context {
  std::vector<std::string> arguments;     ///< arguments of this process, its name first; session::relaunch() reuses the
                                          ///< arguments
  std::vector<std::string> program;       ///< `lsched run`: PROGRAM and its arguments; the parser does not see these
                                          ///< words
  std::function<int()> action;            ///< function that the subcommand sets and run_program() runs; returns the
                                          ///< exit status
  std::vector<failure> flaws_of_files{};  ///< errors in the files of LSCHED_ALGORITHM_FILES
};

void add_completion_command(CLI::App& app, command_context& context);
void add_doctor_command(CLI::App& app, command_context& context);
void add_help_command(CLI::App& app, command_context& context);
void add_info_command(CLI::App& app, command_context& context);
void add_list_command(CLI::App& app, command_context& context);
void add_postmortem_command(CLI::App& app, command_context& context);
void add_run_command(CLI::App& app, command_context& context);
void add_show_command(CLI::App& app, command_context& context);
void add_simulate_command(CLI::App& app, command_context& context);
void add_verify_command(CLI::App& app, command_context& context);
void add_trace_command(CLI::App& app, command_context& context);

/// Returns the index of PROGRAM in the words of a `run` command line, or arguments.size() if there is no program.
std::size_t find_program(const std::vector<std::string>& arguments);

}  // namespace lsched::cli
