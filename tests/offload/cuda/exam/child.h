// A part of an examination in a process of its own. It is killed when its time is over, with all that it has started,
// and when this process is gone.
#pragma once

#include <string>
#include <vector>

namespace lsched::exam {

/// How a process has ended.
struct ending {
  int status = 0;        ///< that it exits with; 128 + n: signal n
  bool is_late = false;  ///< its time was over
  double seconds = 0;
};

/// Runs this program with other arguments, and waits for its end.
ending run_child(const std::vector<std::string>& arguments, double limit_s);

}  // namespace lsched::exam
