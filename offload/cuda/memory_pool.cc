#include "offload/cuda/memory_pool.h"

#include <algorithm>

namespace lsched {

/// Returns the smallest free piece of at least `bytes` bytes.
memory_pool::pieces::iterator memory_pool::find_free(std::uint64_t bytes) {
  auto best = all_.end();
  for (auto it = all_.begin(); it != all_.end(); ++it)
    if (it->second.owner == piece_owner::nobody && it->second.bytes >= bytes &&
        (best == all_.end() || it->second.bytes < best->second.bytes))
      best = it;
  return best;
}

std::byte* memory_pool::allocate(std::uint64_t bytes, piece_owner whose) {
  if (bytes > k_most) return nullptr;
  bytes = (std::max<std::uint64_t>(bytes, 1) + k_alignment - 1) / k_alignment * k_alignment;
  auto found = find_free(bytes);
  std::span<std::byte> area;
  if (found == all_.end()) {
    area = from_(bytes);  // without the lock, because the source may take long
    if (area.size() < bytes) return nullptr;
  }
  const std::lock_guard lock(guard_);
  if (found == all_.end()) found = all_.emplace(area.data(), piece{area.size(), piece_owner::nobody, true}).first;
  auto& [place, mine] = *found;
  if (mine.bytes > bytes) all_.emplace(place + bytes, piece{mine.bytes - bytes, piece_owner::nobody, false});
  mine = {bytes, whose, mine.begins_area};
  return place;
}

void memory_pool::join_with_next(pieces::iterator it) {
  const auto next = std::next(it);
  if (next == all_.end() || next->second.owner != piece_owner::nobody || next->second.begins_area) return;
  it->second.bytes += next->second.bytes;
  all_.erase(next);
}

bool memory_pool::deallocate(std::byte* memory, piece_owner whose) {
  const std::lock_guard lock(guard_);
  const auto found = all_.find(memory);
  if (found == all_.end() || found->second.owner != whose) return false;
  found->second.owner = piece_owner::nobody;
  join_with_next(found);
  const bool follows_free = found != all_.begin() && std::prev(found)->second.owner == piece_owner::nobody;
  if (follows_free && !found->second.begins_area) join_with_next(std::prev(found));
  return true;
}

std::optional<memory_pool::piece> memory_pool::rest_of(const std::byte* place) const {
  const std::lock_guard lock(guard_);
  const auto next = all_.upper_bound(place);
  if (next == all_.begin()) return std::nullopt;
  const auto& [begin, mine] = *std::prev(next);
  const auto offset = static_cast<std::uint64_t>(place - begin);
  if (offset >= mine.bytes) return std::nullopt;
  return piece{mine.bytes - offset, mine.owner, false};
}

}  // namespace lsched
