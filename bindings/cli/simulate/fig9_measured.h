// Figure 9 of Li et al. (2020) as `lsched bench fig9 --json FILE` measured it, to stand beside the prediction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched::cli {

struct fig9_measurement {
  rank ranks = 0;
  activation_policy policy = activation_policy::full;  ///< full: MPI_Allreduce
  double latency_ms = 0;                               ///< mean over ranks and iterations
  double active = 0;                                   ///< mean; 0 for MPI, which counts none
};

/// The file's rows of this size and skew. Throws command_failure: it cannot be read, a line is not such a row, or none
/// is of this size and skew.
std::vector<fig9_measurement> read_fig9_measurements(const std::string& path, std::uint64_t bytes, double skew_ms);

}  // namespace lsched::cli
