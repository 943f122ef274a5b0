// Independent jobs on all cores, their results told in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <future>
#include <semaphore>
#include <stdexcept>
#include <type_traits>

#include "offload/cores.h"

namespace lsched::cli {

/// Calls a function at the end of its scope.
template <class Function>
class at_end_of_scope {
 public:
  explicit at_end_of_scope(Function last) : last_(last) {}
  at_end_of_scope(const at_end_of_scope&) = delete;
  at_end_of_scope& operator=(const at_end_of_scope&) = delete;
  ~at_end_of_scope() { last_(); }

 private:
  Function last_;
};

/// Calls job(i) for all i below `count`, as many at a time as there are cores, and tell(i, result) for each in
/// ascending order on the calling thread. At most 64 results wait for an earlier one, and a result does not outlive its
/// tell. The first exception in that order, of a job or a tell, is thrown from here: results before it have been told,
/// and no further job begins. Blocks until all jobs that were begun have ended.
template <class Job, class Tell>
void in_order(std::size_t count, const Job& job, const Tell& tell) {
  constexpr std::size_t k_most_ahead = 64;
  std::counting_semaphore<> free_cores(usable_cores());
  std::atomic<bool> is_over = false;
  const auto run = [&](std::size_t i) {
    free_cores.acquire();
    const at_end_of_scope release([&] { free_cores.release(); });
    if (is_over) throw std::runtime_error("an earlier job failed");  // nobody asks for this result
    return job(i);
  };
  std::deque<std::future<std::invoke_result_t<const Job&, std::size_t>>> ahead;
  const at_end_of_scope finish([&] { is_over = true; });
  std::size_t next = 0;
  for (std::size_t told = 0; told < count; ++told) {
    for (; next < count && ahead.size() < k_most_ahead; ++next)
      ahead.push_back(std::async(std::launch::async, run, next));
    tell(told, ahead.front().get());
    ahead.pop_front();
  }
}

}  // namespace lsched::cli
