// Suggestions for mistyped words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lsched {

/// Returns the minimum number of edits that turn one word into the other. An edit inserts, removes or replaces a
/// letter, or swaps two adjacent letters. (This is the Damerau-Levenshtein distance, restricted so that swapped letters
/// are not edited again.)
inline std::size_t edit_distance(std::string_view x, std::string_view y) {
  std::vector<std::size_t> before(y.size() + 1), above(y.size() + 1), row(y.size() + 1);
  for (std::size_t j = 0; j <= y.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= x.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= y.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[y.size()];
}

/// Returns the first word of `known` with the smallest edit distance to `word`. Returns an empty word if this distance
/// exceeds max(1, length of `word` / 3).
template <class Words>
std::string_view nearest_word(std::string_view word, const Words& known) {
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3);
  for (const std::string_view each : known)
    if (const std::size_t distance = edit_distance(word, each);
        distance <= least && (nearest.empty() || distance < least))
      least = distance, nearest = each;
  return nearest;
}

/// Returns, for example, "; did you mean ring?". Returns an empty text if nearest_word() finds no word.
template <class Words>
std::string suggestion_for(std::string_view word, const Words& known) {
  const std::string_view nearest = nearest_word(word, known);
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace lsched
