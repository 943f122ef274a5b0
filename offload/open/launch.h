// The contract between a launcher and the ranks that it starts.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/base.h"

namespace lsched {

/// The variables that `lsched run` sets. The descriptor refers to the shared segment, or to the socket to the launcher
/// (launch_exchange.h). The other two variables are the rank and the number of ranks. The launcher may also set
/// k_run_launcher, a descriptor of the launcher's pipe. When that pipe closes, the kernel kills each process that has
/// opened the world.
inline constexpr const char* k_run_descriptor = "LSCHED_RUN_FD";
inline constexpr const char* k_run_rank = "LSCHED_RUN_RANK";
inline constexpr const char* k_run_size = "LSCHED_RUN_SIZE";
inline constexpr const char* k_run_launcher = "LSCHED_RUN_LAUNCHER";

/// The values of the variables that `lsched run`, or a process manager of MPI (pmi_exchange.h), has set for this
/// process.
struct launch {
  int descriptor = -1;
  rank self = 0;
  rank size = 1;
  std::optional<std::int32_t> launcher{};  ///< descriptor of the launcher's pipe, if k_run_launcher is set
  bool is_pmi = false;                     ///< the descriptor is PMI_FD
};

}  // namespace lsched
