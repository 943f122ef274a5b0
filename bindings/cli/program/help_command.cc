// `lsched help` and `lsched completion`: descriptions of the command line for people, man and shells.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/output_file.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/program/description.h"
#include "bindings/cli/program/tools.h"
#include "ops/nearest_word.h"

namespace lsched::cli {
namespace {

struct help_options {
  std::vector<std::string> words;
  std::string man;
  std::string shell;
};

int write_man_pages(const described_command& root, const std::string& folder) {
  std::error_code why;
  std::filesystem::create_directories(folder, why);
  if (why) throw command_failure(LSCHED_ERR_ARGUMENT, folder + ": cannot be created: " + why.message());
  for (const described_command* command : all_commands(root)) {
    std::string name = command->name;
    std::ranges::replace(name, ' ', '-');
    output_file(folder + "/" + name + ".1").write(man_page(*command, lsched_version()));
  }
  return 0;
}

int help(const CLI::App& app, const help_options& options) {
  const described_command root = with_tools(describe_command(app));
  if (!options.man.empty()) return write_man_pages(root, options.man);
  const described_command* command = &root;
  for (const std::string& word : options.words) {
    const auto next = std::ranges::find(command->commands, word, &described_command::word);
    if (next == command->commands.end()) {
      std::vector<std::string> known;
      for (const described_command& each : command->commands) known.push_back(each.word());
      throw CLI::ParseError("there is no command \"" + command->name + " " + word + "\"" + suggestion_for(word, known),
                            CLI::ExitCodes::ExtrasError);
    }
    command = &*next;
  }
  std::fputs(help_text(*command).c_str(), stdout);
  return 0;
}

/// Returns the names of the algorithms of all collectives, without repetitions.
std::vector<std::string> all_algorithm_names() {
  std::vector<std::string> names;
  for (const std::string& collective : listed_collectives())
    for (std::string& name : algorithm_names(collective)) names.push_back(std::move(name));
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

/// Adds the possible values of arguments to the description, for completion scripts: names of collectives and
/// algorithms, and for `help` the names of commands.
described_command with_choices(described_command root) {
  for (described_command& command : root.commands)
    for (described_option& option : command.options) {
      if (option.is_positional && option.name().starts_with("COLLECTIVE")) option.choices = listed_collectives();
      if (option.name() == "--algorithm" && option.choices.empty()) option.choices = all_algorithm_names();
      if (option.is_positional && option.name() == "COMMAND")
        for (const described_command& each : root.commands) option.choices.push_back(each.word());
    }
  return root;
}

}  // namespace

void add_help_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("help", "Explain a command, or write man pages");
  const auto options = std::make_shared<help_options>();
  const option_group group{*command};
  auto* words = group.add("COMMAND", options->words, "Command to explain, such as bench coll")->type_name("");
  auto* man = group.add("--man", options->man, "Write man pages of all commands to this folder")->type_name("FOLDER");
  man->excludes(words);
  command->footer("Example:  lsched help bench coll\n          lsched help --man ~/.local/share/man/man1");
  command->callback([&app, &context, options] { context.action = [&app, options] { return help(app, *options); }; });
}

void add_completion_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script of lsched for a shell");
  const auto options = std::make_shared<help_options>();
  option_group{*command}
      .add("SHELL", options->shell, "Shell of the script")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->footer(
      "Example:  lsched completion bash > ~/.local/share/bash-completion/completions/lsched\n"
      "          lsched completion zsh > ~/.zfunc/_lsched      # with ~/.zfunc in $fpath before compinit\n"
      "          lsched completion fish > ~/.config/fish/completions/lsched.fish");
  command->callback([&app, &context, options] {
    context.action = [&app, options] {
      std::fputs(completion(with_choices(with_tools(describe_command(app))), options->shell).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace lsched::cli
