// The options of the fake driver. The driver reads them from the environment of the process at start.
//
//   LD_LIBRARY_PATH        must name the folder of the fake libcuda.so.1 (build/tests/fake_cuda) to select it
//   FAKE_CUDA_VERSION      version of the driver; 13000 by default
//   FAKE_CUDA_DEVICES      number of devices; 2 by default; with 0 cuInit returns NO_DEVICE
//   FAKE_CUDA_SEED         seed that determines the order in which ready streams run; 1 by default
//   FAKE_CUDA_ONE_QUEUE    1: all streams together run their work in the order of queueing, as with one hardware queue
//   FAKE_CUDA_FAIL         function:n:code[:sticky],... (faults.h)
//   FAKE_CUDA_MISSING      function,...: functions that the fake driver must not have
//   FAKE_CUDA_ATTRIBUTES   attribute:value,...: values that replace the defaults on all devices; attributes are given
//   by number
//   FAKE_CUDA_LEAKS        1: a process that has leaked prints the leaks when it ends, and exits with status 71
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fake_cuda {

inline constexpr int k_exit_of_leaks = 71;

struct options {
  int version = 13000;
  int devices = 2;
  std::uint64_t seed = 1;
  bool has_one_queue = false;
  bool reports_leaks = false;
  std::string faults;
  std::set<std::string, std::less<>> missing;
  std::map<int, int> attributes;
};

/// Reads the environment of this process. A malformed value aborts the process (misuse.h).
options read_options();

/// Splits a text at the separator `at`. The result for an empty text is empty.
std::vector<std::string> split(std::string_view text, char at);

/// Returns the value of a decimal number. For any other text, aborts the process with a message that names `where`.
std::uint64_t number_in(const std::string& text, const char* where);

}  // namespace fake_cuda
