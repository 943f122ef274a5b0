// Adding options to a subcommand, a line each.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/common/words.h"

namespace lsched::cli {

/// Adds options, to one group of the help text if it has a name; those with a check show their default.
struct option_group {
  CLI::App& command;
  const char* name = nullptr;

  CLI::Option* grouped(CLI::Option* option) const { return name == nullptr ? option : option->group(name); }

  template <class Value>
  CLI::Option* add(const char* option, Value& value, const char* text) const {
    return grouped(command.add_option(option, value, text));
  }
  template <class Value>
  CLI::Option* add(const char* option, Value& value, const char* text, const CLI::Validator& check) const {
    return add(option, value, text)->check(check)->capture_default_str();
  }
  /// An option that names a file.
  CLI::Option* add_file(const char* option, std::string& path, const char* text) const {
    return add(option, path, text)->type_name("FILE");
  }
  /// `--json FILE`: see print_to (printed_to.h). `what`: "one object", "lines".
  CLI::Option* add_json(std::string& path, const std::string& what) const {
    return add_file("--json", path, ("Write JSON instead of text to FILE (- is standard output): " + what).c_str());
  }
  CLI::Option* add_flag(const char* option, bool& value, const char* text) const {
    return grouped(command.add_flag(option, value, text));
  }

  /// The value whose name_of is the word; `value` may be optional. `values` and `value` outlive the parser.
  template <class Values, class Value>
  CLI::Option* add_choice(const char* option, const Values& values, Value& value, const char* text) const {
    std::vector<std::string> names;
    for (const auto each : values) names.emplace_back(name_of(each));
    const auto set = [&values, &value](const std::string& word) {
      value = *std::ranges::find_if(values, [&](auto each) { return name_of(each) == word; });
    };
    return grouped(command.add_option_function<std::string>(option, set, text))->check(one_of(names));
  }
  template <class Values, class Value>
  CLI::Option* add_choice_with_default(const char* option, const Values& values, Value& value, const char* text) const {
    return add_choice(option, values, value, text)->default_str(std::string(name_of(value)));
  }
};

inline bool is_given(const CLI::App& command, const std::string& option) {
  return command.get_option(option)->count() > 0;
}

/// The parser's error where one of these options is given; `why` they cannot be.
inline void refuse_given(const CLI::App& command, const std::vector<std::string>& options, const char* why) {
  for (const std::string& each : options)
    if (is_given(command, each)) throw CLI::ValidationError(each, why);
}

/// Likewise for a mode that heeds only these.
inline void expect_only(const CLI::App& command, const std::string& mode, const std::vector<std::string>& heeded) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != mode && std::ranges::find(heeded, name) == heeded.end())
      throw CLI::ValidationError(mode, "does not heed " + name);
  }
}

}  // namespace lsched::cli
