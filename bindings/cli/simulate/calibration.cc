// `lsched simulate --calibrate`: measures this machine (simulate.h).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/simulate/simulate.h"
#include "bindings/progress_line.h"
#include "libsched/simulate/simulation.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"

// Included last, because the public API has the same names as the library.
#include "bindings/cpp/lsched.hpp"

namespace lsched::cli {
namespace {

using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

constexpr std::size_t k_repetitions = 5;
constexpr double k_most_spread = 0.5, k_most_error = 1;  ///< limits above which the numbers are not usable
constexpr std::uint32_t k_burst = 33;                    ///< number of messages of a burst; its time is compared with
                                                         ///< the time of one message
constexpr std::uint64_t k_short = 8, k_long = 32'768;    ///< bytes of short and of long messages

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// --- measuring, through the public C++ API -------------------------------------------------------------------

constexpr cpp::timeout k_patience = std::chrono::seconds(20);
constexpr std::size_t k_batches = 200;
constexpr double k_quick = 0.1;      ///< the calibration uses this quantile of the measured times, to exclude batches
                                     ///< in which a thread slept
constexpr std::size_t k_rounds = 5;  ///< rounds of a batch; the number is small, so that in some batches no thread
                                     ///< sleeps

template <class Work>
double ns_of(const Work& work) {
  const auto begin = clock::now();
  work();
  return std::chrono::duration<double, std::nano>(clock::now() - begin).count();
}

/// The times that rank 0 measures.
struct round_times {
  double round_ns = 0;  ///< time of a whole round, if rounds run back to back
  double start_ns = 0;  ///< time that the caller needs to start a round
};

round_times time_rounds(cpp::schedule of) {
  std::vector<double> rounds, starts;
  for (std::size_t batch = 0; batch < k_batches; ++batch)
    rounds.push_back(ns_of([&] {
                       for (std::size_t i = 0; i < k_rounds; ++i) of.run(k_patience);
                     }) /
                     k_rounds);
  for (std::size_t i = 0; i < k_batches * k_rounds; ++i) {
    cpp::ticket round;
    starts.push_back(ns_of([&] { round = of.start(); }));
    round.wait(k_patience);
  }
  of.close();
  return {quantile(rounds, k_quick), quantile(starts, k_quick)};
}

/// The kind of memory of buffers. Long messages are transferred in different ways, depending on this kind.
enum class memory_kind : std::uint8_t { malloced, shared };
constexpr std::array k_kinds{memory_kind::malloced, memory_kind::shared};
constexpr const char* name_of(memory_kind kind) { return kind == memory_kind::shared ? "lsched_alloc" : "malloc"; }

/// Measures the time of rounds in a world whose ranks are threads. Each rank has memory for `elements` elements. `make`
/// creates the schedule of one rank.
template <class Make>
round_times time_world(std::int32_t ranks, std::uint64_t elements, memory_kind kind, const Make& make) {
  lsched_config config = cpp::world::default_config();
  config.progress = LSCHED_PROGRESS_CALLER;
  std::vector<cpp::world> worlds = cpp::world::open_threads(ranks, config);
  std::vector<std::future<round_times>> threads;
  for (cpp::world& each : worlds)
    threads.push_back(std::async(std::launch::async, [&each, &make, elements, kind] {
      std::vector<float> malloced(kind == memory_kind::malloced ? elements : 0);
      std::span<float> memory(malloced);
      if (kind == memory_kind::shared) memory = each.allocate<float>(elements);
      std::ranges::fill(memory, 0.0f);
      return time_rounds(make(each, memory));
    }));
  std::vector<round_times> seen;
  for (auto& thread : threads) seen.push_back(thread.get());
  return seen.front();
}

round_times time_allreduce(const char* algorithm, std::int32_t ranks, std::uint64_t bytes, memory_kind kind) {
  const std::uint64_t count = bytes / sizeof(float);
  return time_world(ranks, 2 * count, kind, [&](cpp::world& here, std::span<float> memory) {
    return here.allreduce<float>(memory.first(count), memory.last(count), LSCHED_SUM, algorithm);
  });
}

/// Measures the time of bursts: rank 0 sends `messages` messages to rank 1. After rank 1 has received all of them, it
/// replies with one message.
round_times time_burst(std::uint32_t messages) {
  return time_world(2, k_short / sizeof(float), memory_kind::malloced, [&](cpp::world& here, std::span<float> memory) {
    const bool is_first = here.rank() == 0;
    cpp::builder steps(here, "burst");
    const lsched_region payload{steps.input<std::uint8_t>(k_short), 0, k_short};
    const auto landing = [&] { return lsched_region{steps.scratch<std::uint8_t>(k_short), 0, k_short}; };
    const lsched_op answer = is_first ? steps.recv(1, 0, landing()) : steps.send(0, 0, payload);
    for (std::uint32_t tag = 1; tag <= messages; ++tag) {
      const lsched_op message = is_first ? steps.send(1, tag, payload) : steps.recv(0, tag, landing());
      if (!is_first) steps.dep(message, answer);
    }
    const void* const input = memory.data();
    return steps.commit({&input, 1}, {});
  });
}

// --- comparison with the model -------------------------------------------------------------------------------

constexpr std::size_t index_of(memory_kind kind) { return static_cast<std::size_t>(kind); }

struct calibration {
  double L_ns = 0, o_ns = 0, g_ns = 0;
  std::array<double, k_kinds.size()> G_ns_per_byte{};  ///< time per byte, by kind of memory; includes the time to
                                                       ///< reduce a byte
  double spread = 0;  ///< spread of the time of a short round over the repetitions: (longest - shortest) / median
};

/// Returns the simulated time of an allreduce on the machine with the measured parameters.
double model_us(const calibration& found, const char* algorithm, std::int32_t ranks, std::uint64_t bytes,
                memory_kind kind) {
  auto model = simulate_options{}.model;
  model.where.levels[0].cost = {.L = static_cast<picoseconds>(found.L_ns * 1e3),
                                .o = static_cast<picoseconds>(found.o_ns * 1e3),
                                .g = static_cast<picoseconds>(found.g_ns * 1e3),
                                .G = static_cast<femtoseconds>(found.G_ns_per_byte[index_of(kind)] * 1e6)};
  std::vector<schedule_ptr> programs;
  for (rank r = 0; r < ranks; ++r)
    programs.push_back(require(
        generate("allreduce", algorithm, {r, ranks}, {.count = bytes / 4, .type = dtype::f32, .what = kernel::sum})));
  return static_cast<double>(require(simulate_schedules(programs, model)).last()) / 1e6;
}

calibration fit(progress_line& line) {
  std::vector<double> shorts, starts, gaps;
  std::array<std::vector<double>, k_kinds.size()> longs;
  for (std::size_t i = 0; i < k_repetitions; ++i) {
    line.show([&] { return "repetition " + std::to_string(i + 1) + " of " + std::to_string(k_repetitions); });
    const round_times short_one = time_allreduce("recursive_doubling", 2, k_short, memory_kind::malloced);
    shorts.push_back(short_one.round_ns);
    starts.push_back(short_one.start_ns);
    for (const memory_kind kind : k_kinds)
      longs[index_of(kind)].push_back(time_allreduce("recursive_doubling", 2, k_long, kind).round_ns);
    gaps.push_back((time_burst(k_burst).round_ns - time_burst(1).round_ns) / (k_burst - 1));
  }
  const double round = median(shorts);
  calibration found;
  found.spread = (*std::ranges::max_element(shorts) - *std::ranges::min_element(shorts)) / round;
  found.o_ns = std::min(median(starts), round / 2);
  found.L_ns = std::max(1.0, round - 2 * found.o_ns);
  found.g_ns = std::max(0.0, median(gaps));
  for (const memory_kind kind : k_kinds)
    found.G_ns_per_byte[index_of(kind)] = std::max(0.0, (median(longs[index_of(kind)]) - round) / (k_long - k_short));
  return found;
}

std::string text(const char* format, double value) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), format, value);
  return line.data();
}

/// Returns the reason why the numbers are not usable, or an empty string if they are usable. `worst` is the largest
/// relative error of a prediction.
std::string error_of(const calibration& found, double worst) {
  if (found.spread > k_most_spread)
    return text("the time of a short round varied by %.0f%% of the median", 100 * found.spread) +
           text(", more than %.0f%%: repeat the calibration on an idle machine", 100 * k_most_spread);
  if (worst > k_most_error)
    return text("a prediction is off by a factor of %.1f", 1 + worst) +
           text(", more than %.1f: repeat the calibration on an idle machine", 1 + k_most_error);
  return "";
}

/// Compares measured and modelled times. Ignores the errors of predictions for more ranks than cores, because in the
/// model each rank has a separate CPU.
json compare(const calibration& found, progress_line& line) {
  json all{{"kind", "calibration"},
           {"L_ns", found.L_ns},
           {"o_ns", found.o_ns},
           {"g_ns", found.g_ns},
           {"G_ns_per_byte", found.G_ns_per_byte[index_of(memory_kind::malloced)]},
           {"G_alloc_ns_per_byte", found.G_ns_per_byte[index_of(memory_kind::shared)]},
           {"spread", found.spread}};
  const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  double worst = 0;
  for (const std::int32_t ranks : {2, 3, 4})
    for (const char* algorithm : {"recursive_doubling", "tree"})
      for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{65536}})
        for (const memory_kind kind : k_kinds) {
          line.show([&] { return "comparing: " + std::to_string(ranks) + " ranks, " + algorithm; });
          const double measured = time_allreduce(algorithm, ranks, bytes, kind).round_ns / 1e3;
          const double modelled = model_us(found, algorithm, ranks, bytes, kind);
          if (ranks <= cores) worst = std::max({worst, modelled / measured - 1, measured / modelled - 1});
          all["predictions"].push_back({{"algorithm", algorithm},
                                        {"ranks", ranks},
                                        {"bytes", bytes},
                                        {"memory", name_of(kind)},
                                        {"measured_us", measured},
                                        {"modelled_us", modelled},
                                        {"is_crowded", ranks > cores}});
        }
  if (const std::string error = error_of(found, worst); !error.empty()) all["not_usable"] = error;
  return all;
}

void print(const calibration& found, const json& predictions) {
  std::printf(
      "Measured between two threads of this machine, quick rounds, medians of repetitions (spread %.0f%%):\n"
      "  --L %.0f --o %.0f --g %.0f --G %.4f\nand --G %.4f for buffers from lsched_alloc\n\nAllreduces, measured and "
      "modelled; crowded: with more ranks than cores\n",
      100 * found.spread, found.L_ns, found.o_ns, found.g_ns, found.G_ns_per_byte[index_of(memory_kind::malloced)],
      found.G_ns_per_byte[index_of(memory_kind::shared)]);
  for (const json& row : predictions) std::printf("  %s\n", text_of(row).c_str());
  std::printf(
      "\nNot measured: a network, congestion, and the cost of wake-ups if there are more ranks than cores.\n"
      "L and o cannot be measured separately: o is the time of a start call, L is the rest of a hop.\n");
  if (found.L_ns <= 1) std::printf("On this machine L is too small to measure: only the sum 2o + L is known.\n");
}

}  // namespace

int calibrate(bool as_json) {
  progress_line line;
  const calibration found = fit(line);
  const json all = compare(found, line);
  const auto held = line.erase();
  if (as_json)
    std::printf("%s\n", json_text(all).c_str());
  else
    print(found, all["predictions"]);
  if (!all.contains("not_usable")) return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "lsched: the calibration is not usable: %s\n", text_of(all["not_usable"]).c_str());
  return 1;
}

}  // namespace lsched::cli
