// Device memory that the ranks of a node expose to each other, on one device. Within a process a rank exposes memory by
// address, between processes by descriptor. Foreign memory, which other code has allocated, has older handles of the
// driver instead.
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

/// One thread at a time.
class peer_memory {
 public:
  peer_memory(const cuda_context& in, cuda_health& health, endpoint& net, peer_reads which)
      : in_(in), health_(health), net_(net), which_(which) {}

  /// Closes the imports of peers' memory, which no caller holds any more.
  ~peer_memory() = default;
  peer_memory(const peer_memory&) = delete;
  peer_memory& operator=(const peer_memory&) = delete;

  /// Exposes an area of this rank until hide_all().
  void add(const device_area& area);

  /// Exposes memory to peers until as many calls of hide(). Returns the place by which peers find the memory; 0: peers
  /// cannot read it. Asks the driver about foreign memory.
  std::uint64_t show(const std::byte* memory, std::uint64_t bytes);
  void hide(std::uint64_t where);
  /// Hides all areas at the end.
  void hide_all();

  /// Returns whether a peer's first area can be opened, together with every area, of any peer, that failed to open
  /// before.
  bool reads(rank home);

  /// Opens memory that a peer has exposed. Null: the peer does not expose it, or it cannot be opened. Then the
  /// health has the reason, and the next call tries again. The import stays open while a caller holds the result, and,
  /// unless the memory is foreign, while the peer exposes it.
  std::shared_ptr<const std::byte> find(rank home, std::uint64_t where, std::uint64_t bytes);

  /// Drops imports of peers that are lost or no longer expose the memory. An import is closed when no caller holds it.
  void forget_gone();

  /// Stops closing imports, because the device hangs.
  void keep_all() { closer_.keep_all(); }

 private:
  /// Memory that this rank exposes; empty: the number is free.
  struct shown_area {
    std::span<const std::byte> memory;
    unsigned long long allocation = 0;  ///< the driver's number of foreign memory; else 0
    std::uint64_t users = 0;            ///< calls of show(), for foreign memory only
  };
  /// Memory of a peer, as it was last exposed.
  struct opened_area {
    std::uint64_t serial = 0;
    std::weak_ptr<peer_import> open{};
    std::shared_ptr<peer_import> kept{};  ///< keeps the import open, unless the memory is foreign
  };
  using area_name = std::pair<rank, std::uint32_t>;

  endpoint::device_area described(std::span<const std::byte> memory) const;
  bool tell(std::size_t first, const endpoint::device_area& what, const shown_area& mine);
  std::uint64_t place_in_shown(const std::byte* memory, std::uint64_t bytes) const;
  bool show_foreign(const cuda_allocation& whole);
  std::shared_ptr<peer_import> open(area_name whose);

  const cuda_context& in_;
  cuda_health& health_;
  endpoint& net_;
  const peer_reads which_;
  std::array<shown_area, endpoint::k_most_areas> shown_;  ///< by number of the area
  import_closer closer_;
  std::map<area_name, opened_area> opened_;
  std::vector<area_name> failed_;  ///< areas that could not be opened at the last attempt
};

}  // namespace lsched
