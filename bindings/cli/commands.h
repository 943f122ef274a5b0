// What the subcommands of `lsched` share: how they are registered, and how they fail.
//
// A subcommand adds its options to the parser and leaves an action behind; main() runs the action of the one
// that was named. Usage errors are the parser's exceptions (exit status 2). An action answers with the exit
// status, or throws command_failure: one line on standard error, exit status 1.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"
#include "ops/status.h"

namespace lsched::cli {

/// What main() and the subcommands tell each other.
struct command_context {
  std::vector<std::string> arguments;  ///< of this process, its own name first; used to start it again as ranks
  std::vector<std::string> program;    ///< of `run`: the words from PROGRAM on, which are not ours to parse
  std::function<int()> action;         ///< set by the subcommand that was named; answers the exit status
};

/// Why a command could not be carried out. what() is the line a person reads, without the leading "lsched: ".
class command_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// "LSCHED_ERR_PEER: rank 3 …"
  command_failure(lsched_status code, std::string_view detail);
  explicit command_failure(const failure& why);
};

/// Throws unless `code` is LSCHED_OK; the detail comes from `diagnostic` if the call filled it in.
void require(lsched_status code, std::string_view call, const lsched_diagnostic* diagnostic = nullptr);

/// The value, or a command_failure.
template <class T>
T require(result<T> outcome) {
  if (!outcome) throw command_failure(outcome.error());
  return std::move(*outcome);
}

void add_bench_command(CLI::App& app, command_context& context);
void add_info_command(CLI::App& app, command_context& context);
void add_list_command(CLI::App& app, command_context& context);
void add_run_command(CLI::App& app, command_context& context);
void add_show_command(CLI::App& app, command_context& context);
void add_simulate_command(CLI::App& app, command_context& context);
void add_soak_command(CLI::App& app, command_context& context);
void add_verify_command(CLI::App& app, command_context& context);
void add_trace_command(CLI::App& app, command_context& context);

/// Where PROGRAM begins in the words of a `run` command line; arguments.size() if it names none.
std::size_t find_program(const std::vector<std::string>& arguments);

}  // namespace lsched::cli
