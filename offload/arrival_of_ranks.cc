#include "offload/arrival_of_ranks.h"

#include <string>
#include <thread>

namespace lsched {

std::optional<failure> wait_for_ranks(shm_segment& segment, std::chrono::nanoseconds limit) {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + limit;
  for (rank r = 0; r < segment.ranks(); ++r) {
    while (segment.page(r).state_of_rank.load() == shm_page::absent) {
      if (clock::now() > deadline)
        return failure{status::timeout, "rank " + std::to_string(r) + " did not open its runtime in time", r};
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return std::nullopt;
}

}  // namespace lsched
