#include "bindings/cli/simulate/calibration.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cli/common/errors.h"
#include "collectives/selection.h"
#include "libsched/simulate/schedule_world.h"

namespace lsched::cli {
namespace {

using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

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

/// What one rank sees of a schedule.
round_times time_at(lsched_world* world, const make_schedule& make) {
  lsched_schedule* schedule = make(world);
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

/// Every rank is a thread.
class thread_world {
 public:
  explicit thread_world(std::int32_t ranks) : worlds_(static_cast<std::size_t>(ranks)) {
    lsched_config config;
    lsched_config_init(&config);
    config.progress = LSCHED_PROGRESS_CALLER;
    require(lsched_world_open_threads(ranks, &config, worlds_.data(), nullptr), "lsched_world_open_threads");
  }
  ~thread_world() {
    for (lsched_world* world : worlds_) (void)lsched_world_close(world);
  }
  thread_world(const thread_world&) = delete;
  thread_world& operator=(const thread_world&) = delete;

  /// What rank 0 sees.
  round_times time(const make_schedule& make) {
    std::vector<std::future<round_times>> ranks;
    for (lsched_world* world : worlds_)
      ranks.push_back(std::async(std::launch::async, [world, &make] { return time_at(world, make); }));
    std::vector<round_times> seen;
    for (auto& rank : ranks) seen.push_back(rank.get());
    return seen.front();
  }

 private:
  std::vector<lsched_world*> worlds_;
};

/// An allreduce of so many bytes; the memory lives as long as the function.
make_schedule allreduce(const char* algorithm, std::uint64_t bytes, std::size_t ranks) {
  const auto memory = std::make_shared<std::vector<std::vector<float>>>(2 * ranks, std::vector<float>(bytes / 4 + 1));
  return [=](lsched_world* world) {
    const auto self = static_cast<std::size_t>(lsched_rank(world));
    lsched_allreduce_desc desc{};
    desc.struct_size = sizeof desc;
    desc.input = (*memory)[2 * self].data();
    desc.output = (*memory)[2 * self + 1].data();
    desc.count = bytes / 4;
    desc.dtype = LSCHED_F32;
    desc.reduction = LSCHED_SUM;
    desc.algorithm = algorithm;
    lsched_schedule* schedule = nullptr;
    require(lsched_allreduce_create(world, &desc, &schedule, nullptr), "lsched_allreduce_create");
    return schedule;
  };
}

/// Rank 0 sends `count` messages to rank 1, which answers with one when it has them all.
lsched_schedule* make_burst(lsched_world* world, std::uint32_t count) {
  static const std::array<std::uint8_t, k_short> k_payload{};
  const bool is_first = lsched_rank(world) == 0;
  lsched_builder* builder = nullptr;
  require(lsched_builder_create(world, "burst", &builder), "lsched_builder_create");
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
    lsched_op message;
    require(is_first ? lsched_add_send(builder, 1, tag, payload, &message)
                     : lsched_add_recv(builder, 0, tag, landing(), &message),
            "message");
    if (!is_first) require(lsched_add_dep(builder, message, answer), "lsched_add_dep");
  }
  const void* inputs[] = {k_payload.data()};
  lsched_schedule* schedule = nullptr;
  require(lsched_builder_commit(builder, inputs, nullptr, &schedule, nullptr), "lsched_builder_commit");
  return schedule;
}

struct prediction {
  std::string algorithm;
  std::int32_t ranks = 0;
  std::uint64_t bytes = 0;
  double measured_us = 0;
  double modelled_us = 0;
  bool is_crowded = false;  ///< more ranks than cores: the model gives each rank a CPU of its own
};

struct calibration {
  double L_ns = 0, o_ns = 0, g_ns = 0;
  double G_ns_per_byte = 0;  ///< includes combining a byte
  double spread = 0;         ///< of a short round over the repetitions: (longest - shortest) / median
  std::vector<prediction> predictions{};
  std::string error{};  ///< why the numbers are not usable; empty if they are
};

/// What the same schedules take on the machine that was found.
double model_us(const calibration& found, const char* algorithm, std::int32_t ranks, std::uint64_t bytes) {
  simulation model;
  model.where.levels[0].cost = {.L = static_cast<picoseconds>(found.L_ns * 1e3),
                                .o = static_cast<picoseconds>(found.o_ns * 1e3),
                                .g = static_cast<picoseconds>(found.g_ns * 1e3),
                                .G = static_cast<femtoseconds>(found.G_ns_per_byte * 1e6)};
  std::vector<schedule_ptr> programs;
  for (rank r = 0; r < ranks; ++r)
    programs.push_back(require(
        generate("allreduce", algorithm, {r, ranks}, {.count = bytes / 4, .type = dtype::f32, .what = kernel::sum})));
  return static_cast<double>(require(simulate_schedules(programs, model)).last()) / 1e6;
}

/// What one repetition sees, ns.
struct sample {
  double short_round = 0, start = 0, long_round = 0, gap = 0;
};

sample measure() {
  thread_world pair(2);
  const auto exchange = [&](std::uint64_t bytes) { return pair.time(allreduce("recursive_doubling", bytes, 2)); };
  const round_times short_one = exchange(k_short);
  const double one = pair.time([](lsched_world* world) { return make_burst(world, 1); }).round_ns;
  const double many = pair.time([](lsched_world* world) { return make_burst(world, k_burst); }).round_ns;
  return {short_one.round_ns, short_one.start_ns, exchange(k_long).round_ns, (many - one) / (k_burst - 1)};
}

calibration fit() {
  std::vector<double> shorts, starts, longs, gaps;
  for (std::size_t i = 0; i < k_repetitions; ++i) {
    const sample seen = measure();
    shorts.push_back(seen.short_round);
    starts.push_back(seen.start);
    longs.push_back(seen.long_round);
    gaps.push_back(seen.gap);
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
  for (const auto& [algorithm, ranks, bytes, measured, modelled, is_crowded] : found.predictions)
    if (!is_crowded) worst = std::max({worst, modelled / measured - 1, measured / modelled - 1});
  if (worst > k_most_error)
    return text("a prediction is off by a factor of %.1f", 1 + worst) + text(", more than %.1f", 1 + k_most_error);
  return "";
}

calibration calibrate_this_machine() {
  calibration found = fit();
  const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  for (const std::int32_t ranks : {2, 3, 4})
    for (const char* algorithm : {"recursive_doubling", "tree"})
      for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{65536}}) {
        thread_world world(ranks);
        const double measured = world.time(allreduce(algorithm, bytes, static_cast<std::size_t>(ranks))).round_ns / 1e3;
        found.predictions.push_back(
            {algorithm, ranks, bytes, measured, model_us(found, algorithm, ranks, bytes), ranks > cores});
      }
  found.error = validate(found);
  return found;
}

json describe(const calibration& found) {
  json all{{"kind", "calibration"},
           {"L_ns", found.L_ns},
           {"o_ns", found.o_ns},
           {"g_ns", found.g_ns},
           {"G_ns_per_byte", found.G_ns_per_byte},
           {"spread", found.spread}};
  if (!found.error.empty()) all["not_usable"] = found.error;
  for (const prediction& each : found.predictions)
    all["predictions"].push_back({{"algorithm", each.algorithm},
                                  {"ranks", each.ranks},
                                  {"bytes", each.bytes},
                                  {"measured_us", each.measured_us},
                                  {"modelled_us", each.modelled_us},
                                  {"is_crowded", each.is_crowded}});
  return all;
}

void print(const calibration& found) {
  std::printf(
      "Measured between two threads of this machine, quick rounds, medians of repetitions (spread %.0f%%):\n"
      "  --L %.0f --o %.0f --g %.0f --G %.4f\n\n",
      100 * found.spread, found.L_ns, found.o_ns, found.g_ns, found.G_ns_per_byte);
  std::printf("%-20s %6s %9s %14s %14s %8s\n", "allreduce", "ranks", "bytes", "measured us", "modelled us", "error");
  for (const auto& [algorithm, ranks, bytes, measured, modelled, is_crowded] : found.predictions)
    std::printf("%-20s %6d %9llu %14.3f %14.3f %+7.0f%%%s\n", algorithm.c_str(), ranks,
                static_cast<unsigned long long>(bytes), measured, modelled, 100 * (modelled / measured - 1),
                is_crowded ? "  more ranks than cores" : "");
  std::printf(
      "\nWhat this cannot know: a network (there was none), congestion, what more ranks than cores cost each\n"
      "other in wake-ups, and L and o apart from each other: o is the time a start takes its caller, L is the\n"
      "rest of a hop.\n");
  if (found.L_ns <= 1) std::printf("Here nothing is left for L: only 2o + L is known.\n");
}

}  // namespace

int calibrate(bool as_json) {
  const calibration found = calibrate_this_machine();
  if (as_json)
    std::printf("%s\n", describe(found).dump().c_str());
  else
    print(found);
  if (found.error.empty()) return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "lsched: not usable: %s\n", found.error.c_str());
  return 1;
}

}  // namespace lsched::cli
