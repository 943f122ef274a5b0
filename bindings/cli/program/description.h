// Descriptions of the parser's commands. Help texts, man pages and completions are made from these descriptions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace lsched::cli {

struct described_option {
  std::vector<std::string> names;    ///< "-n", "--ranks"; for a positional argument a word such as COLLECTIVE
  std::string value;                 ///< placeholder of the option's value, such as N or FILE; empty: a flag, or a
                                     ///< positional argument
  std::string text;                  ///< description, with limits and defaults
  std::vector<std::string> choices;  ///< accepted words; empty: the option accepts other values
  std::string group;                 ///< heading in the help text
  bool is_positional = false, is_required = false, is_repeated = false;

  /// Returns the long name, such as "--ranks".
  const std::string& name() const { return names.back(); }
};

/// Returns the full name of a command, such as "lsched bench coll".
std::string name_of(const CLI::App& command);

/// Returns the options that help texts show, positional arguments first.
std::vector<described_option> options_of(const CLI::App& command);

/// Returns the direct subcommands, in the order of their registration.
std::vector<const CLI::App*> commands_of(const CLI::App& command);

/// Returns the innermost command that the words name. Skips words that are not names of commands.
const CLI::App& named_command(const CLI::App& root, std::span<const std::string> words);

// --- texts ---------------------------------------------------------------------------------------------------

/// Returns the help text in lines of at most k_columns (bindings/wrapped_text.h). Footers are not wrapped.
std::string help_text(const CLI::App& command);

/// Writes pages of section 1, in the language of man(7), for the command and all its direct and indirect subcommands.
/// Throws command_failure if the pages cannot be written.
void write_man_pages(const CLI::App& command, const std::string& folder);

/// Returns the words that can replace the last of `words`. `words` do not include the name of the program `root`.
std::vector<std::string> completions(const CLI::App& root, std::span<const std::string> words);

/// Returns the completion script for a shell: bash, zsh or fish.
std::string completion_script(std::string_view shell);

}  // namespace lsched::cli
