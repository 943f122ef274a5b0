#include "offload/idle_policy.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

namespace lsched {
namespace {

unsigned affinity_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
}

/// This process's path in one cgroup hierarchy; "" names the unified one.
std::string cgroup_path(std::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::stringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');)
      if (!controller.empty() && name == controller) return line.substr(second + 1);
  }
  return {};
}

/// Quota ÷ period of one control group, or infinity.
double quota_of(const std::string& folder) {
  double quota = -1;
  double period = 0;
  std::string word;
  if (std::ifstream file(folder + "/cpu.max"); file >> word >> period && word != "max") quota = std::stod(word);
  if (std::ifstream file(folder + "/cpu.cfs_quota_us"); file >> quota)
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/// The tightest quota on the way from this process's group to the root.
double tightest_quota(const std::string& mount, std::string path) {
  double tightest = quota_of(mount);
  while (!path.empty() && path != "/") {
    tightest = std::min(tightest, quota_of(mount + path));
    path.resize(path.find_last_of('/'));
  }
  return tightest;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

result<idle_mode> parse_idle_mode(std::string_view text) {
  if (text == "auto") return idle_mode::automatic;
  if (text == "spin") return idle_mode::spin;
  if (text == "yield") return idle_mode::yield;
  if (text == "park") return idle_mode::park;
  return failure{status::argument, "idle policy \"" + std::string(text) + "\": expected auto, spin, yield or park"};
}

unsigned usable_cores() {
  const double quota = std::min({tightest_quota("/sys/fs/cgroup", cgroup_path("")),
                                 tightest_quota("/sys/fs/cgroup/cpu", cgroup_path("cpu")),
                                 tightest_quota("/sys/fs/cgroup/cpu,cpuacct", cgroup_path("cpu"))});
  const unsigned cores = affinity_cores();
  return std::isinf(quota) ? cores : std::clamp(static_cast<unsigned>(std::ceil(quota)), 1u, cores);
}

idle_policy make_idle_policy(idle_mode mode, unsigned local_ranks, unsigned cores) {
  using namespace std::chrono_literals;
  switch (mode) {
    case idle_mode::spin: return {idle_policy::forever, 0ns};
    case idle_mode::yield: return {0ns, idle_policy::forever};
    case idle_mode::park: return {0ns, 0ns};
    case idle_mode::automatic: break;
  }
  if (local_ranks <= cores) return {50us, 20us};
  return {0ns, 10us};
}

bool idle_once(const idle_policy& policy, std::chrono::nanoseconds idle_for) {
  if (idle_for < policy.spin) {
    relax();
    return true;
  }
  if (policy.yield == idle_policy::forever || idle_for - policy.spin < policy.yield) {
    sched_yield();
    return true;
  }
  return false;
}

}  // namespace lsched
