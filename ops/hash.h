// FNV-1a (Fowler, Noll, Vo), a 64-bit hash of a sequence of bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace lsched {

class fnv_hash {
 public:
  constexpr void add(std::string_view text) {
    for (const char letter : text) add_byte(static_cast<unsigned char>(letter));
  }
  /// Adds the eight bytes of a number, lowest byte first.
  constexpr void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(number >> shift & 0xff);
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  constexpr void add_byte(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace lsched
