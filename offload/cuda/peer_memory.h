// Device memory of the ranks of a node that they show each other, on one device: in a process by its address, between
// processes by a descriptor or, of memory that is not ours, by the driver's older handles.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "offload/cuda/device_area.h"
#include "offload/cuda/driver/pointers.h"
#include "offload/gpu.h"

namespace lsched {

/// One thread at a time.
class peer_memory {
 public:
  peer_memory(const cuda_context& in, cuda_health& health, endpoint& net, peer_reads which)
      : in_(in), health_(health), net_(net), which_(which) {}

  /// Closes what was opened of peers.
  ~peer_memory();
  peer_memory(const peer_memory&) = delete;
  peer_memory& operator=(const peer_memory&) = delete;

  /// Shows memory that is this rank's own, for good.
  void add(const device_area& area);

  /// Where peers find it; 0: they cannot. Asks the driver about memory that is not our own.
  std::uint64_t show(const std::byte* memory, std::uint64_t bytes);

  /// Whether a peer's first area can be opened, and now also all that could not be before, of whatever peer.
  bool reads(rank home);

  /// null: the peer has shown no such memory, or it cannot be opened, as the health's words say. It is tried each time.
  const std::byte* find(rank home, std::uint64_t where, std::uint64_t bytes);

 private:
  /// Memory of this rank's that is shown.
  struct shown_area {
    std::span<const std::byte> memory;
    unsigned long long allocation = 0;  ///< the driver's number, of memory that is not our own
  };
  /// Memory of a peer's, where this process finds it; null: it could not be opened.
  struct opened_area {
    const std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
    std::unique_ptr<device_area> imported{};
    CUdeviceptr legacy = 0;
  };

  endpoint::device_area described(std::span<const std::byte> memory) const;
  bool tell(const endpoint::device_area& what, const shown_area& mine);
  std::uint64_t place_in_shown(const std::byte* memory, std::uint64_t bytes) const;
  bool show_foreign(const cuda_allocation& whole);
  const opened_area* open(rank home, std::uint32_t number);
  opened_area open(const endpoint::device_area& what) const;
  void open_shared(const endpoint::device_area& what, opened_area& made) const;
  void open_foreign(const endpoint::device_area& what, opened_area& made) const;

  const cuda_context& in_;
  cuda_health& health_;
  endpoint& net_;
  const peer_reads which_;
  std::vector<shown_area> shown_;  ///< by number
  std::map<std::pair<rank, std::uint32_t>, opened_area> opened_;
  std::vector<std::pair<rank, std::uint32_t>> failed_;  ///< could not be opened when they were last asked for
};

}  // namespace lsched
