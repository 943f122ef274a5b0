// Numbers and words in the environment. An empty word counts as none; an empty number is an error, since it is a
// launcher that should have set it.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "ops/status.h"

namespace lsched {

/// What `variable` holds; null where it is not set, or empty.
inline const char* text_in_environment(const char* variable) {
  const char* const set = std::getenv(variable);
  return set == nullptr || *set == '\0' ? nullptr : set;
}

/// The whole number that `variable` holds; nothing where it is not set. ARGUMENT, with both names, where it holds
/// anything else, or one that is not from `least` to `most`.
inline result<std::optional<std::int32_t>> number_in_environment(
    const char* variable, std::int32_t least = 0, std::int32_t most = std::numeric_limits<std::int32_t>::max()) {
  const char* const set = std::getenv(variable);
  if (set == nullptr) return std::optional<std::int32_t>();
  const std::string_view text(set);
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return std::optional(value);
  return failure{status::argument, std::string(variable) + " is \"" + std::string(text) +
                                       "\", not a whole number from " + std::to_string(least) + " to " +
                                       std::to_string(most)};
}

/// Which of two words `variable` holds: whether it is the first, or not set. ARGUMENT, with all three, for anything
/// else.
inline result<bool> choice_in_environment(const char* variable, std::string_view by_default, std::string_view other) {
  const char* const set = text_in_environment(variable);
  const std::string_view text = set == nullptr ? by_default : std::string_view(set);
  if (text == by_default || text == other) return text == by_default;
  return failure{status::argument, std::string(variable) + " is \"" + std::string(text) + "\", neither " +
                                       std::string(by_default) + " nor " + std::string(other)};
}

}  // namespace lsched
