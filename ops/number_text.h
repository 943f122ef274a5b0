// Parses numbers in text from users: options, environment variables and files.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace lsched {

/// Parses the whole text as one number. Returns nothing if the text is not a number of this type.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace lsched
