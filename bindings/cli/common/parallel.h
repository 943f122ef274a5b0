// Independent jobs on all cores, their results told in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "offload/cores.h"

namespace lsched::cli {

/// What the threads of one in_order() share; everything is under the lock.
template <class Job, class Tell>
class ordered_jobs {
 public:
  ordered_jobs(std::size_t count, const Job& job, const Tell& tell)
      : job_(job), tell_(tell), end_(count), results_(count) {}

  void work() {
    std::unique_lock hold(lock_);
    while (true) {
      room_.wait(hold, [&] { return next_ >= end_ || next_ - told_ < k_most_ahead; });
      if (next_ >= end_) return;
      const std::size_t mine = next_++;
      hold.unlock();
      run(mine, hold);
      tell_what_is_next();
      room_.notify_all();
    }
  }

  /// After all threads have ended.
  void rethrow() const {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  /// Results that wait for an earlier one are kept; no more than these.
  static constexpr std::size_t k_most_ahead = 64;

  /// Ends with the lock held.
  void run(std::size_t i, std::unique_lock<std::mutex>& hold) {
    try {
      auto result = job_(i);
      hold.lock();
      results_[i] = std::move(result);
    } catch (...) {
      if (!hold.owns_lock()) hold.lock();
      fail(i);
    }
  }

  void tell_what_is_next() {
    for (; told_ < end_ && results_[told_]; ++told_) {
      try {
        tell_(told_, *results_[told_]);
      } catch (...) {
        return fail(told_);
      }
      results_[told_].reset();
    }
  }

  /// Jobs are begun in order, so all before this one have been; whichever of them fails moves the end forward.
  void fail(std::size_t i) {
    if (i >= end_) return;
    end_ = i;
    failed_ = std::current_exception();
  }

  const Job& job_;
  const Tell& tell_;
  std::mutex lock_;
  std::condition_variable room_;
  std::size_t next_ = 0, told_ = 0, end_;
  std::exception_ptr failed_;
  std::vector<std::optional<std::invoke_result_t<const Job&, std::size_t>>> results_;
};

/// Calls job(i) for all i below `count`, as many at a time as there are cores, and tell(i, result) for each in
/// ascending order, one at a time, from any of the threads. A result does not outlive its tell. The first exception in
/// that order, of a job or a tell, ends it: what comes before has been told, what comes after is not begun, and it is
/// thrown from here. Blocks until all jobs that were begun have ended.
template <class Job, class Tell>
void in_order(std::size_t count, const Job& job, const Tell& tell) {
  ordered_jobs<Job, Tell> all(count, job, tell);
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min<std::size_t>(usable_cores(), count); ++i)
      helpers.emplace_back([&all] { all.work(); });
    all.work();
  }
  all.rethrow();
}

}  // namespace lsched::cli
