// A program with a command line: reads the words, runs one command, prints errors and returns the exit status.
//
//   0  done        1  failed: one line on standard error        2  usage error
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"

namespace lsched::cli {

/// A program and the function that registers its commands.
struct program {
  std::string name;  ///< as users type it, such as "lsched bench"
  std::string summary;
  std::string footer;
  void (*add_commands)(CLI::App&, command_context&);
  /// Returns the index of the first word that belongs to a program to run, or the number of words. Null: all words are
  /// for the parser.
  std::size_t (*find_program)(const std::vector<std::string>&) = nullptr;
};

/// Runs the command that the words name, of which the first is the name of the program. Returns the exit status of the
/// process.
int run_program(const program& self, std::vector<std::string> words);

}  // namespace lsched::cli
