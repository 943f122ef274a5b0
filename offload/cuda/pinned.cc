#include "offload/cuda/pinned.h"

#include <map>
#include <mutex>

namespace lsched {
namespace {

/// How often memory of the process is pinned, by where it begins.
struct pinned_memory {
  std::mutex guard;
  std::map<const std::byte*, int> times;
};

pinned_memory& all_pinned() {
  static pinned_memory one;
  return one;
}

}  // namespace

status pin(const cuda_context& by, std::span<const std::byte> memory) {
  pinned_memory& all = all_pinned();
  const std::lock_guard lock(all.guard);
  const auto found = all.times.find(memory.data());
  if (found != all.times.end()) {
    ++found->second;
    return status::ok;
  }
  const cuda_scope here(by);
  const CUresult answer = by.driver().cuMemHostRegister(const_cast<std::byte*>(memory.data()), memory.size(),
                                                        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (answer == CUDA_SUCCESS) all.times.emplace(memory.data(), 1);
  const status told = status_of(answer);
  return told == status::device || told == status::argument ? status::unsupported : told;
}

void unpin(const cuda_context& by, std::span<const std::byte> memory) {
  pinned_memory& all = all_pinned();
  const std::lock_guard lock(all.guard);
  const auto found = all.times.find(memory.data());
  if (found == all.times.end() || --found->second > 0) return;
  all.times.erase(found);
  const cuda_scope here(by);
  (void)by.driver().cuMemHostUnregister(const_cast<std::byte*>(memory.data()));
}

}  // namespace lsched
