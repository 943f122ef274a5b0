// Device memory that the ranks of a node expose to each other, on one device. Within a process a rank exposes memory by
// address, between processes by descriptor. Foreign memory is memory that other code has allocated. It is exposed by
// handles of an older interface of the driver (cuIpcGetMemHandle).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "offload/cuda/device_area.h"
#include "offload/cuda/driver/pointers.h"
#include "offload/cuda/import_closer.h"
#include "offload/gpu.h"

namespace lsched {

/// The device memory that this rank exposes, and the imports of peers' memory. Used by one thread at a time.
class peer_memory {
 public:
  peer_memory(const cuda_context& in, cuda_health& health, endpoint& net, peer_reads which)
      : in_(in), health_(health), net_(net), which_(which) {}

  /// Closes the imports of peers' memory. No caller may hold an import any more.
  ~peer_memory() = default;
  peer_memory(const peer_memory&) = delete;
  peer_memory& operator=(const peer_memory&) = delete;

  /// Exposes an area of this rank until hide_all().
  void add(const device_area& area);

  /// Exposes memory to peers until hide() has been called as often as show(). Returns the location that peers pass to
  /// find(); 0: peers cannot read the memory. Calls the driver if the memory is foreign.
  std::uint64_t show(const std::byte* memory, std::uint64_t bytes);
  void hide(std::uint64_t where);
  /// Hides all areas at the end.
  void hide_all();

  /// Returns whether this rank can read memory of rank `home`: the first area of `home` can be opened, and so can all
  /// areas of all peers that could not be opened at the last attempt.
  bool reads(rank home);

  /// Opens the memory for which show() has returned the location `where` on rank `home`. Null: the peer does not expose
  /// the memory, or the memory cannot be opened. Then `health` has the reason, and a later call tries again. The import
  /// stays open while a caller holds the result. Unless the memory is foreign, the import also stays open while the
  /// peer exposes the memory.
  std::shared_ptr<const std::byte> find(rank home, std::uint64_t where, std::uint64_t bytes);

  /// Drops imports of peers that are lost or no longer expose the memory. An import is closed when no caller holds it.
  void forget_gone();

  /// Stops closing imports, because the device hangs.
  void keep_all() { closer_.keep_all(); }

 private:
  /// An area that this rank exposes. Empty `memory`: the number of the area is free.
  struct shown_area {
    std::span<const std::byte> memory;
    unsigned long long allocation = 0;  ///< the driver's number of the allocation if the memory is foreign; else 0
    std::uint64_t users = 0;            ///< number of show() calls without hide(), for foreign memory only
  };
  /// The import of a peer's area, as the area was last exposed.
  struct opened_area {
    std::uint64_t serial = 0;
    std::weak_ptr<peer_import> open{};
    std::shared_ptr<peer_import> kept{};  ///< keeps the import open, unless the memory is foreign
  };
  using area_name = std::pair<rank, std::uint32_t>;

  exposed_area described(std::span<const std::byte> memory) const;
  bool tell(std::size_t first, const exposed_area& what, const shown_area& mine);
  std::uint64_t place_in_shown(const std::byte* memory, std::uint64_t bytes) const;
  bool show_foreign(const cuda_allocation& whole);
  std::shared_ptr<peer_import> open(area_name whose);

  const cuda_context& in_;
  cuda_health& health_;
  endpoint& net_;
  const peer_reads which_;
  std::array<shown_area, exposed_area::k_most> shown_;  ///< exposed areas, by number
  import_closer closer_;
  std::map<area_name, opened_area> opened_;
  std::vector<area_name> failed_;  ///< areas that could not be opened at the last attempt
};

}  // namespace lsched
