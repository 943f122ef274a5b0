// Runs a part of an examination in a child process. At the time limit, the child is killed together with all processes
// that it has started. The child is also killed when this process ends.
#pragma once

#include <string>
#include <vector>

namespace lsched::exam {

/// The outcome of a child process.
struct ending {
  int status = 0;        ///< exit status, or 128 + n for signal n
  bool is_late = false;  ///< whether the child was killed at the time limit
  double seconds = 0;
};

/// Runs another process of this program with `arguments`, and waits for the end of that process.
ending run_child(const std::vector<std::string>& arguments, double limit_s);

}  // namespace lsched::exam
