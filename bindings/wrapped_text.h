// Wraps text into lines of limited width.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace lsched {

inline constexpr std::size_t k_columns = 100;  ///< maximum length of lines that the command prints for people

/// Returns the number of columns of UTF-8 text, one for each code point.
inline std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Wraps the words of a text into lines of at most `columns`. All lines except the first begin with `indent` spaces.
/// The caller must begin to print the first line at column `indent`. A word that is too long gets a separate line.
inline std::string wrapped(std::string_view text, std::size_t indent = 0, std::size_t columns = k_columns) {
  std::string made;
  std::size_t column = indent;
  for (std::size_t place = 0; place <= text.size();) {
    const std::size_t end = std::min(text.find(' ', place), text.size());
    const std::string_view word = text.substr(place, end - place);
    const bool is_first = column == indent;
    if (!is_first && column + 1 + columns_of(word) > columns) {
      made += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      made += ' ';
      ++column;
    }
    made += word;
    column += columns_of(word);
    place = end + 1;
  }
  return made;
}

}  // namespace lsched
