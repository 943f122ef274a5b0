// Opens the worlds of tests whose ranks are threads.
#pragma once

#include <cstdint>

#include "bindings/c/lsched.h"

namespace lsched::testing {

/// Returns the number of emulated hosts in each world that open_threads() opens, or 0. LSCHED_TEST_HOSTS sets this
/// number. The transport net connects the hosts, and the ranks of a host share memory. With one rank per host, no ranks
/// share memory.
std::int32_t emulated_hosts();

/// Returns the number of random programs to run outside of soaks. With emulated hosts the number is small, because
/// worlds open and run slowly.
inline std::uint64_t few_seeds(std::uint64_t usual) { return emulated_hosts() == 0 ? usual : 4; }

/// Returns a time after which an error can name the awaited rank. Without emulated hosts, this is `usual`. With
/// emulated hosts, this is one second, because only the first rank of a world sees all ranks. The other ranks must ask
/// the first rank.
inline std::uint64_t until_named_ns(std::uint64_t usual) { return emulated_hosts() == 0 ? usual : 1'000'000'000; }

/// Opens a world whose ranks are threads of this process. The arguments are those of lsched_world_open_threads.
lsched_status open_threads(std::int32_t ranks, const lsched_config* config, lsched_world** worlds,
                           lsched_diagnostic* why);

}  // namespace lsched::testing
