// The contract between a launcher and the ranks that it starts.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/base.h"

namespace lsched {

/// Variables that `lsched run` sets: the descriptor of the shared segment or of the socket to the launcher
/// (launch_exchange.h), the rank, and the number of ranks. The launcher may also set k_run_launcher, a descriptor of
/// the launcher's pipe. A process that opens the world asks the kernel to kill the process when that pipe closes.
inline constexpr const char* k_run_descriptor = "LSCHED_RUN_FD";
inline constexpr const char* k_run_rank = "LSCHED_RUN_RANK";
inline constexpr const char* k_run_size = "LSCHED_RUN_SIZE";
inline constexpr const char* k_run_launcher = "LSCHED_RUN_LAUNCHER";

/// The values of the variables with which `lsched run`, or a process manager of MPI (pmi_exchange.h), started this
/// process.
struct launch {
  int descriptor = -1;
  rank self = 0;
  rank size = 1;
  std::optional<std::int32_t> launcher{};  ///< descriptor of the launcher's pipe, if k_run_launcher is set
  bool is_pmi = false;                     ///< the descriptor is PMI_FD
};

}  // namespace lsched
