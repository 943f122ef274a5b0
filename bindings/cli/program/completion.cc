// Completion of command lines. The script of a shell runs `lsched --complete WORD...`, which prints the words that can
// replace the last word. If no word is printed, the shell offers files.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "bindings/cli/common/words.h"
#include "bindings/cli/program/description.h"

namespace lsched::cli {
namespace {

/// Returns the names of the algorithms of all collectives, without repetitions.
std::vector<std::string> all_algorithm_names() {
  std::vector<std::string> names;
  for (const std::string& collective : listed_collectives())
    for (std::string& name : algorithm_names(collective)) names.push_back(std::move(name));
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::vector<std::string> values_of(const described_option& option) {
  if (option.is_positional && option.name().starts_with("COLLECTIVE")) return listed_collectives();
  if (option.name() == "--algorithm" && option.choices.empty()) return all_algorithm_names();
  return option.choices;
}

}  // namespace

std::vector<std::string> completions(const CLI::App& root, std::span<const std::string> words) {
  if (words.size() > 1 && words.front() == "help") words = words.subspan(1);
  const CLI::App& command = named_command(root, words.first(words.size() - 1));
  std::vector<std::string> possible;
  for (const CLI::App* below : commands_of(command)) possible.push_back(below->get_name());
  for (const described_option& option : options_of(command)) {
    const std::vector<std::string> values = values_of(option);
    if (!option.value.empty() && words.size() > 1 && std::ranges::count(option.names, words[words.size() - 2]) > 0) {
      possible = values;
      break;
    }
    const std::vector<std::string>& more = option.is_positional ? values : option.names;
    possible.insert(possible.end(), more.begin(), more.end());
  }
  std::erase_if(possible, [&](const std::string& word) { return !word.starts_with(words.back()); });
  return possible;
}

std::string completion_script(std::string_view shell) {
  if (shell == "zsh")
    return R"sh(#compdef lsched
_lsched() {
  local -a found=(${(f)"$(lsched --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -a found || _files
}
_lsched "$@"
)sh";
  if (shell == "fish")
    return "complete -c lsched -a '(lsched --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'\n";
  return R"sh(_lsched() {
  local IFS=$'\n'
  COMPREPLY=($("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _lsched lsched
)sh";
}

}  // namespace lsched::cli
