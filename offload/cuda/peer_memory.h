// Device memory that ranks of a node expose to each other if they use the same device. Ranks of one process expose
// memory by address, and ranks of different processes by file descriptor. Foreign memory, which code outside of this
// library has allocated, is exposed by handles of an older driver interface (cuIpcGetMemHandle).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libsched/engine/device_memory.h"
#include "libsched/transport/endpoint.h"
#include "offload/cuda/device_area.h"
#include "offload/cuda/driver/pointers.h"
#include "offload/cuda/import_closer.h"
#include "offload/gpu.h"

namespace lsched {

/// The device memory that this rank exposes, and the imports of peers' memory. Only one thread at a time may use the
/// object.
class peer_memory final : public device_peers {
 public:
  peer_memory(const cuda_context& in, cuda_health& health, endpoint& net, peer_reads which)
      : in_(in), health_(health), net_(net), which_(which) {}

  /// Closes the imports of peers' memory. Callers must no longer hold imports.
  ~peer_memory() override = default;
  peer_memory(const peer_memory&) = delete;
  peer_memory& operator=(const peer_memory&) = delete;

  /// Exposes an area of this rank until hide_all().
  void add(const device_area& area);

  /// Exposes memory to peers. Returns the location that peers pass to find_exposed(), or 0 if peers cannot read the
  /// memory. If the memory is foreign, calls the driver, and the memory stays exposed until hide() has been called once
  /// for each expose().
  std::uint64_t expose(const std::byte* memory, std::uint64_t bytes) override;
  void hide(std::uint64_t where) override;
  /// Hides all areas. Must be called before this rank's device memory is freed.
  void hide_all();

  /// Returns true if this rank can read device memory of rank `home`. This rank must be able to open the first area of
  /// `home`. If the last attempt to open some area of any peer has failed, this rank must now be able to open that
  /// area, too.
  bool reads(rank home) override;

  /// Opens the memory for which expose() has returned the location `where` on rank `home`. Returns null if the peer
  /// does not expose the memory, or if this rank cannot open the memory. After a null result, `health` has the reason,
  /// and a later call tries again. The import stays open as long as a caller holds the result. Unless the memory is
  /// foreign, the import also stays open as long as the peer exposes the memory.
  std::shared_ptr<const std::byte> find_exposed(rank home, std::uint64_t where, std::uint64_t bytes) override;

  /// Drops imports of peers that are lost or no longer expose the memory. An import is closed when no caller holds it.
  void forget_gone() override;

  /// Stops closing imports. Must be called if the device hangs, because a hung device may still use the imports.
  void keep_all() { closer_.keep_all(); }

 private:
  /// An area that this rank exposes. If `memory` is empty, the index of the area is free.
  struct shown_area {
    std::span<const std::byte> memory;
    unsigned long long allocation = 0;  ///< foreign memory: the driver's id of the allocation; else 0
    std::uint64_t users = 0;            ///< foreign memory: expose() calls minus hide() calls
  };
  /// The import of a peer's area. `serial` identifies the exposure from which the import was opened.
  struct opened_area {
    std::uint64_t serial = 0;
    std::weak_ptr<peer_import> open{};
    std::shared_ptr<peer_import> kept{};  ///< keeps the import open; null if the memory is foreign
  };
  using area_name = std::pair<rank, std::uint32_t>;

  exposed_area described(std::span<const std::byte> memory) const;
  bool tell(std::size_t first, const exposed_area& what, const shown_area& mine);
  std::uint64_t place_in_shown(const std::byte* memory, std::uint64_t bytes) const;
  bool expose_foreign(const cuda_allocation& whole);
  std::shared_ptr<peer_import> open(area_name whose);

  const cuda_context& in_;
  cuda_health& health_;
  endpoint& net_;
  const peer_reads which_;
  std::array<shown_area, exposed_area::k_most> shown_;  ///< exposed areas, by index
  import_closer closer_;
  std::map<area_name, opened_area> opened_;
  std::vector<area_name> failed_;  ///< areas that could not be opened at the last attempt
};

}  // namespace lsched
