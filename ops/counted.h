// Functions that write counts and lists as text, for messages to users.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lsched {

/// Returns "1 message", "2 messages", "0 messages". The noun must form its plural with an s.
template <std::integral Number>
std::string counted(Number number, std::string_view noun) {
  return std::to_string(number).append(" ").append(noun).append(number == 1 ? "" : "s");
}

/// Returns "rank 3" or "ranks 3,5". Long lists end with an ellipsis after the first few numbers.
template <std::integral Number>
std::string listed(const std::vector<Number>& numbers, std::string_view noun) {
  constexpr std::size_t k_most = 8;
  std::string text = std::string(noun).append(numbers.size() == 1 ? " " : "s ");
  for (std::size_t i = 0; i < numbers.size() && i < k_most; ++i)
    text.append(i == 0 ? "" : ",").append(std::to_string(numbers[i]));
  return text.append(numbers.size() > k_most ? ",…" : "");
}

/// Returns the first few words of a list, such as "a, b and 3 more".
inline std::string listed_words(const std::vector<std::string>& words) {
  constexpr std::size_t k_most = 4;
  std::string text;
  for (std::size_t i = 0; i < words.size() && i < k_most; ++i) text.append(i == 0 ? "" : ", ").append(words[i]);
  return words.size() > k_most ? text + " and " + std::to_string(words.size() - k_most) + " more" : text;
}

}  // namespace lsched
