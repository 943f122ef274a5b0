#include "offload/cuda/pinned.h"

#include <map>
#include <mutex>

namespace lsched {
namespace {

struct pin_count {
  int times = 0;
  bool stays = false;
};

/// Pin counts of this process's memory, keyed by address.
struct pinned_memory {
  std::mutex guard;
  std::map<const std::byte*, pin_count> all;
};

pinned_memory& all_pinned() {
  static pinned_memory one;
  return one;
}

}  // namespace

status pin(const cuda_context& by, std::span<const std::byte> memory) {
  pinned_memory& pinned = all_pinned();
  const std::lock_guard lock(pinned.guard);
  const auto found = pinned.all.find(memory.data());
  if (found != pinned.all.end()) {
    if (found->second.stays) return status::unsupported;
    ++found->second.times;
    return status::ok;
  }
  const cuda_scope here(by);
  if (!here.is_entered()) return status::unsupported;
  const CUresult answer = by.driver().cuMemHostRegister(const_cast<std::byte*>(memory.data()), memory.size(),
                                                        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (answer == CUDA_SUCCESS) pinned.all.emplace(memory.data(), pin_count{1});
  const status told = status_of(answer);
  return told == status::device || told == status::argument ? status::unsupported : told;
}

void unpin(const cuda_context& by, std::span<const std::byte> memory) {
  pinned_memory& pinned = all_pinned();
  const std::lock_guard lock(pinned.guard);
  const auto found = pinned.all.find(memory.data());
  if (found == pinned.all.end() || found->second.stays || --found->second.times > 0) return;
  pinned.all.erase(found);
  const cuda_scope here(by);
  if (here.is_entered()) (void)by.driver().cuMemHostUnregister(const_cast<std::byte*>(memory.data()));
}

void keep_pinned(std::span<const std::byte> memory) {
  pinned_memory& pinned = all_pinned();
  const std::lock_guard lock(pinned.guard);
  const auto found = pinned.all.find(memory.data());
  if (found != pinned.all.end()) found->second.stays = true;
}

}  // namespace lsched
