// What a process says to the fake driver at start, in its environment.
//
//   LD_LIBRARY_PATH        names the folder of the fake libcuda.so.1 (build/tests/fake_cuda): nothing else selects it
//   FAKE_CUDA_VERSION      as 13000, which it is when nothing is said
//   FAKE_CUDA_DEVICES      2; with 0 cuInit answers NO_DEVICE
//   FAKE_CUDA_SEED         1; draws the order in which ready streams go on
//   FAKE_CUDA_ONE_QUEUE    1: work of all streams runs in the order in which it came, as with one hardware queue
//   FAKE_CUDA_FAIL         function:n:code[:sticky],... (faults.h)
//   FAKE_CUDA_MISSING      function,...: the driver does not have them
//   FAKE_CUDA_ATTRIBUTES   attribute:value,...: of devices, by number, instead of the fake's own
//   FAKE_CUDA_LEAKS        1: a process that did not give everything back says so at its end and exits with 71
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

/// Of this process's environment, now. What cannot be read is misuse.
options read_options();

/// "a,b" at commas, "a:b" at colons; no words in an empty text.
std::vector<std::string> split(std::string_view text, char at);

/// A number in decimal; anything else is misuse of `where`.
std::uint64_t number_in(const std::string& text, const char* where);

}  // namespace fake_cuda
