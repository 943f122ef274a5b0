// Measures the delay of host functions after pauses of several lengths. For comparison, every second measurement is the
// delay of a thread's wake-up.
#include <atomic>

#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr auto k_longest = std::chrono::seconds(4);  ///< time limit of the measurements for one length of pauses

struct mark {
  std::atomic<std::int64_t> at{0};
  void set() { at.store(clock::now().time_since_epoch().count(), std::memory_order_release); }
  /// Waits for the mark. Returns the µs from `from` to the mark.
  double us_since(clock::time_point from) {
    std::int64_t when = 0;
    const double took = us_until([&] { return (when = at.exchange(0)) != 0; }, std::chrono::seconds(2));
    if (took < 0) throw bench::failed("a host function or a thread did not run within 2 s");
    return static_cast<double>(when - from.time_since_epoch().count()) / 1e3;
  }
};

void CUDA_CB set_mark(void* to) { static_cast<mark*>(to)->set(); }

/// A thread that sleeps until wake() is called, and then sets the mark.
class sleeper {
 public:
  explicit sleeper(mark& to)
      : thread_([this, &to] {
          for (std::uint32_t seen = 0;; ++seen) {
            wakes_.wait(seen);
            if (is_over_) return;
            to.set();
          }
        }) {}
  ~sleeper() {
    is_over_ = true;
    wake();
  }
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;
  void wake() {
    wakes_.fetch_add(1);
    wakes_.notify_one();
  }

 private:
  std::atomic<std::uint32_t> wakes_{0};
  std::atomic<bool> is_over_{false};
  std::jthread thread_;
};

}  // namespace

bool ask_host_function_tails(const effort& how) {
  const gpu on;
  const cuda_scope here(on.context());
  const gpu_stream stream(on, true);
  mark function, thread;
  sleeper other(thread);
  for (const std::int64_t rest_us : {0, 1000, 5000}) {
    const std::uint64_t samples = how.choose(rest_us == 0 ? 20'000 : rest_us == 1000 ? 1500 : 400, 20);
    std::vector<double> functions, threads;
    const auto end = clock::now() + k_longest;
    for (std::uint64_t i = 0; i < samples && clock::now() < end; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(rest_us));
      auto from = clock::now();
      on.expect(on.cuda().cuLaunchHostFunc(stream, set_mark, &function), "cuLaunchHostFunc");
      functions.push_back(function.us_since(from));
      std::this_thread::sleep_for(std::chrono::microseconds(rest_us));
      from = clock::now();
      other.wake();
      threads.push_back(thread.us_since(from));
    }
    for (const auto& [what, us] : {std::pair{"host function", &functions}, std::pair{"thread", &threads}}) {
      json line{{"what", what}, {"rest_us", rest_us}};
      line.update(distribution(*us));
      answer(on, "host_function_tails", line);
    }
  }
  return true;
}

}  // namespace lsched::exam
