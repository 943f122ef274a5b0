// A part of an examination in a process of its own, which is killed with all that it has started when its time is over.
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
