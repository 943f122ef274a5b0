// `lsched simulate --fig9`: predicts a figure (simulate.h).
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/simulate/simulate.h"
#include "libsched/simulate/simulation.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr double k_ps_per_ms = 1e9;

struct fig9_curve {
  activation_policy policy;  ///< policy of the curve; `full` is the synchronous allreduce
  const char* name;
};

constexpr std::array k_curves{fig9_curve{activation_policy::full, "synchronous"},
                              fig9_curve{activation_policy::majority, "majority"},
                              fig9_curve{activation_policy::solo, "solo"}};

struct fig9_point {
  rank ranks = 0;
  const char* policy = "";
  double latency_ms = 0;   ///< mean latency over ranks and over rounds
  double active = 0;       ///< mean number of active processes
  std::size_t rounds = 0;  ///< number of simulated rounds
};

struct fig9_request {
  std::vector<rank> ranks{32, 256, 4096, 32768, 1'000'000};
  std::uint64_t bytes = 64;
  machine where{};
  picoseconds skew = 0;  ///< time between the calls of neighbouring ranks: rank r calls at r * skew
};

// --- the model ---------------------------------------------------------------------------------------------

/// Returns the rounds to simulate. With policy `majority` there is one round for each initiator that predict_fig9()
/// samples. With the other policies there is one round.
std::vector<simulation> rounds_of(const fig9_request& request, rank ranks, activation_policy policy) {
  const simulation first{.where = request.where, .skew = {.kind = skew_kind::linear, .scale = request.skew}};
  if (policy != activation_policy::majority) return {first};
  const std::int64_t parts = ranks <= 64 ? ranks : ranks < 100'000 ? 16 : 8;
  std::vector<simulation> rounds(static_cast<std::size_t>(parts), first);
  for (std::int64_t i = 0; i < parts; ++i)
    rounds[static_cast<std::size_t>(i)].initiator = static_cast<rank>((2 * i + 1) * ranks / (2 * parts));
  return rounds;
}

fig9_point predict(const fig9_request& request, rank ranks, const fig9_curve& curve) {
  const shape data{.count = request.bytes, .type = dtype::u8, .what = kernel::sum};
  const packed_world world = require(packed_in_parallel(ranks, [&](lsched::world place) {
    return generate("partial_allreduce", "recursive_doubling", place, data, {.policy = curve.policy});
  }));
  const std::vector<simulation> rounds = rounds_of(request, ranks, curve.policy);
  const start_times calls(rounds.front().skew, ranks);
  fig9_point point{.ranks = ranks, .policy = curve.name, .rounds = rounds.size()};
  const auto share = static_cast<double>(point.rounds);
  run_batch(
      rounds.size(),
      [&](std::size_t i, const simulation_progress& progress) {
        simulation round = rounds[i];
        round.progress = progress;
        return simulate_schedules(world, round);
      },
      [&](std::size_t, const simulation_report& report) {
        point.latency_ms += static_cast<double>(mean_latency(report, calls)) / k_ps_per_ms / share;
        point.active += report.active / share;
      });
  return point;
}

// --- output ------------------------------------------------------------------------------------------------

json describe(const fig9_point& point) {
  return {{"kind", "modelled"},          {"ranks", point.ranks}, {"policy", point.policy},
          {"mean_ms", point.latency_ms}, {"nap", point.active},  {"rounds", point.rounds}};
}

void print(const fig9_request& request, const std::vector<fig9_point>& points) {
  std::printf("Modelled, not measured: linear skew of %g us per rank, %llu B.\n\n",
              static_cast<double>(request.skew) / k_ps_per_us, static_cast<unsigned long long>(request.bytes));
  std::printf("%10s  %-12s %14s %12s\n", "ranks", "policy", "modelled ms", "modelled NAP");
  for (const fig9_point& point : points)
    std::printf("%10d  %-12s %14.6g %12.1f\n", point.ranks, point.policy, point.latency_ms, point.active);
}

}  // namespace

int predict_fig9(const simulate_options& options, bool has_ranks) {
  fig9_request request{.bytes = options.bytes.front(), .where = options.model.where, .skew = options.model.skew.scale};
  if (has_ranks) request.ranks = options.ranks;
  std::vector<fig9_point> points;
  for (const rank ranks : request.ranks)
    for (const fig9_curve& curve : k_curves) points.push_back(predict(request, ranks, curve));
  if (options.json.empty())
    print(request, points);
  else
    for (const fig9_point& point : points) std::printf("%s\n", json_text(describe(point)).c_str());
  return 0;
}

}  // namespace lsched::cli
