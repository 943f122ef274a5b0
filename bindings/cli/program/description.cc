#include "bindings/cli/program/description.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace lsched::cli {
namespace {

/// The parts of a type such as "TEXT:{a,b}" or "INT:from 1 to 9".
struct type_words {
  std::string value, limits;
  std::vector<std::string> choices;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) letter == separator ? void(parts.emplace_back()) : parts.back().push_back(letter);
  return parts;
}

type_words read_type(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  type_words read{.value = type.substr(0, colon), .limits = colon == type.npos ? "" : type.substr(colon + 1)};
  if (read.limits.starts_with('{') && read.limits.ends_with('}')) {
    read.choices = split(read.limits.substr(1, read.limits.size() - 2), ',');
    read.limits = "one of " + read.limits.substr(1, read.limits.size() - 2);
    for (std::size_t comma = 0; (comma = read.limits.find(',', comma)) != read.limits.npos; comma += 2)
      read.limits.replace(comma, 1, ", ");
  }
  if (read.limits == "BYTES" || read.limits == "LIST") read.value = std::exchange(read.limits, "");
  if (read.value == "INT" || read.value == "UINT") read.value = "N";
  if (read.value == "FLOAT") read.value = "X";
  if (read.value == "TEXT") read.value = "WORD";
  return read;
}

std::string without_brackets(std::string text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  return text;
}

/// Returns the text of an option, followed by its properties: "(from 1 to 9; default 4; not with --all)".
std::string words_of(const CLI::Option& option, const type_words& type) {
  std::string more;
  const auto add = [&](const std::string& words) { more += (more.empty() ? "" : "; ") + words; };
  if (!type.limits.empty()) add(type.limits);
  if (const std::string value = without_brackets(option.get_default_str()); !value.empty()) add("default " + value);
  if (option.get_required()) add("required");
  const auto add_names = [&](const char* relation, const auto& others) {
    std::vector<std::string> names;  // sorted, because the order of the parser's set depends on addresses
    for (const CLI::Option* other : others) names.push_back(other->get_name());
    std::ranges::sort(names);
    std::string listed;
    for (const std::string& name : names) listed += (listed.empty() ? "" : ", ") + name;
    if (!listed.empty()) add(relation + listed);
  };
  add_names("only with ", option.get_needs());
  add_names("not with ", option.get_excludes());
  const std::string text = option.get_description();
  return more.empty() ? text : text + (text.empty() ? "(" : " (") + more + ")";
}

described_option describe(const CLI::Option& option) {
  const type_words type = read_type(option);
  described_option made{.text = words_of(option, type), .choices = type.choices, .group = option.get_group()};
  for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  made.is_positional = made.names.empty();
  if (made.is_positional) made.names.push_back(option.get_name());
  made.is_required = option.get_required();
  made.is_repeated = option.get_items_expected_max() > 1;
  const bool is_flag = option.get_items_expected_max() == 0;
  if (!is_flag && !made.is_positional) made.value = type.value;
  return made;
}

}  // namespace

std::string name_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : name_of(*parent) + " ") + command.get_name();
}

std::vector<described_option> options_of(const CLI::App& command) {
  std::vector<described_option> options;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty()) options.push_back(describe(*option));  // hidden options have an empty group
  std::ranges::stable_partition(options, &described_option::is_positional);
  return options;
}

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App& named_command(const CLI::App& root, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    for (const CLI::App* below : commands_of(root))
      if (below->get_name() == words[i]) return named_command(*below, words.subspan(i + 1));
  return root;
}

}  // namespace lsched::cli
