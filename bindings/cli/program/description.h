// A description of the command line as a value. Help texts, man pages and completions are made from this description.
#pragma once

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

  bool takes_file() const { return value == "FILE"; }
  /// Returns the long name, such as "--ranks".
  const std::string& name() const { return names.back(); }
};

struct described_command {
  std::string name;  ///< "lsched bench coll"
  std::string text;
  std::string footer;  ///< text below the options, printed without wrapping
  std::vector<described_option> options;
  std::vector<described_command> commands;

  /// Returns the last word of the name.
  std::string word() const { return name.substr(name.rfind(' ') + 1); }
};

/// Describes a command and its subcommands. `name` is the full name of the command.
described_command describe_command(const CLI::App& app, const std::string& name = "lsched");

/// Converts a description to JSON and back. from_json throws nlohmann::json::exception for any other text.
std::string to_json(const described_command& command);
described_command from_json(const std::string& text);

/// Returns the command and all its direct and indirect subcommands. Each command precedes its subcommands.
std::vector<const described_command*> all_commands(const described_command& root);

// --- texts ---------------------------------------------------------------------------------------------------

/// Returns the help text in lines of at most k_columns (bindings/wrapped_text.h). Footers are not wrapped.
std::string help_text(const described_command& command);

/// Returns a page of section 1 in the language of man(7).
std::string man_page(const described_command& command, const std::string& version);

/// Returns the completion script for a shell: bash, zsh or fish.
std::string completion(const described_command& root, std::string_view shell);

}  // namespace lsched::cli
