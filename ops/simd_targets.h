// Names of SIMD targets, for the command, tests and benchmarks. Not part of libsched.so.
#pragma once

#include <cstddef>
#include <string_view>

namespace lsched {

/// Returns the name of the SIMD target that find_reduce uses on this CPU ("AVX3" is AVX-512, "AVX2", "SSE4", …).
std::string_view simd_target();

/// Returns the name of target number `place` among the targets that this build contains and this CPU supports. Number 0
/// is the best target, and the last target is plain scalar code. Returns an empty name for larger numbers.
/// force_simd_target accepts each of these names.
std::string_view simd_target_at(std::size_t place);

/// Restricts dispatch to one target, for tests and benchmarks. An empty name removes the restriction. Returns false,
/// and changes nothing, if this CPU or this build does not support the target. Must not run concurrently with
/// find_reduce.
bool force_simd_target(std::string_view name);

}  // namespace lsched
