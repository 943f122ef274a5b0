#include "offload/cores.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace lsched {
namespace {

/// Returns this process's path in the cgroup hierarchy of `controller`. An empty `controller` stands for the unified
/// hierarchy.
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

/// Returns the CPU quota of a control group, in cores (quota / period), or infinity without a quota.
double quota_of(const std::string& folder) {
  double quota = -1;
  double period = 0;
  std::string word;
  if (std::ifstream file(folder + "/cpu.max"); file >> word >> period && word != "max") quota = std::stod(word);
  if (std::ifstream file(folder + "/cpu.cfs_quota_us"); file >> quota)
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/// Returns the smallest quota of the control groups on the path from this process's group to the root.
double tightest_quota(const std::string& mount, std::string path) {
  double tightest = quota_of(mount);
  while (!path.empty() && path != "/") {
    tightest = std::min(tightest, quota_of(mount + path));
    path.resize(path.find_last_of('/'));
  }
  return tightest;
}

}  // namespace

std::vector<unsigned> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<unsigned> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  return cores;
}

unsigned within_quota(unsigned cores) {
  const double quota = std::min({tightest_quota("/sys/fs/cgroup", cgroup_path("")),
                                 tightest_quota("/sys/fs/cgroup/cpu", cgroup_path("cpu")),
                                 tightest_quota("/sys/fs/cgroup/cpu,cpuacct", cgroup_path("cpu"))});
  const unsigned granted = std::isinf(quota) || quota >= cores ? cores : static_cast<unsigned>(std::ceil(quota));
  return std::max(granted, 1u);
}

int this_thread_number() {
  static thread_local const int number = static_cast<int>(syscall(SYS_gettid));
  return number;
}

// The file `stat` has the form "number (name) state …". The name may contain any character.
bool is_asleep(int thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  return name_end == std::string::npos || line.compare(name_end, 3, ") R") != 0;
}

unsigned usable_cores() { return within_quota(static_cast<unsigned>(allowed_cores().size())); }

}  // namespace lsched
