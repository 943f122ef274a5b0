// The selection of algorithms by environment variables.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/environment.h"
#include "bindings/input_file.h"
#include "collectives/selection.h"
#include "collectives/written/written.h"

namespace lsched {

/// Reads a tuning table from a file. Returns ARGUMENT, with the line and the reason, if the table is invalid or names
/// an algorithm that does not exist.
inline result<tuning_table> read_tuning(const std::string& path) {
  const auto content = content_of(path, std::uint64_t{16} << 20);
  if (!content) return failure{status::argument, "the file cannot be read: " + content.error().text};
  auto table = parse_tuning(*content);
  if (!table) return table.error();
  for (const tuning_rule& rule : table->rules)
    if (find(rule.collective, rule.algorithm) == nullptr)
      return failure{status::argument, "line " + std::to_string(rule.line) + ": " + rule.collective +
                                           " has no algorithm " + rule.algorithm +
                                           ": choose an algorithm from `lsched list`"};
  return table;
}

/// Registers the algorithm files that LSCHED_ALGORITHM_FILES names, separated by colons. Returns a failure for each
/// file that could not be registered.
inline std::vector<failure> load_algorithm_files() {
  std::vector<failure> flaws;
  const char* const set = text_in_environment("LSCHED_ALGORITHM_FILES");
  for (std::string_view rest = set == nullptr ? "" : set; !rest.empty();) {
    const std::string path(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    if (path.empty()) continue;
    const auto text = content_of(path);
    if (!text)
      flaws.push_back(text.error());
    else if (const auto made = add_written(*text); !made)
      flaws.push_back({made.error().code, path + ": " + made.error().text});
  }
  return flaws;
}

/// Returns the selection of algorithms by LSCHED_ALGORITHM and by the tuning table in the file that LSCHED_TUNING
/// names. If the table has wire costs, these replace the costs of the topology. Registers the algorithm files first. A
/// failure names the variable and the reason.
inline result<selection> read_selection() {
  const auto wrong = [](const char* variable, const std::string& value, const failure& why) {
    return failure{why.code, std::string(variable) + "=" + value + ": " + why.text};
  };
  selection by;
  if (const auto flaws = load_algorithm_files(); !flaws.empty())
    return failure{flaws.front().code, "LSCHED_ALGORITHM_FILES: " + flaws.front().text};
  if (const char* path = text_in_environment("LSCHED_TUNING")) {
    auto table = read_tuning(path);
    if (!table) return wrong("LSCHED_TUNING", path, table.error());
    by.around.near = table->near.value_or(by.around.near);
    by.around.far = table->far.value_or(by.around.far);
    by.around.turn = table->turn.value_or(by.around.turn);
    by.table = std::move(*table);
  }
  if (const char* names = text_in_environment("LSCHED_ALGORITHM")) {
    auto named = parse_named_algorithms(names);
    if (!named) return wrong("LSCHED_ALGORITHM", names, named.error());
    by.named = std::move(*named);
  }
  return by;
}

}  // namespace lsched
