// Faults: results that functions return instead of doing their work. Rules have the form function:n:code[:sticky] and
// are separated by commas.
//
// The n-th call (from 1) of that function returns `code`: a number, a name such as CUDA_ERROR_UNKNOWN, or `hang`. With
// `sticky`, every later call of any function returns the code too, and queued work no longer runs. This simulates a
// failed device, or with DEINITIALIZED (4) a driver that has shut down. With `hang`, work that the call queues never
// completes, and an event or stream that the call queries stays NOT_READY. Any other call never returns.
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
  /// Adds rules. A malformed rule is misuse.
  void add(std::string_view rules);

  /// Counts a call of that function. Returns the fault of this call, if any.
  std::optional<fault> on_call(std::string_view function);

 private:
  struct rule {
    std::string function;
    std::uint64_t left;  ///< calls until the rule applies; 0: has been applied
    fault what;
  };
  std::vector<rule> rules_;
};

}  // namespace fake_cuda
