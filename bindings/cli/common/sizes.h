// Options whose values are sizes in bytes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "bindings/cli/common/options.h"
#include "ops/size_text.h"

namespace lsched::cli {

/// Returns a validator for CLI::Option::transform. The validator accepts a size text (ops/size_text.h) within the
/// limits, and replaces the text by the number of bytes.
inline CLI::Validator size_in_bytes(std::uint64_t least, std::uint64_t most = UINT64_MAX) {
  const std::string limits =
      "from " + std::to_string(least) + (most == UINT64_MAX ? " on" : " to " + std::to_string(most));
  const auto check = [=](std::string& word) {
    const auto bytes = parse_size(word);
    if (!bytes) return "\"" + word + "\" is not " + std::string(k_size_syntax);
    if (*bytes < least || *bytes > most) return "\"" + word + "\" is not a size " + limits;
    word = std::to_string(*bytes);
    return std::string();
  };
  return {check, limits, ""};
}

/// Adds an option that accepts one or several sizes. The help text shows its default.
template <class Value>
CLI::Option* add_size(const option_group& group, const char* option, Value& value, const char* text,
                      const CLI::Validator& size) {
  return group.add(option, value, text)->transform(size)->type_name("BYTES")->capture_default_str();
}

}  // namespace lsched::cli
