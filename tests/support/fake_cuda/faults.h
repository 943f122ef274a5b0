// Faults are planted errors. With a fault, a function of the driver returns an error and does nothing. Each fault has a
// rule of the form function:n:code[:sticky]. Commas separate the rules.
//
// The n-th call of `function` (counted from 1) returns `code`. The code is a number, a name such as CUDA_ERROR_UNKNOWN,
// or `hang`. With `sticky`, every later call of any function returns the code too, and queued work no longer runs. This
// simulates a failed device or, with DEINITIALIZED (4), a driver that has shut down. With `hang`, work that the n-th
// call queues never completes, and an event or stream that the call queries stays NOT_READY. If the function neither
// queues work nor queries completion, the call never returns.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fake_cuda {

struct fault {
  CUresult code = CUDA_ERROR_UNKNOWN;
  bool hangs = false;  ///< the call hangs instead of returning `code`
  bool is_sticky = false;
};

class fault_plan {
 public:
  /// Adds rules. A malformed rule aborts the process (misuse.h).
  void add(std::string_view rules);

  /// Counts a call of `function`. Returns the fault that applies to this call, if there is one.
  std::optional<fault> on_call(std::string_view function);

 private:
  struct rule {
    std::string function;
    std::uint64_t left;  ///< number of calls until the rule applies; 0 if the rule has been applied
    fault what;
  };
  std::vector<rule> rules_;
};

}  // namespace fake_cuda
