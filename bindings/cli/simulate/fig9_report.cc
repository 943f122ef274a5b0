#include "bindings/cli/simulate/fig9_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bindings/cli/simulate/fig9_prediction.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

const char* policy_name(activation_policy policy) {
  if (policy == activation_policy::full) return "synchronous";
  return policy == activation_policy::solo ? "solo" : "majority";
}

json describe(const fig9_point& it) {
  return {{"kind", "modelled"},       {"ranks", it.ranks},           {"policy", policy_name(it.policy)},
          {"mean_ms", it.latency_ms}, {"formula_ms", it.formula_ms}, {"nap", it.active},
          {"rounds", it.rounds}};
}

json describe(const fig9_measurement& it) {
  json row{{"kind", "measured"}, {"ranks", it.ranks}, {"policy", policy_name(it.policy)}, {"mean_ms", it.latency_ms}};
  if (it.active > 0) row["nap"] = it.active;
  return row;
}

void print(const fig9_point& it, const fig9_measurement* measured) {
  std::printf("%10d  %-12s %14.6g %14.6g %12.1f", it.ranks, policy_name(it.policy), it.latency_ms, it.formula_ms,
              it.active);
  if (measured != nullptr) std::printf(" | %14.6g", measured->latency_ms);
  if (measured != nullptr && measured->active > 0) std::printf(" %12.1f", measured->active);
  std::printf("\n");
}

/// Modelled and measured in columns of their own.
void print(const simulate_options& options, const std::vector<fig9_point>& points,
           const std::vector<fig9_measurement>& measured) {
  std::printf("Modelled, not measured%s: linear skew of %g us per rank, %llu B.\n\n",
              measured.empty() ? "" : " (left of the bar)", options.skew_us,
              static_cast<unsigned long long>(options.bytes.front()));
  std::printf("%10s  %-12s %14s %14s %12s", "ranks", "policy", "modelled ms", "formula ms", "modelled NAP");
  if (!measured.empty()) std::printf(" | %14s %12s", "measured ms", "measured NAP");
  std::printf("\n");
  for (const fig9_point& it : points) print(it, find(measured, it));
}

/// Where something was measured, there is a prediction.
void add_measured(std::vector<rank>& ranks, const std::vector<fig9_measurement>& measured) {
  for (const fig9_measurement& it : measured) ranks.push_back(it.ranks);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

}  // namespace

int predict(const simulate_options& options, bool has_ranks) {
  fig9_request what{.bytes = options.bytes.front(), .where = machine_from(options)};
  what.skew = rounded(options.skew_us * k_ps_per_us);
  if (has_ranks) what.ranks.assign(options.ranks.begin(), options.ranks.end());
  std::vector<fig9_measurement> measured;
  if (!options.measured.empty()) {
    measured = read_fig9_measurements(options.measured, what.bytes, options.skew_us / 1000);
    add_measured(what.ranks, measured);
  }
  if (!options.plot.empty()) expect_plottable(options.plot);
  const auto points = predict_fig9(what);
  if (options.as_json) {
    for (const fig9_measurement& it : measured) std::printf("%s\n", describe(it).dump().c_str());
    for (const fig9_point& it : points) std::printf("%s\n", describe(it).dump().c_str());
  } else {
    print(options, points, measured);
  }
  if (!options.plot.empty()) plot_fig9_prediction(options.plot, points, measured, what);
  return 0;
}

}  // namespace lsched::cli
