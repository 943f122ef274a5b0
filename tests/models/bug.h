// Selects planted bugs in the explorer's copy of the library. CMakeLists.txt defines the bugs. A test selects one bug
// at a time while the program runs. A test that selects an unknown bug explores the unchanged code and finds no fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace models {

using bug = std::uint64_t;

/// Returns the hash of a bug's name (FNV-1a).
constexpr bug bug_of(std::string_view name) {
  bug sum = 0xcbf29ce484222325;
  for (const char letter : name) sum = (sum ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return sum;
}

inline bug planted = bug_of({});

/// If true, a thread that waits for a device sleeps for at most a millisecond, as in the library. If false, only the
/// doorbell wakes such a thread.
inline bool caps_naps = true;

/// If false, ring() does not look for a direct sleeper. In worlds without sockets, this look would only add states.
inline bool sleeps_directly = false;

/// The variable that becomes 1 when the grace of a partial round has passed. The clock of the explorer stands still.
inline const std::uint64_t* grace_end = nullptr;

}  // namespace models

consteval models::bug operator""_bug(const char* name, std::size_t length) { return models::bug_of({name, length}); }
