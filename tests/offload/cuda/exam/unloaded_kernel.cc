// Looks up and launches a kernel for the first time while a stream waits for a value in memory. Both calls may block
// until the wait is over. This depends on whether the driver loads modules lazily.
#include <array>
#include <cstdlib>
#include <cstring>

#include "offload/cuda/driver/image.h"
#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

using namespace std::chrono_literals;

constexpr auto k_limit = 300ms;

struct module_of_kernels {
  explicit module_of_kernels(const gpu& from) : on(from) {
    on.expect(on.cuda().cuModuleLoadData(&it, device_image().data()), "cuModuleLoadData");
  }
  ~module_of_kernels() { (void)on.cuda().cuModuleUnload(it); }
  module_of_kernels(const module_of_kernels&) = delete;
  module_of_kernels& operator=(const module_of_kernels&) = delete;

  CUfunction find(std::size_t place) const {
    CUfunction found = nullptr;
    on.expect(on.cuda().cuModuleGetFunction(&found, it, device_symbols()[place].c_str()), "cuModuleGetFunction");
    return found;
  }

  const gpu& on;
  CUmodule it = nullptr;
};

/// Runs a job while a stream waits. Returns the time of the job, and whether the wait had to end before the job could
/// finish.
json while_waiting(const gpu& on, const std::function<void()>& job) {
  const gpu_memory word(on, gpu_place::pinned, 64);
  std::memset(word.data(), 0, word.bytes());
  const gpu_stream waiting(on);
  on.wait_for(word.as<std::uint64_t>(), 1, waiting);
  json line;
  {
    const timed_release others(word.as<std::uint64_t>(), 1, k_limit);
    const double us = bench::us_of(job);
    line = {{"us", us}, {"blocks", others.was_late()}};
  }
  on.synchronise(waiting);
  return line;
}

bool ask_with(const char* loading) {
  setenv("CUDA_MODULE_LOADING", loading, 1);
  const gpu on;
  const cuda_scope here(on.context());
  const module_of_kernels kernels(on);
  const gpu_stream lane(on, true);
  const auto launch = [&](CUfunction it) {
    device_arguments nothing{};
    std::array<void*, 1> parameters{&nothing};
    on.expect(on.cuda().cuLaunchKernel(it, 1, 1, 1, 32, 1, 1, 0, lane, parameters.data(), nullptr), "cuLaunchKernel");
    on.synchronise(lane);
  };
  const CUfunction known = kernels.find(0);
  CUfunction unknown = nullptr;
  json line{{"loading", loading}};
  line["first launch of a function that was asked for"] = while_waiting(on, [&] { launch(known); });
  line["asking for another"] = while_waiting(on, [&] { unknown = kernels.find(1); });
  line["its first launch"] = while_waiting(on, [&] { launch(unknown); });
  line["its second launch"] = while_waiting(on, [&] { launch(unknown); });
  answer(on, "unloaded_kernel", line);
  return true;
}

}  // namespace

bool ask_unloaded_kernel(const effort&) {
  bool is_right = true;
  for (const char* loading : {"LAZY", "EAGER"})
    is_right = forked([&] { return ask_with(loading); }).ends_well(10) && is_right;
  return is_right;
}

}  // namespace lsched::exam
