// Executes independent jobs on all cores, and returns their results in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <future>
#include <semaphore>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "offload/cores.h"

namespace lsched::cli {

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

/// Calls job(i) for all i below `count`, on as many threads as there are usable cores. Calls tell(i, result) for each
/// result, in ascending order of i, on the calling thread. At most 64 results wait for earlier results. A result is
/// destroyed after tell(i, result) returns. Blocks until all jobs that have begun have ended.
///
/// If a job or `tell` throws, rethrows the exception with the lowest i. All results below i have then been passed to
/// `tell`, and no further job begins.
///
/// Each thread runs many jobs, because the allocator would keep some freed memory for each additional thread.
template <class Job, class Tell>
void in_order(std::size_t count, const Job& job, const Tell& tell) {
  constexpr std::size_t k_most_ahead = 64;
  struct slot {
    std::promise<std::invoke_result_t<const Job&, std::size_t>> promised;
    std::future<std::invoke_result_t<const Job&, std::size_t>> result = promised.get_future();
  };
  std::vector<slot> slots(std::min(count, k_most_ahead));
  std::counting_semaphore<> free_slots(static_cast<std::ptrdiff_t>(slots.size()));
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> is_over = false;
  const auto work = [&] {
    while (true) {
      free_slots.acquire();
      const std::size_t i = next++;
      if (is_over || i >= count) return;
      auto promised = std::move(slots[i % slots.size()].promised);
      try {
        promised.set_value(job(i));
      } catch (...) {
        promised.set_exception(std::current_exception());
      }
    }
  };
  std::vector<std::jthread> workers(std::min<std::size_t>(count, usable_cores()));
  const at_end_of_scope finish([&] {
    is_over = true;
    free_slots.release(static_cast<std::ptrdiff_t>(workers.size()));
  });
  for (std::jthread& worker : workers) worker = std::jthread(work);
  for (std::size_t told = 0; told < count; ++told) {
    slot& its = slots[told % slots.size()];
    tell(told, its.result.get());
    its = slot();
    free_slots.release();
  }
}

}  // namespace lsched::cli
