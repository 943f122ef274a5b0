// `lsched help` and `lsched completion`. The program turns `lsched help COMMAND` into `lsched COMMAND --help`
// (program.cc). So the command in this file handles only `lsched help --man`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/program/description.h"
#include "bindings/cli/program/tools.h"

namespace lsched::cli {

void add_help_command(CLI::App& app, command_context& context) {
  struct help_options {
    std::vector<std::string> words;
    std::string folder;
  };
  CLI::App* command = app.add_subcommand("help", "Explain a command, or write man pages");
  const auto options = std::make_shared<help_options>();
  const option_group group{*command};
  auto* words = group.add("COMMAND", options->words, "Command to explain, such as bench coll")->type_name("");
  auto* man =
      group.add("--man", options->folder, "Write man pages of all commands to this folder")->type_name("FOLDER");
  man->excludes(words);
  command->footer("Example:  lsched help bench coll\n          lsched help --man ~/.local/share/man/man1");
  command->callback([&app, &context, options] {
    if (options->folder.empty()) return;
    context.action = [&app, options] {
      write_man_pages(app, options->folder);
      return run_tools("--man", options->folder) ? 0 : 1;
    };
  });
}

void add_completion_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script of lsched for a shell");
  const auto shell = std::make_shared<std::string>();
  option_group{*command}
      .add("SHELL", *shell, "Shell of the script")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->footer(
      "Example:  lsched completion bash > ~/.local/share/bash-completion/completions/lsched\n"
      "          lsched completion zsh > ~/.zfunc/_lsched      # with ~/.zfunc in $fpath before compinit\n"
      "          lsched completion fish > ~/.config/fish/completions/lsched.fish");
  command->callback([&context, shell] {
    context.action = [shell] {
      std::fputs(completion_script(*shell).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace lsched::cli
