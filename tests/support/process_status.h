// Numbers that the kernel reports about this process.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace lsched::testing {

/// Returns the number in the line `name` of /proc/self/status. Amounts of memory are in KiB.
inline std::uint64_t status_of_process(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1));
  ADD_FAILURE() << "/proc/self/status has no " << name;
  return 0;
}

}  // namespace lsched::testing
