// Help texts for a terminal, and man pages.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/output_file.h"
#include "bindings/cli/common/pages.h"
#include "bindings/cli/program/description.h"
#include "bindings/wrapped_text.h"

namespace lsched::cli {
namespace {

constexpr std::size_t k_text_column = 28;

/// Returns the names of an option and the placeholder of its value, such as "-n, --ranks N ...".
std::string usage_of(const described_option& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + name;
  if (!option.value.empty()) text += " " + option.value;
  return text + (option.is_repeated ? " ..." : "");
}

/// Returns the synopsis of a command, such as "lsched show [OPTIONS] COLLECTIVE".
std::string synopsis_of(const CLI::App& command) {
  std::string text = name_of(command) + " [OPTIONS]";
  for (const described_option& option : options_of(command))
    if (option.is_positional)
      text += (option.is_required ? " " : " [") + option.name() + (option.is_repeated ? "..." : "") +
              (option.is_required ? "" : "]");
  return text + (commands_of(command).empty() ? "" : " COMMAND");
}

std::string entry(const std::string& head, const std::string& text) {
  const bool fits = columns_of(head) + 4 <= k_text_column;
  std::string line = "  " + head;
  line += fits ? std::string(k_text_column - 2 - columns_of(head), ' ') : "\n" + std::string(k_text_column, ' ');
  return line + wrapped(text, k_text_column) + "\n";
}

std::string options_text(const std::vector<described_option>& options, const std::string& group, bool is_positional) {
  std::string text;
  for (const described_option& option : options)
    if (option.is_positional == is_positional && option.group == group) text += entry(usage_of(option), option.text);
  return text;
}

std::vector<std::string> groups_of(const std::vector<described_option>& options) {
  std::vector<std::string> groups;
  for (const described_option& option : options)
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  return groups;
}

/// Escapes text for man(7), so that no part of it is a request or an escape.
std::string for_man(std::string_view text) {
  std::string made;
  for (const char letter : text) {
    if (letter == '\\')
      made += "\\e";
    else if (letter == '-')
      made += "\\-";
    else if ((letter == '.' || letter == '\'') && (made.empty() || made.back() == '\n'))
      (made += "\\&") += letter;
    else
      made += letter;
  }
  return made;
}

std::string man_page(const CLI::App& command, const std::string& title) {
  std::string text = ".TH " + title + " 1 \"\" \"libsched " + lsched_version() + "\" \"libsched\"\n.SH NAME\n" +
                     for_man(title) + " \\- " + for_man(command.get_description()) + "\n.SH SYNOPSIS\n.B " +
                     for_man(synopsis_of(command)) + "\n";
  const std::vector<described_option> options = options_of(command);
  for (const std::string& group : groups_of(options)) {
    text += ".SH " + std::string(group == "Options" ? "OPTIONS" : for_man(group)) + "\n";
    for (const described_option& option : options)
      if (option.group == group) text += ".TP\n.B " + for_man(usage_of(option)) + "\n" + for_man(option.text) + "\n";
  }
  if (!commands_of(command).empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* each : commands_of(command))
    text += ".TP\n.B " + for_man(each->get_name()) + "\n" + for_man(each->get_description()) + "\n";
  if (!command.get_footer().empty()) text += ".SH NOTES\n.nf\n" + for_man(command.get_footer()) + "\n.fi\n";
  const std::string place = place_of_installed_pages(text);
  if (!place.empty()) text += ".SH FILES\n" + for_man(place) + "\n";
  return text + ".SH EXIT STATUS\n0 done, 1 failed, 2 usage error.\n";
}

}  // namespace

std::string help_text(const CLI::App& command) {
  std::string text = wrapped(command.get_description()) + "\nUsage: " + synopsis_of(command) + "\n";
  const std::vector<described_option> options = options_of(command);
  for (const std::string& group : groups_of(options))
    if (const std::string listed = options_text(options, group, true); !listed.empty())
      text += "\nArguments:\n" + listed;
  for (const std::string& group : groups_of(options))
    if (const std::string listed = options_text(options, group, false); !listed.empty())
      text += "\n" + group + ":\n" + listed;
  if (!commands_of(command).empty()) text += "\nCommands:\n";
  for (const CLI::App* each : commands_of(command)) text += entry(each->get_name(), each->get_description());
  if (!command.get_footer().empty()) text += "\n" + command.get_footer() + "\n";
  const std::string place = place_of_pages(text);
  return text + (place.empty() ? "" : "\n" + wrapped(place) + "\n");
}

void write_man_pages(const CLI::App& command, const std::string& folder) {
  std::error_code why;
  std::filesystem::create_directories(folder, why);
  if (why) throw command_failure(LSCHED_ERR_ARGUMENT, folder + ": cannot be created: " + why.message());
  std::string title = name_of(command);
  std::ranges::replace(title, ' ', '-');
  output_file(folder + "/" + title + ".1").write(man_page(command, title));
  for (const CLI::App* each : commands_of(command)) write_man_pages(*each, folder);
}

}  // namespace lsched::cli
