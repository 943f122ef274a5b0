// Measures the cost of calls of the driver, and the latency of signals between host and device.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "microbench/cuda/cuda_run.h"

namespace lsched::bench {
namespace {

constexpr std::size_t k_samples = 2000;
constexpr double k_cell_seconds = 1;
constexpr auto k_patience = std::chrono::seconds(5);

/// Words that host and device can access, and a kernel without work.
struct bench_of_costs {
  explicit bench_of_costs(cuda_run& of)
      : run(of), on(of.on()), words(on, gpu_place::pinned, 4096), stream(on), event(on) {
    std::memset(words.data(), 0, words.bytes());
  }

  void launch() const { on.launch(nothing, {}, stream); }
  std::uint64_t* word(std::size_t line) const { return words.as<std::uint64_t>() + 8 * line; }

  /// Waits until `*seen` is at least `value`. Returns the time since `from` in µs.
  static double us_until(std::uint64_t* seen, std::uint64_t value, clock::time_point from) {
    const std::atomic_ref<std::uint64_t> at(*seen);
    while (at.load(std::memory_order_acquire) < value)
      if (clock::now() - from > k_patience) throw failed("the device did not write to host memory within 5 s");
    return ns_between(from, clock::now()) / 1e3;
  }

  cuda_run& run;
  const gpu& on;
  const device_kernel nothing = find_device_kernel(kernel::sum, dtype::f32).value();
  gpu_memory words;
  gpu_stream stream;
  gpu_event event;
  std::uint64_t number = 0;  ///< last value written to a word
};

void add(bench_of_costs& it, const char* what, const std::function<double()>& job) {
  if (it.run.is_over()) return it.run.leave_out(what, "no time");
  it.run.add_cost(what, it.run.sample(it.run.choose(k_samples, 20), k_cell_seconds, job));
  it.on.synchronise(it.stream);
}

void measure_calls(bench_of_costs& it) {
  const auto synchronised = [&it](const auto& job) {
    const double us = us_of(job);
    it.on.synchronise(it.stream);
    return us;
  };
  const auto until_passed = [&it](const auto& job) {
    return us_of([&] {
      job();
      it.event.record(it.stream);
      while (!it.event.has_passed()) continue;
    });
  };
  add(it, "launch", [&] { return synchronised([&] { it.launch(); }); });
  add(it, "launch, record, query until done", [&] { return until_passed([&] { it.launch(); }); });
  add(it, "event", [&] { return until_passed([] {}); });
  add(it, "record", [&] { return synchronised([&] { it.event.record(it.stream); }); });
  add(it, "query of a passed event", [&] { return us_of([&] { (void)it.event.has_passed(); }); });
}

void measure_words(bench_of_costs& it) {
  add(it, "memop_to_host", [&] {
    const auto from = clock::now();
    it.on.write(it.word(0), ++it.number, it.stream);
    return bench_of_costs::us_until(it.word(0), it.number, from);
  });
  add(it, "memop_to_host behind a kernel", [&] {
    const auto from = clock::now();
    it.launch();
    it.on.write(it.word(0), ++it.number, it.stream);
    return bench_of_costs::us_until(it.word(0), it.number, from);
  });
  // The sleep gives the stream time to reach its wait before the clock starts.
  add(it, "host_to_stream", [&] {
    const std::uint64_t next = ++it.number;
    it.on.wait_for(it.word(1), next, it.stream);
    it.on.write(it.word(0), next, it.stream);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const auto from = clock::now();
    std::atomic_ref(*it.word(1)).store(next, std::memory_order_release);
    return bench_of_costs::us_until(it.word(0), next, from);
  });
}

/// The state that a host function shares with a thread: the times at which the function ran and the thread woke.
struct told {
  std::atomic<std::int64_t> ran_at{0};
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::int64_t> woke_at{0};
  std::atomic<bool> is_over{false};
};

std::int64_t now_ns() { return clock::now().time_since_epoch().count(); }

void CUDA_CB ring(void* to) {
  told& it = *static_cast<told*>(to);
  it.ran_at.store(now_ns(), std::memory_order_release);
  it.rings.fetch_add(1, std::memory_order_release);
  it.rings.notify_one();
}

void sleep_until_rung(told& it) {
  for (std::uint32_t seen = 0;; ++seen) {
    it.rings.wait(seen, std::memory_order_acquire);
    if (it.is_over.load(std::memory_order_acquire)) return;
    it.woke_at.store(now_ns(), std::memory_order_release);
  }
}

/// Waits until `mark` is not zero, and resets `mark` to zero. Returns the value of `mark` minus `from`, in µs.
double us_at(std::atomic<std::int64_t>& mark, std::int64_t from) {
  const auto begin = clock::now();
  std::int64_t at = 0;
  while ((at = mark.exchange(0, std::memory_order_acq_rel)) == 0)
    if (clock::now() - begin > k_patience) throw failed("a host function did not run within 5 s");
  return static_cast<double>(at - from) / 1e3;
}

/// A thread that sleeps until it is woken, and then sleeps again. The destructor ends the thread.
class sleeper {
 public:
  explicit sleeper(told& by) : by_(by), thread_([&by] { sleep_until_rung(by); }) {}
  ~sleeper() {
    by_.is_over = true;
    by_.rings.fetch_add(1);
    by_.rings.notify_one();
  }
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;

 private:
  told& by_;
  std::jthread thread_;
};

void measure_rings(bench_of_costs& it) {
  told to;
  const sleeper one(to);
  const auto ring_once = [&](std::int64_t& from) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // gives the sleeper time to fall asleep
    from = now_ns();
    it.on.expect(it.on.cuda().cuLaunchHostFunc(it.stream, ring, &to), "cuLaunchHostFunc");
  };
  std::int64_t from = 0;
  add(it, "host_function", [&] {
    ring_once(from);
    const double us = us_at(to.ran_at, from);
    (void)us_at(to.woke_at, from);
    return us;
  });
  add(it, "ring_to_thread", [&] {
    ring_once(from);
    const double us = us_at(to.woke_at, from);
    (void)us_at(to.ran_at, from);
    return us;
  });
}

/// Returns the time to register shared memory of the kind that processes use as staging memory.
double us_to_register(const gpu& on, std::uint64_t bytes, bool is_touched) {
  const int file = memfd_create("bench", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) throw failed("cannot create shared memory");
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (begin == MAP_FAILED) throw failed("cannot map shared memory");
  if (is_touched) std::memset(begin, 1, bytes);
  CUresult answer = CUDA_SUCCESS;
  const double us = us_of([&] {
    answer = on.cuda().cuMemHostRegister(begin, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  });
  if (answer == CUDA_SUCCESS) on.expect(on.cuda().cuMemHostUnregister(begin), "cuMemHostUnregister");
  munmap(begin, bytes);
  on.expect(answer, "cuMemHostRegister");
  return us;
}

void measure_registration(cuda_run& run) {
  const std::uint64_t mib = run.choose(64, 1);
  for (const bool is_touched : {true, false}) {
    const std::string what = is_touched ? "register_per_mib" : "register_per_mib, never touched";
    run.try_to(what, [&] {
      run.add_cost(what, run.sample(10, 4, [&] { return us_to_register(run.on(), mib << 20, is_touched); }),
                   static_cast<double>(mib));
    });
  }
}

}  // namespace

void measure_costs(cuda_run& run) {
  const cuda_scope here(run.on().context());
  {
    bench_of_costs it(run);
    measure_calls(it);
    if (run.on().attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0)
      measure_words(it);
    else
      run.leave_out("memop_to_host, host_to_stream", "streams of this device cannot wait");
    measure_rings(it);
  }
  measure_registration(run);
  run.print({column("cost", "what"), column("median us", "us", 2), column("p99 us", "us_p99", 2),
             column("max us", "us_max", 2), column("samples", "samples")});
}

}  // namespace lsched::bench
