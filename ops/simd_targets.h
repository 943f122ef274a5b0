// Names of SIMD targets, for the command, tests and benchmarks. Not part of libsched.so.
#pragma once

#include <cstddef>
#include <string_view>

namespace lsched {

/// Returns the name of the SIMD target that find_reduce uses on this CPU ("AVX3" is AVX-512, "AVX2", "SSE4", …).
std::string_view simd_target();

/// Returns the name of a target that this build has and this CPU runs. Place 0 is the best target, the last place is
/// plain scalar code. The name is empty beyond the last place. force_simd_target accepts each of these names.
std::string_view simd_target_at(std::size_t place);

/// Restricts dispatch to one target, for tests and benchmarks; an empty name lifts the restriction.
/// Returns false, and changes nothing, if this CPU or build lacks the target. Must not run concurrently with
/// find_reduce.
bool force_simd_target(std::string_view name);

}  // namespace lsched
