// Completion scripts for shells.
#include <algorithm>

#include "bindings/cli/program/description.h"

namespace lsched::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// Returns the words that can come next in a command: subcommands, options and values of arguments.
std::vector<std::string> words_of(const described_command& command) {
  std::vector<std::string> words;
  for (const described_command& each : command.commands) words.push_back(each.word());
  for (const described_option& option : command.options) {
    const auto& listed = option.is_positional ? option.choices : option.names;
    words.insert(words.end(), listed.begin(), listed.end());
  }
  return words;
}

bool takes_files(const described_command& command) {
  return std::ranges::any_of(command.options, [](const described_option& option) {
    return option.is_positional &&
           (option.name().ends_with("FILE") || option.name() == "SOURCE" || option.name() == "PROGRAM");
  });
}

/// The parts of a script for bash or zsh. `offer_words` is the command that offers words, which replace the % in it.
/// `offer_files` is the command that offers files.
struct dialect {
  const char *head, *before, *current, *offer_words, *offer_files, *tail;
};

constexpr dialect k_bash{
    "# bash completion of lsched; written by `lsched completion bash`\n_lsched() {\n"
    "  local command=lsched i word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "  for ((i = 1; i < COMP_CWORD; ++i)); do\n    case \"$command ${COMP_WORDS[i]}\" in\n",
    "$command $before",
    "$word",
    "COMPREPLY=($(compgen -W '%' -- \"$word\"))",
    "COMPREPLY+=($(compgen -f -- \"$word\"))",
    "}\ncomplete -o filenames -F _lsched lsched\n"};
constexpr dialect k_zsh{
    "#compdef lsched\n# zsh completion of lsched; written by `lsched completion zsh`\n_lsched() {\n"
    "  local command=lsched i before=${words[CURRENT-1]}\n"
    "  for ((i = 2; i < CURRENT; ++i)); do\n    case \"$command ${words[i]}\" in\n",
    "$command $before",
    "",
    "compadd -- %",
    "_files",
    "}\n_lsched \"$@\"\n"};

std::string replaced(std::string text, const std::string& words) {
  const std::size_t place = text.find('%');
  return text.replace(place, 1, words);
}

std::string in_dialect(const described_command& root, const dialect& shell) {
  const auto commands = all_commands(root);
  std::string text = shell.head;
  for (const described_command* each : commands)
    if (each != &root) text += "      \"" + each->name + "\") command=\"" + each->name + "\" ;;\n";
  for (const described_command& each : root.commands)  // after `help`, the words are those of other commands
    text += "      \"" + root.name + " help " + each.word() + "\") command=\"" + each.name + "\" ;;\n";
  text += "    esac\n  done\n  case \"" + std::string(shell.before) + "\" in\n";
  for (const described_command* each : commands)
    for (const described_option& option : each->options)
      for (const std::string& name : option.names) {
        if (option.is_positional || option.value.empty()) continue;
        text += "    \"" + each->name + " " + name + "\") ";
        if (!option.choices.empty()) text += replaced(shell.offer_words, joined(option.choices)) + "; ";
        if (option.takes_file()) text += std::string(shell.offer_files) + "; ";
        text += "return ;;\n";
      }
  text += "  esac\n  case \"$command\" in\n";
  for (const described_command* each : commands) {
    text += "    \"" + each->name + "\") " + replaced(shell.offer_words, joined(words_of(*each)));
    text += (takes_files(*each) ? "; " + std::string(shell.offer_files) : "") + " ;;\n";
  }
  return text + "  esac\n" + shell.tail;
}

std::string quoted_for_fish(const std::string& text) {
  std::string made = "'";
  for (const char letter : text)
    made += letter == '\'' || letter == '\\' ? "\\" + std::string(1, letter) : std::string(1, letter);
  return made + "'";
}

std::string in_fish(const described_command& root) {
  std::string text = "# fish completion of lsched; written by `lsched completion fish`\n";
  for (const described_command* each : all_commands(root)) {
    std::string condition;
    std::string words = each->name.substr(std::min(each->name.size(), root.name.size() + 1));
    if (words.empty()) condition = "__fish_use_subcommand";
    for (std::size_t end = 0; !words.empty(); words.erase(0, end == words.npos ? end : end + 1)) {
      end = words.find(' ');
      condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + words.substr(0, end));
    }
    const std::string line = "complete -c lsched -n " + quoted_for_fish(condition);
    for (const described_command& below : each->commands)
      text += line + " -f -a " + below.word() + " -d " + quoted_for_fish(below.text) + "\n";
    for (const described_option& option : each->options) {
      if (option.is_positional && !option.choices.empty())
        text += line + (takes_files(*each) ? "" : " -f") + " -a " + quoted_for_fish(joined(option.choices)) + "\n";
      if (option.is_positional) continue;
      text += line;
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) text += option.takes_file() ? " -r -F" : " -x";
      if (!option.choices.empty()) text += " -a " + quoted_for_fish(joined(option.choices));
      text += " -d " + quoted_for_fish(option.text) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string completion(const described_command& root, std::string_view shell) {
  if (shell == "fish") return in_fish(root);
  return in_dialect(root, shell == "zsh" ? k_zsh : k_bash);
}

}  // namespace lsched::cli
