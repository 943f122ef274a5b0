// What the command line is, as a value: from it come help texts, man pages, completions and the table of all options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace lsched::cli {

struct described_option {
  std::vector<std::string> names;    ///< "-n", "--ranks"; of a positional argument its word, COLLECTIVE
  std::string value;                 ///< what stands for its value, as N or FILE; empty: a flag
  std::string text;                  ///< what it does, with limits and defaults
  std::vector<std::string> choices;  ///< the words that it takes; empty: others
  std::string group;                 ///< its heading
  bool is_positional = false, is_required = false, is_repeated = false;

  bool takes_file() const { return value == "FILE"; }
  /// The name that others speak of: "--ranks".
  const std::string& name() const { return names.back(); }
};

struct described_command {
  std::string name;  ///< "lsched bench coll"
  std::string text;
  std::string footer;  ///< lines
  std::vector<described_option> options;
  std::vector<described_command> commands;

  /// The last word of its name.
  std::string word() const { return name.substr(name.rfind(' ') + 1); }
};

/// `name`: of the command itself.
described_command describe_command(const CLI::App& app, const std::string& name = "lsched");

/// The command and all below it, each before its own.
std::vector<const described_command*> all_commands(const described_command& root);

// --- texts ---------------------------------------------------------------------------------------------------

/// In lines of at most k_columns (bindings/wrapped_text.h), but for footers, which are as their command has them.
std::string help_text(const described_command& command);

/// Section 1, in the language of man(7).
std::string man_page(const described_command& command, const std::string& version);

/// `shell`: bash, zsh or fish.
std::string completion(const described_command& root, std::string_view shell);

/// Markdown: every option by its name with its one meaning, then every command with its options.
std::string options_page(const described_command& root);

/// What is wrong with the names of options: one that has no meaning in the vocabulary, two names for one meaning, a
/// word of the vocabulary that no command has. Empty if nothing is.
std::vector<std::string> flaws_of_names(const described_command& root);

/// The one meaning that an option name has in every command.
struct option_meaning {
  std::string_view name, meaning;
};
std::vector<std::string> flaws_of_names(const described_command& root, const std::vector<option_meaning>& vocabulary);
const std::vector<option_meaning>& vocabulary();

}  // namespace lsched::cli
