// Helpers for options of a subcommand. Each helper adds an option in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/common/words.h"

namespace lsched::cli {

/// Adds options to the group `name` of the help text, or to no group if `name` is null. The help text shows the default
/// values of options that have a validator.
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
  /// Adds an option that takes the name of a file.
  CLI::Option* add_file(const char* option, std::string& path, const char* text) const {
    return add(option, path, text)->type_name("FILE");
  }
  /// Adds `--json FILE` (see print_to in printed_to.h). `what` describes the output: "one object" or "lines".
  CLI::Option* add_json(std::string& path, const std::string& what) const {
    return add_file("--json", path, ("Write JSON instead of text to FILE (- is standard output): " + what).c_str());
  }
  CLI::Option* add_flag(const char* option, bool& value, const char* text) const {
    return grouped(command.add_flag(option, value, text));
  }

  /// Adds an option that takes the name (name_of) of an element of `values`. The option sets `value` to this element.
  /// `value` may be a std::optional. `values` and `value` must outlive the parser.
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

/// Throws the parser's error, with the text `why`, if one of these options is given.
inline void refuse_given(const CLI::App& command, const std::vector<std::string>& options, const char* why) {
  for (const std::string& each : options)
    if (is_given(command, each)) throw CLI::ValidationError(each, why);
}

/// Throws the parser's error if the user combines the option `mode` with an option that has no effect in this mode.
/// `heeded` lists the options that can be combined with `mode`.
inline void expect_only(const CLI::App& command, const std::string& mode, const std::vector<std::string>& heeded) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != mode && std::ranges::find(heeded, name) == heeded.end())
      throw CLI::ValidationError(mode, "cannot be combined with " + name);
  }
}

}  // namespace lsched::cli
