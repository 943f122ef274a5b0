#include "bindings/cli/simulate/calibration.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "bindings/cli/common/errors.h"
#include "collectives/selection.h"
#include "libsched/simulate/schedule_world.h"

namespace lsched::cli {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t k_patience_ns = 20'000'000'000;
constexpr std::size_t k_batches = 200;
constexpr std::size_t k_rounds = 5;  ///< of a batch: few, so that some batches have none in which a thread slept
constexpr std::size_t k_repetitions = 5;
constexpr double k_quick = 0.1;                          ///< share of the batches that are taken to have spun
constexpr double k_most_spread = 0.5, k_most_error = 1;  ///< beyond them the numbers are not usable
constexpr std::uint32_t k_burst = 33;                    ///< messages sent back to back, against one
constexpr std::uint64_t k_short = 8, k_long = 32'768;    ///< bytes

double ns_between(clock::time_point begin, clock::time_point end) {
  return std::chrono::duration<double, std::nano>(end - begin).count();
}

double quantile(std::vector<double> values, double q) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Makes a schedule of one rank. Collective.
using make_schedule = std::function<lsched_schedule*(lsched_world*)>;

struct round_times {
  double round_ns = 0;  ///< a round, from start to end, rounds back to back
  double start_ns = 0;  ///< what lsched_start takes its caller
};

/// What rank 0 sees; every rank is a thread.
class thread_world {
 public:
  explicit thread_world(std::int32_t ranks) : runtimes_(static_cast<std::size_t>(ranks)) {
    lsched_config config;
    lsched_config_init(&config);
    config.progress = LSCHED_PROGRESS_CALLER;
    require(lsched_world_open_threads(ranks, &config, runtimes_.data(), nullptr), "lsched_world_open_threads");
  }
  ~thread_world() {
    for (lsched_world* it : runtimes_) (void)lsched_world_close(it);
  }
  thread_world(const thread_world&) = delete;
  thread_world& operator=(const thread_world&) = delete;

  round_times time(const make_schedule& make) {
    round_times seen;
    std::vector<std::exception_ptr> faults(runtimes_.size());
    {
      std::vector<std::jthread> ranks;
      for (std::size_t r = 0; r < runtimes_.size(); ++r)
        ranks.emplace_back([&, r] {
          try {
            const round_times mine = play(runtimes_[r], make);
            if (r == 0) seen = mine;
          } catch (...) {
            faults[r] = std::current_exception();
          }
        });
    }
    for (const std::exception_ptr& fault : faults)
      if (fault) std::rethrow_exception(fault);
    return seen;
  }

 private:
  static round_times play(lsched_world* here, const make_schedule& make) {
    lsched_schedule* schedule = make(here);
    std::vector<double> rounds, starts;
    for (std::size_t batch = 0; batch < k_batches; ++batch) {
      const auto begin = clock::now();
      for (std::size_t i = 0; i < k_rounds; ++i) require(lsched_run(schedule, k_patience_ns, nullptr), "lsched_run");
      rounds.push_back(ns_between(begin, clock::now()) / k_rounds);
    }
    for (std::size_t i = 0; i < k_batches * k_rounds; ++i) {
      lsched_ticket ticket;
      const auto begin = clock::now();
      require(lsched_start(schedule, &ticket), "lsched_start");
      starts.push_back(ns_between(begin, clock::now()));
      require(lsched_wait(ticket, k_patience_ns, nullptr), "lsched_wait");
    }
    require(lsched_schedule_destroy(schedule, k_patience_ns, nullptr), "lsched_schedule_destroy");
    return {quantile(rounds, k_quick), quantile(starts, k_quick)};
  }

  std::vector<lsched_world*> runtimes_;
};

/// An allreduce of so many bytes; the memory lives as long as the function.
make_schedule allreduce(const char* algorithm, std::uint64_t bytes, std::size_t ranks) {
  const auto memory = std::make_shared<std::vector<std::vector<float>>>(2 * ranks, std::vector<float>(bytes / 4 + 1));
  return [=](lsched_world* here) {
    const auto self = static_cast<std::size_t>(lsched_rank(here));
    lsched_allreduce_desc desc{};
    desc.struct_size = sizeof desc;
    desc.input = (*memory)[2 * self].data();
    desc.output = (*memory)[2 * self + 1].data();
    desc.count = bytes / 4;
    desc.dtype = LSCHED_F32;
    desc.reduction = LSCHED_SUM;
    desc.algorithm = algorithm;
    lsched_schedule* schedule = nullptr;
    require(lsched_allreduce_create(here, &desc, &schedule, nullptr), "lsched_allreduce_create");
    return schedule;
  };
}

/// Rank 0 sends `count` messages to rank 1, which answers with one when it has them all.
lsched_schedule* make_burst(lsched_world* here, std::uint32_t count) {
  static const std::array<std::uint8_t, k_short> k_payload{};
  const bool is_first = lsched_rank(here) == 0;
  lsched_builder* builder = nullptr;
  require(lsched_builder_create(here, "burst", &builder), "lsched_builder_create");
  const auto landing = [&] {
    lsched_slot slot;
    require(lsched_slot_scratch(builder, LSCHED_U8, k_short, &slot), "lsched_slot_scratch");
    return lsched_region{slot, 0, k_short};
  };
  lsched_slot input;
  require(lsched_slot_input(builder, LSCHED_U8, k_short, &input), "lsched_slot_input");
  const lsched_region payload{input, 0, k_short};
  lsched_op answer;
  require(
      is_first ? lsched_add_recv(builder, 1, 0, landing(), &answer) : lsched_add_send(builder, 0, 0, payload, &answer),
      "answer");
  for (std::uint32_t tag = 1; tag <= count; ++tag) {
    lsched_op it;
    require(
        is_first ? lsched_add_send(builder, 1, tag, payload, &it) : lsched_add_recv(builder, 0, tag, landing(), &it),
        "message");
    if (!is_first) require(lsched_add_dep(builder, it, answer), "lsched_add_dep");
  }
  const void* inputs[] = {k_payload.data()};
  lsched_schedule* schedule = nullptr;
  require(lsched_builder_commit(builder, inputs, nullptr, &schedule, nullptr), "lsched_builder_commit");
  return schedule;
}

/// What the same schedules take on the machine that was found.
double model_us(const calibration& found, const char* algorithm, std::int32_t ranks, std::uint64_t bytes) {
  simulation what;
  what.where.levels[0].cost = {.L = static_cast<picoseconds>(found.L_ns * 1e3),
                               .o = static_cast<picoseconds>(found.o_ns * 1e3),
                               .g = static_cast<picoseconds>(found.g_ns * 1e3),
                               .G = static_cast<femtoseconds>(found.G_ns_per_byte * 1e6)};
  std::vector<schedule_ptr> programs;
  for (rank r = 0; r < ranks; ++r)
    programs.push_back(require(
        generate("allreduce", algorithm, {r, ranks}, {.count = bytes / 4, .type = dtype::f32, .what = kernel::sum})));
  return static_cast<double>(require(simulate_schedules(programs, what)).last()) / 1e6;
}

/// What one repetition sees, ns.
struct sample {
  double short_round = 0, start = 0, long_round = 0, gap = 0;
};

sample measure() {
  thread_world pair(2);
  const auto exchange = [&](std::uint64_t bytes) { return pair.time(allreduce("recursive_doubling", bytes, 2)); };
  const round_times short_one = exchange(k_short);
  const double one = pair.time([](lsched_world* here) { return make_burst(here, 1); }).round_ns;
  const double many = pair.time([](lsched_world* here) { return make_burst(here, k_burst); }).round_ns;
  return {short_one.round_ns, short_one.start_ns, exchange(k_long).round_ns, (many - one) / (k_burst - 1)};
}

calibration fit() {
  std::vector<double> shorts, starts, longs, gaps;
  for (std::size_t i = 0; i < k_repetitions; ++i) {
    const sample it = measure();
    shorts.push_back(it.short_round), starts.push_back(it.start), longs.push_back(it.long_round),
        gaps.push_back(it.gap);
  }
  const double round = median(shorts);
  calibration found;
  found.spread = (*std::ranges::max_element(shorts) - *std::ranges::min_element(shorts)) / round;
  found.o_ns = std::min(median(starts), round / 2);
  found.L_ns = std::max(1.0, round - 2 * found.o_ns);
  found.g_ns = std::max(0.0, median(gaps));
  found.G_ns_per_byte = std::max(0.0, (median(longs) - round) / (k_long - k_short));
  return found;
}

std::string text(const char* format, double value) {
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(), format, value);
  return line.data();
}

/// Predictions for more ranks than cores are not held against the numbers.
std::string validate(const calibration& found) {
  if (found.spread > k_most_spread)
    return text("a short round's time varied by %.0f%% of its median", 100 * found.spread) +
           text(", more than %.0f%%", 100 * k_most_spread);
  double worst = 0;
  for (const prediction& it : found.predictions)
    if (!it.is_crowded)
      worst = std::max({worst, it.modelled_us / it.measured_us - 1, it.measured_us / it.modelled_us - 1});
  if (worst > k_most_error)
    return text("a prediction is off by a factor of %.1f", 1 + worst) + text(", more than %.1f", 1 + k_most_error);
  return "";
}

}  // namespace

calibration calibrate_this_machine() {
  calibration found = fit();
  const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  for (const std::int32_t ranks : {2, 3, 4})
    for (const char* algorithm : {"recursive_doubling", "tree"})
      for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{65536}}) {
        thread_world here(ranks);
        const double measured = here.time(allreduce(algorithm, bytes, static_cast<std::size_t>(ranks))).round_ns / 1e3;
        found.predictions.push_back(
            {algorithm, ranks, bytes, measured, model_us(found, algorithm, ranks, bytes), ranks > cores});
      }
  found.error = validate(found);
  return found;
}

}  // namespace lsched::cli
