// `lsched simulate --fig9`: predicts a figure (simulate.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/common/date_of.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/picture/builders.h"
#include "bindings/cli/simulate/simulate.h"
#include "bindings/gnuplot.h"
#include "bindings/input_file.h"
#include "bindings/requests/requests.h"
#include "bindings/simulation/simulation.h"
#include "collectives/selection.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr double k_ps_per_ms = 1e9;

/// A curve of the figure.
struct fig9_curve {
  activation_policy policy;  ///< policy of the curve; `full` is the synchronous allreduce
  const char* name;
  const char* name_in_file;  ///< name of the curve in files of `lsched bench fig9 --json`
  const char* color;
  const char* measured_color;
};

constexpr std::array k_curves{fig9_curve{activation_policy::full, "synchronous", "mpi", "#7f7f7f", "#000000"},
                              fig9_curve{activation_policy::majority, "majority", "majority", "#1f77b4", "#2ca02c"},
                              fig9_curve{activation_policy::solo, "solo", "solo", "#ff7f0e", "#d62728"}};

/// A point of a curve, modelled or measured.
struct fig9_point {
  rank ranks = 0;
  const fig9_curve* curve = nullptr;
  double latency_ms = 0;   ///< mean latency over ranks and over rounds (iterations, if measured)
  double active = 0;       ///< mean number of active processes; 0 for MPI, which does not count them
  double formula_ms = 0;   ///< only for modelled points: latency from a closed formula, with the simulated cost of the
                           ///< collective
  std::size_t rounds = 0;  ///< number of simulated rounds; 0 for a measured point
};
using fig9_points = std::vector<fig9_point>;

struct fig9_request {
  std::vector<rank> ranks{32, 256, 4096, 32768, 1'000'000};
  std::uint64_t bytes = 64;
  machine where{};
  picoseconds skew = 0;  ///< time between the calls of neighbouring ranks: rank r calls at r * skew
};

// --- measurements ------------------------------------------------------------------------------------------

fig9_point measured_point_of(const json& row) {
  const auto name = row.at("what").get<std::string>();
  const auto curve = std::ranges::find_if(k_curves, [&](const fig9_curve& each) { return each.name_in_file == name; });
  if (curve == k_curves.end()) throw command_failure("\"" + name + "\" is neither mpi, solo nor majority");
  const json active = row.value("nap", json());
  const fig9_point point{.ranks = row.at("ranks").get<rank>(),
                         .curve = &*curve,
                         .latency_ms = row.at("mean_ms").get<double>(),
                         .active = active.is_number() ? active.get<double>() : 0};
  if (point.ranks < 1) throw command_failure("ranks is below 1");
  return point;
}

/// Returns the rows of the file with this size and skew. Throws command_failure if the file cannot be read, a line is
/// not a row of the benchmark, or no row has this size and skew.
fig9_points read_measured(const std::string& path, const fig9_request& request) {
  const double skew_ms = static_cast<double>(request.skew) / k_ps_per_ms;
  std::istringstream file(require(content_of(path)));
  fig9_points found;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    try {
      const json row = json::parse(line);
      if (row.at("bench") != "fig9" || !row.contains("what")) continue;
      const bool is_wanted = row.at("bytes").get<std::uint64_t>() == request.bytes &&
                             std::abs(row.at("skew_ms").get<double>() - skew_ms) <= 1e-9 * skew_ms;
      if (is_wanted) found.push_back(measured_point_of(row));
    } catch (const json::exception&) {
      throw command_failure(LSCHED_ERR_ARGUMENT,
                            path + ": line " + std::to_string(number) + ": not a row of `lsched bench fig9 --json`");
    } catch (const std::exception& why) {
      throw command_failure(LSCHED_ERR_ARGUMENT, path + ": line " + std::to_string(number) + ": " + why.what());
    }
  }
  if (found.empty())
    throw command_failure(LSCHED_ERR_ARGUMENT,
                          path + " has no row for " + std::to_string(request.bytes) + " B and this skew");
  return found;
}

/// Returns the measured point with the same number of ranks and the same curve, or nullptr.
const fig9_point* find_point(const fig9_points& measured, const fig9_point& point) {
  const auto found = std::ranges::find_if(
      measured, [&](const fig9_point& each) { return each.ranks == point.ranks && each.curve == point.curve; });
  return found == measured.end() ? nullptr : &*found;
}

// --- the model ---------------------------------------------------------------------------------------------

/// Returns the rounds to simulate: one round, or under majority one round for each initiator that predict_fig9()
/// samples.
std::vector<simulation> rounds_of(const fig9_request& request, rank ranks, activation_policy policy) {
  const simulation first{.where = request.where, .skew = {.kind = skew_kind::linear, .scale = request.skew}};
  if (policy != activation_policy::majority) return {first};
  const std::int64_t parts = ranks <= 64 ? ranks : ranks < 100'000 ? 16 : 8;
  std::vector<simulation> rounds(static_cast<std::size_t>(parts), first);
  for (std::int64_t i = 0; i < parts; ++i)
    rounds[static_cast<std::size_t>(i)].initiator = static_cast<rank>((2 * i + 1) * ranks / (2 * parts));
  return rounds;
}

/// Returns the mean over ranks of the time from a rank's call to its result. Rank r calls at r * skew (Li et al. 2020,
/// Fig. 8 and 9). `cost` is the time of the collective, including activation, from the call that starts the round.
picoseconds latency_under_linear_skew(activation_policy policy, rank size, picoseconds skew, picoseconds cost) {
  const auto P = static_cast<double>(size), D = static_cast<double>(skew), c = static_cast<double>(cost);
  if (policy == activation_policy::full)
    return std::llround((P - 1) / 2 * D + c);  // all ranks wait for the call of
                                               // the last rank
  // The initiator is drawn uniformly, and all ranks below it wait for its call.
  if (policy == activation_policy::majority) return std::llround((P * P - 1) / (6 * P) * D + (P + 1) / (2 * P) * c);
  const double waiting = skew == 0 ? P : std::min(P, std::floor(c / D) + 1);  // number of ranks that call before rank 0
                                                                              // has its result
  return std::llround((waiting * c - waiting * (waiting - 1) / 2 * D) / P);
}

/// Returns latency_under_linear_skew() for a simulated round. The cost is the time from the call that starts the round
/// to the last result.
picoseconds formula_of(activation_policy policy, const simulation& round, const simulation_report& report) {
  const auto ranks = static_cast<rank>(report.finish.size());
  const rank first = policy == activation_policy::solo   ? 0
                     : policy == activation_policy::full ? ranks - 1
                                                         : round.initiator;
  const picoseconds skew = round.skew.scale;
  return latency_under_linear_skew(policy, ranks, skew, report.last() - skew * first);
}

fig9_point predict(const fig9_request& request, rank ranks, const fig9_curve& curve) {
  const shape data{.count = request.bytes, .type = dtype::u8, .what = kernel::sum};
  const packed_world world = require(packed_in_parallel(ranks, [&](lsched::world place) {
    return generate("partial_allreduce", "recursive_doubling", place, data, {.policy = curve.policy});
  }));
  const std::vector<simulation> rounds = rounds_of(request, ranks, curve.policy);
  const start_times calls(rounds.front().skew, ranks);
  fig9_point point{.ranks = ranks, .curve = &curve, .rounds = rounds.size()};
  const auto share = static_cast<double>(point.rounds);
  run_batch(
      rounds.size(),
      [&](std::size_t i, const simulation_progress& progress) {
        simulation round = rounds[i];
        round.progress = progress;
        return simulate_schedules(world, round);
      },
      [&](std::size_t i, const simulation_report& report) {
        point.latency_ms += static_cast<double>(mean_latency(report, calls)) / k_ps_per_ms / share;
        point.active += report.active / share;
        point.formula_ms += static_cast<double>(formula_of(curve.policy, rounds[i], report)) / k_ps_per_ms / share;
      });
  return point;
}

// --- output ------------------------------------------------------------------------------------------------

json describe(const fig9_point& point) {
  const bool is_modelled = point.rounds != 0;
  json row{{"kind", is_modelled ? "modelled" : "measured"},
           {"ranks", point.ranks},
           {"policy", point.curve->name},
           {"mean_ms", point.latency_ms}};
  if (is_modelled) row["formula_ms"] = point.formula_ms;
  if (is_modelled || point.active > 0) row["nap"] = point.active;
  if (is_modelled) row["rounds"] = point.rounds;
  return row;
}

/// Prints modelled and measured values in separate columns.
void print(const fig9_request& request, const fig9_points& points, const fig9_points& measured) {
  std::printf("Modelled, not measured%s: linear skew of %g us per rank, %llu B.\n\n",
              measured.empty() ? "" : " (left of the bar)", static_cast<double>(request.skew) / k_ps_per_us,
              static_cast<unsigned long long>(request.bytes));
  std::printf("%10s  %-12s %14s %14s %12s", "ranks", "policy", "modelled ms", "formula ms", "modelled NAP");
  if (!measured.empty()) std::printf(" | %14s %12s", "measured ms", "measured NAP");
  std::printf("\n");
  for (const fig9_point& point : points) {
    std::printf("%10d  %-12s %14.6g %14.6g %12.1f", point.ranks, point.curve->name, point.latency_ms, point.formula_ms,
                point.active);
    const fig9_point* beside = find_point(measured, point);
    if (beside != nullptr) std::printf(" | %14.6g", beside->latency_ms);
    if (beside != nullptr && beside->active > 0) std::printf(" %12.1f", beside->active);
    std::printf("\n");
  }
}

void plot(const picture& png, const fig9_request& request, const fig9_points& points, const fig9_points& measured,
          const std::string& measured_in) {
  std::array both{plot_diagram{"set logscale xy 10\nset format xy '%g'\n"
                               "set ylabel 'latency, mean over ranks [ms]'\n"},
                  plot_diagram{"set ylabel 'active processes (NAP)'\nset xlabel 'ranks'\n"}};
  const auto add = [&](const std::string& name, const std::string& style, const fig9_point& point) {
    if (point.latency_ms > 0) both[0].named(name, style).points.emplace_back(point.ranks, point.latency_ms);
    if (point.active > 0) both[1].named(name, style).points.emplace_back(point.ranks, point.active);
  };
  for (const fig9_curve& curve : k_curves)
    for (const fig9_point& point : points) {
      if (point.curve != &curve) continue;
      add(std::string(curve.name) + ", modelled",
          "linespoints linewidth 2 linecolor rgb '" + std::string(curve.color) + "'", point);
      if (const fig9_point* beside = find_point(measured, point))
        add(std::string(curve.name_in_file) + ", measured",
            "points pointtype 7 pointsize 1.5 linecolor rgb '" + std::string(curve.measured_color) + "'", *beside);
    }
  std::ostringstream title;
  title << "Allreduce under linear skew of " << static_cast<double>(request.skew) / k_ps_per_ms << " ms per rank, "
        << request.bytes << " B: lines are modelled" << (measured.empty() ? "" : ", points measured");
  std::vector<std::string> caveats{
      "Modelled: " +
      words_for_machine({.where = request.where, .skew = {.kind = skew_kind::linear, .scale = request.skew}}) +
      ". Majority: mean over initiators. MPI stands for any synchronous allreduce."};
  if (!measured.empty())
    caveats.push_back("Measured: " + measured_in + ", written on " + date_of({measured_in}) + "; MPI has no NAP.");
  if (const auto why = png.draw(title.str(), both, caveats)) throw command_failure(why->text);
}

}  // namespace

int predict_fig9(const simulate_options& options, bool has_ranks) {
  fig9_request request{.bytes = options.bytes.front(), .where = options.model.where};
  request.skew = options.model.skew.scale;
  if (has_ranks) request.ranks = options.ranks;
  fig9_points measured;
  if (!options.measured.empty()) measured = read_measured(options.measured, request);
  for (const fig9_point& point : measured)
    request.ranks.push_back(point.ranks);  // measured numbers of ranks are also
                                           // predicted
  std::ranges::sort(request.ranks);
  request.ranks.erase(std::unique(request.ranks.begin(), request.ranks.end()), request.ranks.end());
  const picture png(options.plot);
  if (const auto why = options.plot.empty() ? std::nullopt : png.validate()) throw command_failure(why->text);
  fig9_points points;
  for (const rank ranks : request.ranks)
    for (const fig9_curve& curve : k_curves) points.push_back(predict(request, ranks, curve));
  if (!options.json.empty())
    for (const fig9_points& kind : {measured, points})
      for (const fig9_point& point : kind) std::printf("%s\n", json_text(describe(point)).c_str());
  else
    print(request, points, measured);
  if (!options.plot.empty()) plot(png, request, points, measured, options.measured);
  return 0;
}

}  // namespace lsched::cli
