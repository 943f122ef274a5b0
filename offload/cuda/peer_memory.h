// Device memory of the ranks of a node that they show each other, on one device: in a process by its address, between
// processes by a descriptor or, of memory that is not ours, by the driver's older handles.
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

  /// Closes what was opened of peers, which nobody holds any more.
  ~peer_memory() = default;
  peer_memory(const peer_memory&) = delete;
  peer_memory& operator=(const peer_memory&) = delete;

  /// Shows memory that is this rank's own, for good.
  void add(const device_area& area);

  /// Where peers find it, until as many hide() it; 0: they cannot. Asks the driver about memory that is not our own.
  std::uint64_t show(const std::byte* memory, std::uint64_t bytes);
  void hide(std::uint64_t where);
  /// For the end.
  void hide_all();

  /// Whether a peer's first area can be opened, and now also all that could not be before, of whatever peer.
  bool reads(rank home);

  /// null: the peer has shown no such memory, or it cannot be opened, as the health's words say. It is tried each time.
  /// Open as long as somebody holds it, and peers' own memory as long as they show it.
  std::shared_ptr<const std::byte> find(rank home, std::uint64_t where, std::uint64_t bytes);

  /// What nobody holds is closed of peers that show it no more, or are lost.
  void forget_gone();

  /// The device hangs: nothing is closed any more.
  void keep_all() { closer_.keep_all(); }

 private:
  /// Memory of this rank's that is shown; none: the number is free.
  struct shown_area {
    std::span<const std::byte> memory;
    unsigned long long allocation = 0;  ///< the driver's number, of memory that is not our own
    std::uint64_t users = 0;            ///< likewise
  };
  /// Memory of a peer's, as it was shown last.
  struct opened_area {
    std::uint64_t serial = 0;
    std::weak_ptr<peer_import> open{};
    std::shared_ptr<peer_import> kept{};  ///< the same, of a peer's own
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
  std::array<shown_area, endpoint::k_most_areas> shown_;  ///< by number
  import_closer closer_;
  std::map<area_name, opened_area> opened_;
  std::vector<area_name> failed_;  ///< could not be opened when they were last asked for
};

}  // namespace lsched
