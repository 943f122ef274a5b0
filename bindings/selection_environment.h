// How the environment says algorithms are to be chosen.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "bindings/environment.h"
#include "collectives/selection.h"

namespace lsched {

inline failure wrong_environment(const char* variable, const std::string& value, const failure& why) {
  return {why.code, std::string(variable) + "=" + value + ": " + why.text};
}

/// Of regular files only: others may have no end, or none that comes.
inline result<std::string> tuning_text_in(const std::string& path) {
  constexpr std::uintmax_t k_most_bytes = 16 << 20;
  std::error_code why;
  const auto kind = std::filesystem::status(path, why).type();
  if (kind != std::filesystem::file_type::regular)
    return failure{status::argument, "cannot be read: " + (why ? why.message() : "not a regular file")};
  if (const auto bytes = std::filesystem::file_size(path, why); why || bytes > k_most_bytes)
    return failure{status::argument, "cannot be read: " + (why ? why.message() : "larger than 16 MiB")};
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  const bool is_read = file.is_open() && (file.peek() == std::ifstream::traits_type::eof() || content << file.rdbuf());
  if (!is_read || file.bad()) return failure{status::argument, std::string("cannot be read: ") + std::strerror(errno)};
  return content.str();
}

/// The wire costs of the table are what is around.
inline selection selection_with(tuning_table table) {
  selection by;
  by.around.near = table.near.value_or(by.around.near);
  by.around.far = table.far.value_or(by.around.far);
  by.around.turn = table.turn.value_or(by.around.turn);
  by.table = std::move(table);
  return by;
}

/// LSCHED_ALGORITHM, and the tuning table in the file that LSCHED_TUNING names. ARGUMENT names what is wrong.
inline result<selection> read_selection() {
  selection by;
  if (const char* path = text_in_environment("LSCHED_TUNING")) {
    const auto content = tuning_text_in(path);
    if (!content) return wrong_environment("LSCHED_TUNING", path, content.error());
    auto table = parse_tuning(*content);
    if (!table) return wrong_environment("LSCHED_TUNING", path, table.error());
    for (const tuning_rule& it : table->rules)
      if (find(it.collective, it.algorithm) == nullptr)
        return wrong_environment("LSCHED_TUNING", path,
                                 {status::argument, "line " + std::to_string(it.line) + ": there is no " +
                                                        it.collective + " by " + it.algorithm});
    by = selection_with(std::move(*table));
  }
  if (const char* names = text_in_environment("LSCHED_ALGORITHM")) {
    auto named = parse_named_algorithms(names);
    if (!named) return wrong_environment("LSCHED_ALGORITHM", names, named.error());
    by.named = std::move(*named);
  }
  return by;
}

}  // namespace lsched
