#pragma once

#include <cstdint>

namespace lsched {

/// Minimum size of a rank's shared region that a user may request, 1 MiB.
inline constexpr std::uint64_t k_least_region_bytes = std::uint64_t{1} << 20;

}  // namespace lsched
