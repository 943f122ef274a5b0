#include "offload/cuda/streams/gpu_bell.h"

#include <memory>
#include <vector>

namespace lsched {
namespace {

struct all_bells {
  std::mutex guard;
  std::vector<std::unique_ptr<gpu_bell>> every;
};

// The list of bells is never destroyed, because the driver may call run() even while the process ends.
all_bells& bells() {
  static all_bells& all = *new all_bells;
  return all;
}

}  // namespace

gpu_bell& gpu_bell::open(doorbell& bell) {
  all_bells& all = bells();
  const std::lock_guard lock(all.guard);
  for (const auto& one : all.every) {
    const std::lock_guard mine(one->guard_);
    if (one->bell_ != nullptr || one->on_their_way_ != 0) continue;
    one->bell_ = &bell;
    return *one;
  }
  gpu_bell& made = *all.every.emplace_back(std::make_unique<gpu_bell>());
  made.bell_ = &bell;
  return made;
}

void gpu_bell::close() {
  const std::lock_guard lock(guard_);
  bell_ = nullptr;
}

bool gpu_bell::ring_behind(const cuda_driver& driver, CUstream stream) {
  {
    const std::lock_guard lock(guard_);
    ++on_their_way_;
  }
  if (driver.cuLaunchHostFunc(stream, run, this) == CUDA_SUCCESS) return true;
  const std::lock_guard lock(guard_);
  --on_their_way_;
  return false;
}

// A thread of the driver calls this function. CUDA calls are not allowed in that thread.
void gpu_bell::run(void* bell) {
  auto& mine = *static_cast<gpu_bell*>(bell);
  const std::lock_guard lock(mine.guard_);
  --mine.on_their_way_;
  if (mine.bell_ != nullptr) ring_if_needed(*mine.bell_);
}

}  // namespace lsched
