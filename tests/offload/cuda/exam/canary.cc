// Measures how many streams can wait for a value in memory before other streams stall. Tries 1 to 8, 16 and 31 waiting
// streams, several numbers of hardware queues, and streams with and without work behind the wait.
#include <cstdlib>
#include <cstring>

#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

using namespace std::chrono_literals;

constexpr auto k_limit = 60ms;  ///< time after which a job counts as stalled; normally a job takes less than 0.1 ms

struct lane {
  gpu on{};
  cuda_scope here{on.context()};
  gpu_stream work{on, true}, copies{on, true};
  gpu_memory word{on, gpu_place::pinned, 4096}, memory{on, gpu_place::device, 4096};

  /// Returns the microseconds until the job in stream `in` has ended. Returns null if the job ended only after the
  /// waiting streams were released.
  json get_on(CUstream in, const std::function<void()>& job, const timed_release& others) {
    const gpu_event end(on);
    const auto from = clock::now();
    job();
    end.record(in);
    while (!end.has_passed()) continue;
    const double us = std::chrono::duration<double, std::micro>(clock::now() - from).count();
    return others.was_late() ? json(nullptr) : json(us);
  }

  /// Runs a copy or a kernel while `streams` streams wait. Returns the result of get_on().
  json try_one(bool is_copy, std::size_t streams, bool has_work_behind) {
    std::memset(word.data(), 0, word.bytes());
    auto* const until = word.as<std::uint64_t>();
    std::vector<gpu_stream> waiting;
    timed_release others(until, 1, k_limit);
    for (std::size_t i = 0; i < streams; ++i) {
      on.wait_for(until, 1, waiting.emplace_back(on));
      if (has_work_behind) launch_nothing(on, waiting.back());
    }
    const auto copy = [&] { on.copy(memory.data(), word.data() + 64, 64, copies); };
    json us = is_copy ? get_on(copies, copy, others)
                      : get_on(
                            work, [&] { launch_nothing(on, work); }, others);
    others.release();
    return us;
  }

  json trial(std::size_t streams, bool has_work_behind) {
    return {{"streams", streams},
            {"work_behind", has_work_behind},
            {"copy_us", try_one(true, streams, has_work_behind)},
            {"kernel_us", try_one(false, streams, has_work_behind)}};
  }
};

bool ask_with(const char* connections, const effort& how) {
  if (connections != nullptr) setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
  lane it;
  const std::vector<std::size_t> numbers =
      how.is_quick ? std::vector<std::size_t>{1, 2, 7} : std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 16, 31};
  json trials = json::array();
  for (const std::size_t streams : numbers)
    for (const bool has_work_behind : {false, true}) trials.push_back(it.trial(streams, has_work_behind));
  answer(it.on, "canary", {{"max_connections", connections == nullptr ? "unset" : connections}, {"trials", trials}});
  return true;
}

}  // namespace

bool ask_canary(const effort& how) {
  bool is_right = true;
  for (const char* connections : {static_cast<const char*>(nullptr), "1", "8", "32"})
    is_right = forked([&] { return ask_with(connections, how); }).ends_well(10) && is_right;
  return is_right;
}

}  // namespace lsched::exam
