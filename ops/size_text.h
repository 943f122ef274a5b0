// Sizes in bytes, as users write them in options and environment variables.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace lsched {

/// Description of the syntax, for error texts.
inline constexpr std::string_view k_size_syntax = "a number of bytes such as 64, 64K, 1MiB or 2G";

/// Parses a number of bytes: a whole number, then optionally K, M, G or T (powers of 1024), then optionally iB. Letters
/// may be lower case. Returns nullopt for invalid text, and for numbers above 2^64 - 1.
inline std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) return value;
  constexpr std::string_view k_units = "kKmMgGtT";
  const std::size_t place = k_units.find(unit.front());
  const std::string_view rest = unit.substr(1);
  const bool has_byte = rest.size() == 2 && (rest[0] == 'i' || rest[0] == 'I') && (rest[1] == 'B' || rest[1] == 'b');
  if (place == std::string_view::npos || !(rest.empty() || has_byte)) return std::nullopt;
  const unsigned shift = 10 * (static_cast<unsigned>(place) / 2 + 1);
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

}  // namespace lsched
