// The date of a measurement, taken from the times of its result files. The files do not contain the date.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <vector>

namespace lsched::cli {

/// Returns the day (UTC) on which the newest of the files was written, such as "2026-11-27".
inline std::string date_of(const std::vector<std::string>& paths) {
  std::time_t newest = 0;
  for (const std::string& path : paths) {
    struct stat found {};
    if (stat(path.c_str(), &found) == 0) newest = std::max(newest, found.st_mtime);
  }
  std::tm day{};
  std::array<char, 32> text{};
  gmtime_r(&newest, &day);
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &day);
  return text.data();
}

}  // namespace lsched::cli
