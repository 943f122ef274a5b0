#include "offload/cuda/rest.h"

#include <condition_variable>
#include <mutex>
#include <system_error>

#include "libsched/transport/quiet_thread.h"

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

result<CUdeviceptr> reserve_for_rest(const cuda_context& in) {
  const cuda_scope here(in);
  if (!here.is_entered()) return failure_of(in.driver(), "cuCtxPushCurrent", here.answer());
  CUdeviceptr made = 0;
  if (const CUresult answer = in.driver().cuMemAlloc(&made, k_smallest); answer != CUDA_SUCCESS)
    return failure_of(in.driver(), "cuMemAlloc", answer);
  return made;
}

bool comes_to_rest(const cuda_context& in, CUdeviceptr reserved, std::chrono::milliseconds limit) {
  if (reserved == 0) return true;
  const auto shared = std::make_shared<rest>();
  try {
    start_quietly("lsched-rest", [&in, reserved, shared] {
      give_back(in, reserved);
      const std::lock_guard lock(shared->guard);
      shared->has_come = true;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  std::unique_lock lock(shared->guard);
  return shared->changed.wait_for(lock, limit, [&] { return shared->has_come; });
}

}  // namespace lsched
