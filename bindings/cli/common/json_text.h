// Output of a command as JSON or as readable text. Both forms are made from the same JSON value.
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "bindings/wrapped_text.h"

namespace lsched::cli {

/// Returns the JSON text in one line, or indented. Replaces invalid UTF-8, because file names may contain it.
inline std::string json_text(const nlohmann::ordered_json& value, int indent = -1) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns the value as readable text, such as "online 4, usable 2". The text of null is "none".
inline std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", value.get<double>());
    return text.data();
  }
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [name, part] : value.items())
    text += (text.empty() ? "" : ", ") + (value.is_object() ? name + " " : "") + text_of(part);
  return text;
}

/// Prints one line for each member of `object`.
inline void print_lines(const nlohmann::ordered_json& object, const char* indent = "", std::FILE* to = stdout) {
  for (const auto& [name, value] : object.items())
    std::fprintf(to, "%s%s\n", indent, wrapped(name + ": " + text_of(value), std::strlen(indent) + 2).c_str());
}

}  // namespace lsched::cli
