// Answers that functions give instead of doing their work: function:n:code[:sticky], separated by commas.
//
// The n-th call (from 1) of that function answers `code`: a number, a name as CUDA_ERROR_UNKNOWN, or `hang`. With
// `sticky` every later call of any function answers it too, and nothing that is queued runs any more: so does a
// device that has failed, or with DEINITIALIZED (4) a driver that has gone. What `hang` means: work that this call
// queues never completes; an event or a stream that it asks for stays NOT_READY for ever; any other call never returns.
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
  bool hangs = false;  ///< instead of the code
  bool is_sticky = false;
};

class fault_plan {
 public:
  /// What cannot be read is misuse.
  void add(std::string_view rules);

  /// Counts a call of that function: what it does instead of its work, if anything.
  std::optional<fault> on_call(std::string_view function);

 private:
  struct rule {
    std::string function;
    std::uint64_t left;  ///< calls until it is the one that fails; 0: has been
    fault what;
  };
  std::vector<rule> rules_;
};

}  // namespace fake_cuda
