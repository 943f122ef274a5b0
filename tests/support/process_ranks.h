// Ranks as processes of a test, for tests that use only the library's public interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lsched::testing {

/// Starts one process per rank, in the same way as `lsched run`. Each process calls `life` and exits with the result of
/// `life`. A process that runs longer than `limit` is killed. Returns a description of the failures, or an empty string
/// if all processes exited with 0.
std::string run_processes(std::int32_t ranks, const std::function<int()>& life, std::chrono::seconds limit);

}  // namespace lsched::testing
