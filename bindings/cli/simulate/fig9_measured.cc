#include "bindings/cli/simulate/fig9_measured.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/simulate/simulate_options.h"
#include "bindings/input_file.h"

namespace lsched::cli {
namespace {

activation_policy policy_of(const std::string& what) {
  if (what == "mpi") return activation_policy::full;
  if (what == "solo") return activation_policy::solo;
  if (what == "majority") return activation_policy::majority;
  throw command_failure("\"" + what + "\" is neither mpi, solo nor majority");
}

double number_or_zero(const nlohmann::json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? row[key].get<double>() : 0;
}

}  // namespace

std::vector<fig9_measurement> read_fig9_measurements(const std::string& path, std::uint64_t bytes, double skew_ms) {
  std::istringstream file(require(content_of(path)));
  std::vector<fig9_measurement> found;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    try {
      const auto row = nlohmann::json::parse(line);
      if (row.at("bench") != "fig9" || !row.contains("what")) continue;
      const bool is_wanted = row.at("bytes").get<std::uint64_t>() == bytes &&
                             std::abs(row.at("skew_ms").get<double>() - skew_ms) <= 1e-9 * skew_ms;
      if (!is_wanted) continue;
      found.push_back({.ranks = row.at("ranks").get<rank>(),
                       .policy = policy_of(row.at("what").get<std::string>()),
                       .latency_ms = row.at("mean_ms").get<double>(),
                       .active = number_or_zero(row, "nap")});
      if (found.back().ranks < 1) throw command_failure("there are no ranks");
    } catch (const std::exception& why) {
      throw command_failure(LSCHED_ERR_ARGUMENT, path + ": line " + std::to_string(number) + ": " + why.what());
    }
  }
  if (found.empty())
    throw command_failure(LSCHED_ERR_ARGUMENT, path + " has no row of " + std::to_string(bytes) + " B and this skew");
  return found;
}

}  // namespace lsched::cli
