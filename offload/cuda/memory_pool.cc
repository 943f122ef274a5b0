#include "offload/cuda/memory_pool.h"

#include <algorithm>

namespace lsched {

/// The smallest that is large enough.
memory_pool::pieces::iterator memory_pool::find_free(std::uint64_t bytes) {
  auto best = all_.end();
  for (auto it = all_.begin(); it != all_.end(); ++it)
    if (it->second.is_free && it->second.bytes >= bytes &&
        (best == all_.end() || it->second.bytes < best->second.bytes))
      best = it;
  return best;
}

std::byte* memory_pool::allocate(std::uint64_t bytes) {
  if (bytes > k_most) return nullptr;
  bytes = (std::max<std::uint64_t>(bytes, 1) + k_alignment - 1) / k_alignment * k_alignment;
  auto found = find_free(bytes);
  if (found == all_.end()) {
    const std::span<std::byte> area = from_(bytes);
    if (area.size() < bytes) return nullptr;
    found = all_.emplace(area.data(), piece{area.size(), true, true}).first;
  }
  auto& [place, mine] = *found;
  if (mine.bytes > bytes) all_.emplace(place + bytes, piece{mine.bytes - bytes, true, false});
  mine = {bytes, false, mine.begins_area};
  return place;
}

void memory_pool::join_with_next(pieces::iterator it) {
  const auto next = std::next(it);
  if (next == all_.end() || !next->second.is_free || next->second.begins_area) return;
  it->second.bytes += next->second.bytes;
  all_.erase(next);
}

bool memory_pool::deallocate(std::byte* memory) {
  const auto found = all_.find(memory);
  if (found == all_.end() || found->second.is_free) return false;
  found->second.is_free = true;
  join_with_next(found);
  if (found != all_.begin() && std::prev(found)->second.is_free && !found->second.begins_area)
    join_with_next(std::prev(found));
  return true;
}

}  // namespace lsched
