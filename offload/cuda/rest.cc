#include "offload/cuda/rest.h"

#include <condition_variable>
#include <mutex>
#include <system_error>

#include "offload/quiet_thread.h"

namespace lsched {
namespace {

constexpr std::size_t k_smallest = 256;

struct rest {
  std::mutex guard;
  std::condition_variable changed;
  bool has_come = false;
};

void give_back(const cuda_context& in, CUdeviceptr memory) {
  const cuda_scope here(in);
  if (here.is_entered()) (void)in.driver().cuMemFree(memory);
}

}  // namespace

bool comes_to_rest(const cuda_context& in, std::chrono::milliseconds limit) {
  const cuda_scope here(in);
  CUdeviceptr memory = 0;
  if (!here.is_entered() || in.driver().cuMemAlloc(&memory, k_smallest) != CUDA_SUCCESS) return true;
  const auto shared = std::make_shared<rest>();
  try {
    start_quietly("lsched-rest", [&in, memory, shared] {
      give_back(in, memory);
      const std::lock_guard lock(shared->guard);
      shared->has_come = true;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {  // no thread can be had
    give_back(in, memory);
    return true;
  }
  std::unique_lock lock(shared->guard);
  return shared->changed.wait_for(lock, limit, [&] { return shared->has_come; });
}

}  // namespace lsched
