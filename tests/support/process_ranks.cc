#include "tests/support/process_ranks.h"

#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"

namespace lsched::testing {

std::string run_processes(std::int32_t ranks, const std::function<int()>& life, std::chrono::seconds limit) {
  const auto segment = shm_segment::create(ranks, std::size_t{64} << 20);
  if (!segment) return segment.error().text;
  const auto live = [&](rank self) {
    be_launched(**segment, self);
    return life();
  };
  return child_ranks(ranks, live, limit).wait();
}

}  // namespace lsched::testing
