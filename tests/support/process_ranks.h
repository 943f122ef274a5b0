// Ranks that are processes of a test, for tests that use the library's interface and nothing else of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lsched::testing {

/// Each of so many processes is told that it is a rank, as `lsched run` does it, and ends with what `life` answers.
/// Answers what went wrong, or nothing: all have ended with 0. None outlives `limit`.
std::string run_processes(std::int32_t ranks, const std::function<int()>& life, std::chrono::seconds limit);

}  // namespace lsched::testing
