// Measures the processor time of idle ranks that have a GPU. The ranks have no round, or a round that waits for a
// stream.
#include <atomic>
#include <cstring>
#include <thread>

#include "bindings/c/lsched_cuda.h"
#include "microbench/cuda/ranks.h"

namespace lsched::bench {
namespace {

/// Sleeps, and returns the processor time of this process during the sleep, in ms per second.
double cpu_while_asleep(double seconds) {
  const double cpu = cpu_ms();
  const auto begin = clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return (cpu_ms() - cpu) / ms_between(begin, clock::now()) * 1e3;
}

}  // namespace

void measure_idle(cuda_run& run, team& ranks) {
  constexpr std::uint64_t k_count = 1024;
  const double seconds = run.is_quick() ? 0.1 : 2;
  const gpu_memory input(run.on(), gpu_place::device, k_count * sizeof(float)),
      output(run.on(), gpu_place::device, input.bytes()), word(run.on(), gpu_place::pinned, 64);
  const gpu_stream stream(run.on());
  std::memset(word.data(), 0, word.bytes());
  run.on().copy(input.data(), output.data(), input.bytes(), stream);
  run.on().synchronise(stream);
  schedule_handle sum = make_allreduce(ranks.runtime(), input.as<float>(), output.as<float>(), k_count);
  const auto report = [&](const char* what, double cpu) {
    const bool has_one_account = run.options().as_threads;
    const double all = ranks.combine(cpu, has_one_account ? LSCHED_MAX : LSCHED_SUM);
    run.add({{"kind", "idle"},
             {"what", what},
             {"as", has_one_account ? "threads" : "processes"},
             {"seconds", seconds},
             {"cpu_ms_per_s", all / ranks.size()}});
  };
  bench::run(sum.get());
  ranks.barrier();
  report("no round", cpu_while_asleep(seconds));

  lsched_ticket round{};
  run.on().wait_for(word.as<std::uint64_t>(), 1, stream);
  expect_ok(lsched_start_on_stream(sum.get(), stream, &round), "lsched_start_on_stream");
  const double cpu = cpu_while_asleep(seconds);
  std::atomic_ref(*word.as<std::uint64_t>()).store(1, std::memory_order_release);
  expect_ok(lsched_wait(round, k_patience_ns, nullptr), "lsched_wait");
  run.on().synchronise(stream);
  report("a round behind a stream that waits", cpu);
  close(std::move(sum));
  run.print({column("ranks have", "what"), column("cpu ms a second, each", "cpu_ms_per_s", 2)});
}

}  // namespace lsched::bench
