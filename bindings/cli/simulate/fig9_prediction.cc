#include "bindings/cli/simulate/fig9_prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/parallel_packing.h"
#include "bindings/cli/simulate/simulation_batch.h"
#include "bindings/gnuplot.h"
#include "collectives/selection.h"
#include "libsched/simulate/schedule_world.h"

namespace lsched::cli {
namespace {

constexpr double k_ms = 1e9;
constexpr std::array k_policies{activation_policy::full, activation_policy::majority, activation_policy::solo};

std::size_t initiators_for(rank ranks) {
  if (ranks <= 64) return static_cast<std::size_t>(ranks);
  return ranks < 100'000 ? 16 : 8;
}

simulation round_of(const fig9_request& what, rank ranks, activation_policy policy, std::size_t i) {
  simulation it{.where = what.where, .skew = {.kind = skew_kind::linear, .scale = what.skew}};
  const std::size_t parts = initiators_for(ranks);
  if (policy == activation_policy::majority)
    it.initiator = static_cast<rank>((2 * i + 1) * static_cast<std::size_t>(ranks) / (2 * parts));
  return it;
}

packed_world world_of(const fig9_request& what, rank ranks, activation_policy policy) {
  const shape data{.count = what.bytes, .type = dtype::u8, .what = kernel::sum};
  return require(packed_in_parallel(ranks, [&](world place) {
    return generate("partial_allreduce", "recursive_doubling", place, data, {.policy = policy});
  }));
}

/// From the first call that counts to the last result.
picoseconds cost_of_round(const simulation& round, const fig9_point& point, const simulation_report& report) {
  if (point.policy == activation_policy::solo) return report.last();
  const rank first = point.policy == activation_policy::majority ? round.initiator : point.ranks - 1;
  return report.last() - round.skew.scale * first;
}

/// Li et al. 2020, Fig. 8 and 9: rank r calls at r * skew. Mean over ranks of the time between its call and its result,
/// if the collective itself, the activation included, takes `cost` from the first call that counts.
picoseconds latency_under_linear_skew(activation_policy policy, rank size, picoseconds skew, picoseconds cost) {
  const auto P = static_cast<double>(size), D = static_cast<double>(skew), c = static_cast<double>(cost);
  if (policy == activation_policy::full) return std::llround((P - 1) / 2 * D + c);  // all wait for the last
  // All up to a rank drawn uniformly wait for it.
  if (policy == activation_policy::majority) return std::llround((P * P - 1) / (6 * P) * D + (P + 1) / (2 * P) * c);
  const double waiting = skew == 0 ? P : std::min(P, std::floor(c / D) + 1);  // before rank 0's result
  return std::llround((waiting * c - waiting * (waiting - 1) / 2 * D) / P);
}

double formula_ms(activation_policy policy, rank ranks, picoseconds skew, picoseconds cost) {
  return static_cast<double>(latency_under_linear_skew(policy, ranks, skew, cost)) / k_ms;
}

}  // namespace

namespace {

/// One world of schedules, and the rounds that are played of it.
fig9_point predict(const fig9_request& what, rank ranks, activation_policy policy) {
  fig9_point point{.ranks = ranks, .policy = policy};
  point.rounds = policy == activation_policy::majority ? initiators_for(ranks) : 1;
  const packed_world world = world_of(what, ranks, policy);
  std::vector<simulation> rounds;
  for (std::size_t i = 0; i < point.rounds; ++i) rounds.push_back(round_of(what, ranks, policy, i));
  std::vector<simulation_task> tasks;
  for (simulation& round : rounds)
    tasks.emplace_back([&](const auto& messages) {
      round.progress = messages;
      return simulate_schedules(world, round);
    });
  const start_times calls(rounds.front().skew, ranks);
  const auto share = static_cast<double>(point.rounds);
  run_batch(tasks, [&](std::size_t i, const simulation_report& report) {
    point.latency_ms += static_cast<double>(mean_latency(report, calls)) / k_ms / share;
    point.active += report.active / share;
    point.formula_ms += formula_ms(policy, ranks, what.skew, cost_of_round(rounds[i], point, report)) / share;
  });
  return point;
}

}  // namespace

std::vector<fig9_point> predict_fig9(const fig9_request& what) {
  std::vector<fig9_point> points;
  for (const rank ranks : what.ranks)
    for (const activation_policy policy : k_policies) points.push_back(predict(what, ranks, policy));
  return points;
}

void expect_plottable(const std::string& png) {
  if (const auto why = picture(png).validate()) throw command_failure(why->text);
}

const fig9_measurement* find(const std::vector<fig9_measurement>& measured, const fig9_point& point) {
  for (const fig9_measurement& it : measured)
    if (it.ranks == point.ranks && it.policy == point.policy) return &it;
  return nullptr;
}

void plot_fig9_prediction(const std::string& png, const std::vector<fig9_point>& points,
                          const std::vector<fig9_measurement>& measured, const fig9_request& what) {
  struct look {
    activation_policy policy;
    const char* modelled;
    const char* measured;
    const char* modelled_color;
    const char* measured_color;
  };
  constexpr std::array k_looks{
      look{activation_policy::full, "synchronous, modelled", "MPI, measured", "#7f7f7f", "#000000"},
      look{activation_policy::majority, "majority, modelled", "majority, measured", "#1f77b4", "#2ca02c"},
      look{activation_policy::solo, "solo, modelled", "solo, measured", "#ff7f0e", "#d62728"}};
  std::array both{plot_diagram{"set logscale xy 10\nset format xy '%g'\nset key outside top center horizontal\n"
                               "set ylabel 'latency, mean over ranks [ms]'\n"},
                  plot_diagram{"set ylabel 'active processes (NAP)'\nset xlabel 'ranks'\n"}};
  const auto add = [&](const char* name, const std::string& style, rank ranks, double latency_ms, double active) {
    if (latency_ms > 0) both[0].named(name, style).points.emplace_back(ranks, latency_ms);
    if (active > 0) both[1].named(name, style).points.emplace_back(ranks, active);
  };
  for (const look& it : k_looks)
    for (const fig9_point& point : points) {
      if (point.policy != it.policy) continue;
      add(it.modelled, "linespoints linewidth 2 linecolor rgb '" + std::string(it.modelled_color) + "'", point.ranks,
          point.latency_ms, point.active);
      if (const fig9_measurement* seen = find(measured, point))
        add(it.measured, "points pointtype 7 pointsize 1.5 linecolor rgb '" + std::string(it.measured_color) + "'",
            point.ranks, seen->latency_ms, it.policy == activation_policy::full ? 0 : seen->active);
    }
  std::ostringstream title;
  title << "Allreduce under linear skew of " << static_cast<double>(what.skew) / k_ms << " ms per rank, " << what.bytes
        << " B: lines are modelled" << (measured.empty() ? "" : ", points measured");
  if (const auto why = picture(png).draw(title.str(), both)) throw command_failure(why->text);
}

}  // namespace lsched::cli
