// A program with subcommands. run_program() parses the words of the command line, runs one command, prints errors and
// returns the exit status.
//
// The exit status is 0 for success, 1 for a failure, and 2 for a usage error. A command that fails prints one line to
// standard error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"

namespace lsched::cli {

/// A program and the function that registers its commands.
struct program {
  std::string name;  ///< name as users type it, such as "lsched bench"
  std::string summary;
  std::string footer;
  void (*add_commands)(CLI::App&, command_context&);
  /// Returns the index of the first word of the program that the command starts. Returns the number of words if the
  /// command starts no program. The parser sees only the words before this index. If the pointer is null, the parser
  /// sees all words.
  std::size_t (*find_program)(const std::vector<std::string>&) = nullptr;
};

/// Runs the command that `words` name. The first word is the name of the program. Returns the exit status of the
/// process.
int run_program(const program& self, std::vector<std::string> words);

}  // namespace lsched::cli
