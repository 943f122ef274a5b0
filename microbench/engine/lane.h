// `lsched bench lane`: one large reduction, inline and on lanes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lsched::bench {

/// Makes worlds of its own: one rank each.
struct lane_options {
  std::vector<std::uint64_t> sizes{262144, 524288, 1048576, 4194304, 16777216, 67108864};  ///< bytes of one operand
  std::vector<std::uint32_t> workers{1};
  double cell_seconds = 0.5;
  std::string json;
};
int run_lane(const lane_options& options);

}  // namespace lsched::bench
