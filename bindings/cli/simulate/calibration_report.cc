#include "bindings/cli/simulate/calibration_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bindings/cli/simulate/calibration.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

/// The exit status.
int check_usable(const calibration& found) {
  if (found.error.empty()) return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "lsched: not usable: %s\n", found.error.c_str());
  return 1;
}

}  // namespace

int calibrate(const simulate_options& options) {
  const calibration found = calibrate_this_machine();
  json all{{"kind", "calibration"},
           {"L_ns", found.L_ns},
           {"o_ns", found.o_ns},
           {"g_ns", found.g_ns},
           {"G_ns_per_byte", found.G_ns_per_byte},
           {"spread", found.spread}};
  if (!found.error.empty()) all["not_usable"] = found.error;
  for (const prediction& it : found.predictions)
    all["predictions"].push_back({{"algorithm", it.algorithm},
                                  {"ranks", it.ranks},
                                  {"bytes", it.bytes},
                                  {"measured_us", it.measured_us},
                                  {"modelled_us", it.modelled_us},
                                  {"is_crowded", it.is_crowded}});
  if (options.as_json) {
    std::printf("%s\n", all.dump().c_str());
    return check_usable(found);
  }
  std::printf(
      "Measured between two threads of this machine, quick rounds, medians of repetitions (spread %.0f%%):\n"
      "  --L %.0f --o %.0f --g %.0f --G %.4f\n\n",
      100 * found.spread, found.L_ns, found.o_ns, found.g_ns, found.G_ns_per_byte);
  std::printf("%-20s %6s %9s %14s %14s %8s\n", "allreduce", "ranks", "bytes", "measured us", "modelled us", "error");
  for (const prediction& it : found.predictions)
    std::printf("%-20s %6d %9llu %14.3f %14.3f %+7.0f%%%s\n", it.algorithm.c_str(), it.ranks,
                static_cast<unsigned long long>(it.bytes), it.measured_us, it.modelled_us,
                100 * (it.modelled_us / it.measured_us - 1), it.is_crowded ? "  more ranks than cores" : "");
  std::printf(
      "\nWhat this cannot know: a network (there was none), congestion, what more ranks than cores cost each\n"
      "other in wake-ups, and L and o apart from each other: o is the time a start takes its caller, L is the\n"
      "rest of a hop.\n");
  if (found.L_ns <= 1) std::printf("Here nothing is left for L: only 2o + L is known.\n");
  return check_usable(found);
}

}  // namespace lsched::cli
