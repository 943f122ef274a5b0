// Names of SIMD targets, for the lsched command, tests and benchmarks. libsched.so does not contain these functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace lsched {

/// Returns the name of the SIMD target that find_reduce uses on this CPU, such as "AVX2" or "SSE4". The name "AVX3"
/// means AVX-512.
std::string_view simd_target();

/// Returns the name of a SIMD target, or an empty name if there is no such target. `place` is an index into the list of
/// the targets that this build contains and this CPU supports. Index 0 is the fastest target, and the last index is
/// plain scalar code. force_simd_target accepts each of these names.
std::string_view simd_target_at(std::size_t place);

/// Restricts dispatch to one target, for tests and benchmarks. An empty name removes the restriction. Returns false,
/// and changes nothing, if the build does not contain the target or the CPU does not support it. Must not run
/// concurrently with find_reduce.
bool force_simd_target(std::string_view name);

}  // namespace lsched
