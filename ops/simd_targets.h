// Which SIMD targets there are, for people, tests and benchmarks: no part of libsched.so.
#pragma once

#include <cstddef>
#include <string_view>

namespace lsched {

/// Name of the SIMD target that find_reduce dispatches to on this CPU ("AVX3" is AVX-512, "AVX2", "SSE4", …).
std::string_view simd_target();

/// Name of one of the targets that this build has and this CPU runs: place 0 is the best, the last one is
/// plain scalar code. Empty beyond the last. force_simd_target takes each of these.
std::string_view simd_target_at(std::size_t place);

/// Restricts dispatch to one target, for tests and benchmarks; an empty name lifts the restriction.
/// Returns false, and changes nothing, where this CPU or build lacks the target. Not thread-safe against
/// concurrent find_reduce.
bool force_simd_target(std::string_view name);

}  // namespace lsched
