// L, o, g and G of this machine, measured through the public C API between two threads, and what the model then
// predicts for a few collectives, beside what they take. Rounds in which a thread slept are not looked at: of many
// short batches the fast ones count, and of several repetitions their median.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lsched::cli {

struct prediction {
  std::string algorithm;
  std::int32_t ranks = 0;
  std::uint64_t bytes = 0;
  double measured_us = 0;
  double modelled_us = 0;
  bool is_crowded = false;  ///< more ranks than cores: the model gives each rank a CPU of its own
};

struct calibration {
  double L_ns = 0, o_ns = 0, g_ns = 0;
  double G_ns_per_byte = 0;  ///< includes combining a byte
  double spread = 0;         ///< of a short round over the repetitions: (longest - shortest) / median
  std::vector<prediction> predictions;
  std::string error;  ///< why the numbers are not usable; empty if they are
};

/// Takes a few seconds. Throws command_failure.
calibration calibrate_this_machine();

}  // namespace lsched::cli
