#include "bindings/cli/simulate/fig9_prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

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

namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 256> line;
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

/// A number, or gnuplot's word for none.
std::string measured_text(double value) { return value > 0 ? text(" %.6g", value) : " ?"; }

/// The second block of the data: the same columns, of what was measured.
std::string data_of(const std::vector<fig9_point>& points, const std::vector<fig9_measurement>& measured) {
  std::string lines = "\n\n# measured: ranks, then ms of MPI, majority, solo, then NAP of the three\n";
  for (std::size_t i = 0; i + 2 < points.size(); i += 3) {
    std::string latencies, active;
    for (std::size_t k = i; k < i + 3; ++k) {
      const fig9_measurement* it = find(measured, points[k]);
      latencies += measured_text(it != nullptr ? it->latency_ms : 0);
      active += measured_text(it != nullptr ? it->active : 0);
    }
    lines += std::to_string(points[i].ranks) + latencies + active + "\n";
  }
  return lines;
}

std::string data_of(const std::vector<fig9_point>& points) {
  std::string lines = "# modelled: ranks, then ms of synchronous, majority, solo, then NAP of the three\n";
  for (std::size_t i = 0; i + 2 < points.size(); i += 3)
    lines += text("%d %.6g %.6g %.6g %.6g %.6g %.6g\n", points[i].ranks, points[i].latency_ms, points[i + 1].latency_ms,
                  points[i + 2].latency_ms, points[i].active, points[i + 1].active, points[i + 2].active);
  return lines;
}

std::string script_of(const picture& figure, bool is_measured, const fig9_request& what) {
  std::string lines = "set terminal pngcairo size 1000,900 font 'sans,12'\n";
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\n";
  lines += "set logscale xy 10\nset format xy '10^{%L}'\nset grid\nset lmargin 10\n";
  lines += "set style data linespoints\nset datafile missing '?'\nset key outside top center horizontal\n";
  lines += text(
      "set multiplot layout 2,1 title 'Allreduce under linear skew of %g ms per rank, %llu B: lines are modelled%s'\n",
      static_cast<double>(what.skew) / k_ms, static_cast<unsigned long long>(what.bytes),
      is_measured ? ", points measured" : "");
  for (const int first : {2, 5}) {
    lines += first == 2 ? "set ylabel 'latency, mean over ranks [ms]'\n"
                        : "set ylabel 'active processes (NAP)'\nset xlabel 'ranks'\n";
    lines += "plot " + quoted_for_gnuplot(figure.data());
    lines += text(" index 0 using 1:%d title 'synchronous, modelled' lw 2 lc rgb '#7f7f7f', ", first);
    lines += text("'' index 0 using 1:%d title 'majority, modelled' lw 2 lc rgb '#1f77b4', ", first + 1);
    lines += text("'' index 0 using 1:%d title 'solo, modelled' lw 2 lc rgb '#ff7f0e'", first + 2);
    if (is_measured) {
      const std::string points = " with points pt 7 ps 1.5 lc rgb ";
      if (first == 2) lines += text(", '' index 1 using 1:%d", first) + points + "'#000000' title 'MPI, measured'";
      lines += text(", '' index 1 using 1:%d", first + 1) + points + "'#2ca02c' title 'majority, measured'";
      lines += text(", '' index 1 using 1:%d", first + 2) + points + "'#d62728' title 'solo, measured'";
    }
    lines += "\n";
  }
  return lines + "unset multiplot\n";
}

}  // namespace

void expect_plottable(const std::string& png) {
  if (const auto why = picture(png).objection()) throw command_failure(why->text);
}

const fig9_measurement* find(const std::vector<fig9_measurement>& measured, const fig9_point& point) {
  for (const fig9_measurement& it : measured)
    if (it.ranks == point.ranks && it.policy == point.policy) return &it;
  return nullptr;
}

void plot_fig9_prediction(const std::string& png, const std::vector<fig9_point>& points,
                          const std::vector<fig9_measurement>& measured, const fig9_request& what) {
  const picture figure(png);
  if (const auto why = figure.draw(data_of(points) + (measured.empty() ? "" : data_of(points, measured)),
                                   script_of(figure, !measured.empty(), what)))
    throw command_failure(why->text);
}

}  // namespace lsched::cli
