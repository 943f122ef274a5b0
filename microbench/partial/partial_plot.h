// The picture of `lsched bench partial`: latency against contributors, drawn by gnuplot from two files left beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "microbench/harness.h"
#include "microbench/partial/partial_arrivals.h"

namespace lsched::bench {

/// One point of the figure.
struct partial_row {
  std::string policy{};
  std::string algorithm{};
  double nap_mean = 0;  ///< active processes: contributors of a round
  double nap_min = 0;
  double ms_mean = 0;                    ///< over ranks and rounds
  std::optional<double> ms_simulated{};  ///< of the same rounds; none where rounds do not stand for themselves
  std::uint64_t staleness_max = 0;
  std::uint64_t violations = 0;
  std::vector<arrivals> of_ranks{};
};

/// One rank only. Answers and failures: draw_picture's.
bool plot_partial(const std::string& png, std::span<const partial_row> rows, int ranks, reporter& out);

}  // namespace lsched::bench
