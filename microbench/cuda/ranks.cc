#include "microbench/cuda/ranks.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bindings/c/lsched_cuda.h"

namespace lsched::bench {

void attach_device(lsched_world* world) {
  lsched_diagnostic why = fresh_diagnostic();
  lsched_cuda_config config;
  lsched_cuda_config_init(&config);
  config.device = 0;
  const lsched_status answer = lsched_cuda_attach(world, &config, &why);
  if (answer == LSCHED_ERR_UNSUPPORTED) throw no_gpu(why.text);
  expect_ok(answer, "lsched_cuda_attach", why);
}

void shared_turns::take_once(way& each) {
  if (each.open) each.open();
  ranks_.barrier();
  const double cpu = cpu_ms();
  each.us.push_back(us_of([&] { each.round(); }));
  each.cpu_ms += cpu_ms() - cpu;
}

void shared_turns::take(std::vector<way>& ways, std::size_t rounds, double cell_seconds) {
  constexpr std::size_t k_least = 3;
  const auto begin = clock::now();
  for (std::size_t round = 0; round < rounds; ++round) {
    const bool goes_on = round < k_least || (ms_between(begin, clock::now()) < cell_seconds * 1e3 && !run_.is_over());
    if (!ranks_.root_says(goes_on)) break;
    for (way& each : ways) take_once(each);
  }
  for (way& each : ways) {
    each.us = ranks_.combine(each.us, LSCHED_MAX);
    const auto number = static_cast<double>(each.us.size());
    // cpu_ms() measures the whole process, so ranks of one process all have the same value.
    each.cpu_ms = ranks_.combine(each.cpu_ms, run_.options().as_threads ? LSCHED_MAX : LSCHED_SUM) / number;
    each.wrong = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(each.wrong), LSCHED_SUM));
  }
}

namespace {

int run_rank(lsched_world* world, const cuda_options& options) {
  attach_device(world);
  const gpu on;
  const cuda_scope here(on.context());
  team ranks(world);
  reporter out("cuda", options, ranks);
  cuda_run run(options, on, out);
  if (options.part == "allreduce") measure_allreduce(run, ranks);
  if (options.part == "streams") measure_streams(run, ranks);
  if (options.part == "idle") measure_idle(run, ranks);
  return out.finish();
}

int say(const std::exception& why, int status) {
  std::fprintf(stderr, "lsched: %s\n", why.what());
  return status;
}

/// Runs each rank as a thread. If a rank fails, the process ends, because the other ranks would wait for it.
int run_threads(const cuda_options& options) {
  const auto size = static_cast<std::size_t>(options.ranks);
  std::vector<lsched_world*> worlds(size);
  lsched_config config;
  lsched_config_init(&config);
  lsched_diagnostic why = fresh_diagnostic();
  expect_ok(lsched_world_open_threads(options.ranks, &config, worlds.data(), &why), "lsched_world_open_threads", why);
  std::vector<int> answers(size);
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < size; ++r)
      threads.emplace_back([&, r] {
        try {
          answers[r] = run_rank(worlds[r], options);
        } catch (const no_gpu& no) {
          std::_Exit(say(no, k_exit_no_gpu));
        } catch (const std::exception& error) {
          std::_Exit(say(error, 1));
        }
      });
  }
  for (lsched_world* each : worlds) expect_ok(lsched_world_close(each), "lsched_world_close");
  return *std::max_element(answers.begin(), answers.end());
}

}  // namespace

int run_cuda_ranks(lsched_world* world, const cuda_options& options) {
  try {
    return run_rank(world, options);
  } catch (const no_gpu& why) {
    return say(why, k_exit_no_gpu);
  }
}

int run_cuda(const cuda_options& options) {
  try {
    const gpu on;
    if (options.as_threads) return run_threads(options);
    reporter out("cuda", options);
    cuda_run run(options, on, out);
    if (options.part == "machine") measure_machine(run);
    if (options.part == "costs") measure_costs(run);
    if (options.part == "kernels") measure_kernels(run), measure_selections(run);
    return out.finish();
  } catch (const no_gpu& why) {
    return say(why, k_exit_no_gpu);
  }
}

}  // namespace lsched::bench
