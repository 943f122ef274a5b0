// Does a rank that computes hold up the others? Two ranks in this process: rank 1 computes for two seconds
// without a call of the library, rank 0 runs solo rounds meanwhile. With a progress thread rank 1 takes part
// in them, with nothing to contribute. Without one (progress=caller) nobody serves rank 1, and rank 0's first
// round ends when rank 1 calls.
#include <array>
#include <atomic>
#include <exception>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>

#include "microbench/benchmarks.h"
#include "microbench/harness.h"
#include "offload/cores.h"

namespace lsched::bench {
namespace {

constexpr int k_ranks = 2;

/// What rank 0 has seen.
struct outcome {
  std::vector<double> us;
  std::uint64_t wrong = 0;
};

/// What the two ranks share besides the library.
struct stage {
  const async_options& options;
  std::latch computing{k_ranks};         ///< both are ready, rank 1 enters its loop
  std::atomic<bool> is_computing{true};  ///< a plain flag: rank 0 may stop a round later
  outcome seen{};                        ///< rank 0 writes, read after the threads have ended
  std::array<std::exception_ptr, k_ranks> errors{};
};

schedule_handle make_solo(lsched_world* runtime, std::uint64_t count) {
  const lsched_partial_desc desc{.struct_size = sizeof desc,
                                 .count = count,
                                 .dtype = LSCHED_F32,
                                 .reduction = LSCHED_SUM,
                                 .activation = "solo",
                                 .seed = 1,
                                 .lag = LSCHED_LATEST,
                                 .algorithm = nullptr};
  lsched_schedule* schedule = nullptr;
  auto why = fresh_diagnostic();
  expect_ok(lsched_partial_create(runtime, &desc, &schedule, &why), "lsched_partial_create", why);
  return schedule_handle(schedule);
}

// Waits in slices, as a caller does who has something else to do in between.
void collect(lsched_ticket ticket, std::vector<float>& result, lsched_report* report) {
  constexpr std::uint64_t k_slice_ns = 50'000'000;
  auto why = fresh_diagnostic();
  const auto start = clock::now();
  lsched_status answer = LSCHED_ERR_TIMEOUT;
  while (answer == LSCHED_ERR_TIMEOUT && ns_between(start, clock::now()) < static_cast<double>(k_patience_ns))
    answer = lsched_collect(ticket, result.data(), k_slice_ns, report, &why);
  expect_ok(answer, "lsched_collect", why);
}

// One solo round; answers its time.
double run_round(const schedule_handle& schedule, const std::vector<float>& ones, std::vector<float>& sum,
                 stage& shared) {
  lsched_ticket ticket{};
  lsched_report report{.struct_size = sizeof report};
  const auto begin = clock::now();
  expect_ok(lsched_offer(schedule.get(), ones.data(), &ticket), "lsched_offer");
  collect(ticket, sum, &report);
  const double us = ns_between(begin, clock::now()) / 1e3;
  const bool is_right = report.from < report.to && report.has_result != 0 &&
                        sum == std::vector<float>(sum.size(), static_cast<float>(report.offers));
  if (!is_right) ++shared.seen.wrong;
  return us;
}

void play_rank_0(lsched_world* runtime, stage& shared) {
  auto schedule = make_solo(runtime, shared.options.count);
  const std::vector<float> ones(shared.options.count, 1.0f);
  std::vector<float> sum(shared.options.count);
  shared.computing.arrive_and_wait();
  while (shared.is_computing.load()) shared.seen.us.push_back(run_round(schedule, ones, sum, shared));
  close(std::move(schedule));
}

void play_rank_1(lsched_world* runtime, stage& shared) {
  auto schedule = make_solo(runtime, shared.options.count);
  shared.computing.arrive_and_wait();
  const auto start = clock::now();
  double x = 1;
  while (ns_between(start, clock::now()) < shared.options.seconds * 1e9)
    for (int i = 0; i < 10'000; ++i) x = x * 1.0000001 + 1e-9;
  keep(&x);
  shared.is_computing.store(false);
  close(std::move(schedule));  // calls the library at last, and serves rank 0 until it leaves too
}

// A failure of one rank must not leave the other waiting for ever: it stops by its own timeouts.
void play(int rank, lsched_world* runtime, stage& shared) {
  try {
    rank == 0 ? play_rank_0(runtime, shared) : play_rank_1(runtime, shared);
  } catch (...) {
    shared.errors[static_cast<std::size_t>(rank)] = std::current_exception();
    shared.is_computing.store(false);
  }
}

outcome measure(lsched_progress_mode progress, const async_options& options) {
  lsched_config config{.struct_size = sizeof config};
  lsched_config_init(&config);
  config.progress = progress;
  std::array<lsched_world*, k_ranks> runtimes{};
  auto why = fresh_diagnostic();
  expect_ok(lsched_world_open_threads(k_ranks, &config, runtimes.data(), &why), "lsched_world_open_threads", why);
  stage shared{.options = options};
  {
    std::array<std::jthread, k_ranks> threads;
    for (int r = 0; r < k_ranks; ++r)
      threads[static_cast<std::size_t>(r)] =
          std::jthread([&shared, r, runtime = runtimes[static_cast<std::size_t>(r)]] { play(r, runtime, shared); });
  }
  for (lsched_world* runtime : runtimes) (void)lsched_world_close(runtime);  // an error may have left schedules
  for (const std::exception_ptr& error : shared.errors)
    if (error) std::rethrow_exception(error);
  return std::move(shared.seen);
}

}  // namespace

int run_async(const async_options& options) {
  reporter out("async", options.json);
  out.say("async: rank 1 computes for %g s, rank 0 runs solo rounds of %llu floats; spin probe %.0f ns one way",
          options.seconds, static_cast<unsigned long long>(options.count), spin_probe_ns(allowed_cores()));
  table lines({"progress", "rounds", "median us", "p95 us", "longest ms"});
  std::uint64_t wrong = 0;
  for (const auto& [mode, name] :
       {std::pair{LSCHED_PROGRESS_THREAD, "thread"}, std::pair{LSCHED_PROGRESS_CALLER, "caller"}}) {
    out.progress("progress=%s", name);
    const outcome seen = measure(mode, options);
    const summary s = summarise(seen.us);
    wrong += seen.wrong;
    lines.add(
        {name, std::to_string(s.samples), text("%.1f", s.median), text("%.1f", s.p95), text("%.2f", s.max / 1e3)});
    out.json({{"bench", "async"},
              {"progress", name},
              {"ranks", k_ranks},
              {"rounds", s.samples},
              {"us_median", s.median},
              {"us_p95", s.p95},
              {"stalled_ms", s.max / 1e3},
              {"wrong", seen.wrong}});
  }
  out.print(lines);
  out.say(
      "Longest: the longest that rank 0 waited for one round. Without a progress thread it waits for rank "
      "1's next call.");
  return wrong > 0 ? 1 : 0;
}

}  // namespace lsched::bench
