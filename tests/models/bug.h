// A bug that is planted into the explorer's copy of the library, where CMakeLists.txt says how: one at a time, while
// the program runs. A test that plants one that does not exist explores the code as it ships, and catches nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace models {

using bug = std::uint64_t;

/// A hash of its name (FNV-1a).
constexpr bug bug_of(std::string_view name) {
  bug sum = 0xcbf29ce484222325;
  for (const char letter : name) sum = (sum ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return sum;
}

inline bug planted = bug_of({});

/// Whether a thread that waits for a device sleeps for a millisecond at most, as what ships does. Where not, rings
/// alone get it on.
inline bool caps_naps = true;

}  // namespace models

consteval models::bug operator""_bug(const char* name, std::size_t length) { return models::bug_of({name, length}); }
