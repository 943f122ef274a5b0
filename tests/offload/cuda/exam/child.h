// Runs a part of an examination in a process of its own. The process is killed at its time limit, with all processes
// that it has started, and when this process ends.
#pragma once

#include <string>
#include <vector>

namespace lsched::exam {

/// The end of a process.
struct ending {
  int status = 0;        ///< exit status, or 128 + n for signal n
  bool is_late = false;  ///< killed at the time limit
  double seconds = 0;
};

/// Runs this program with other arguments, and waits for its end.
ending run_child(const std::vector<std::string>& arguments, double limit_s);

}  // namespace lsched::exam
