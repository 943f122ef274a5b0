// The memory that a rank's device works with: device memory, staging memory that peers can read, and what peers let it
// read of theirs.
//
// Nothing is given back to the driver before the end, since the driver would wait for all streams, of which one may
// wait for a round of ours.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "offload/cuda/driver/health.h"
#include "offload/cuda/memory_pool.h"
#include "offload/cuda/peer_memory.h"
#include "offload/cuda/pinned.h"

namespace lsched {

/// One thread at a time.
class cuda_memory {
 public:
  /// Staging memory comes in parts of `staging_bytes` or more. All of them outlive this.
  cuda_memory(const cuda_context& in, cuda_health& health, endpoint& net, std::uint64_t staging_bytes,
              peer_reads which);

  /// Waits for what the device does.
  ~cuda_memory();
  cuda_memory(const cuda_memory&) = delete;
  cuda_memory& operator=(const cuda_memory&) = delete;

  /// Allocates device memory that peers find out by whether they can read what is allocated later.
  void show_first_area() { deallocate(allocate(memory_space::device, 1)); }

  /// Memory of the library's. null: there is none left.
  std::byte* allocate(memory_space space, std::uint64_t bytes);
  void deallocate(std::byte* memory);

  /// Device memory of the application's. null: there is none left.
  std::byte* lend(std::uint64_t bytes) { return device_pool_.allocate(bytes, piece_owner::application); }
  /// False: it is none that was lent.
  bool take_back(std::byte* memory) { return device_pool_.deallocate(memory, piece_owner::application); }
  /// Whose a place in device memory is, and how far; nothing: it is not from here. Any thread.
  std::optional<memory_pool::piece> piece_at(const std::byte* place) const { return device_pool_.rest_of(place); }

  /// Whether the device can read it where it is. Pins what a peer keeps for that when it is first asked for it.
  bool reaches(const std::byte* memory, std::uint64_t bytes);

  /// Whether it is staging memory, this rank's or a peer's; what jobs have is that or device memory.
  bool is_staging(const std::byte* memory) const;

  /// Device memory that peers read, and that of peers (libsched/engine/device.h).
  peer_memory& of_peers() { return of_peers_; }

  /// For people: why peers' messages are copied by the host first; empty: they are not. Any thread.
  std::string remark() const;

  /// The device hangs: nothing of it is ever given back.
  void keep_all();

 private:
  std::span<std::byte> add_device_area(std::uint64_t bytes);
  std::span<std::byte> add_staging_area(std::uint64_t bytes);
  std::span<std::byte> add_shown_area(std::uint64_t bytes);
  std::span<std::byte> add_own_area(std::uint64_t bytes);
  void remark_unless_known(const std::string& what);

  const cuda_context& in_;
  cuda_health& health_;
  endpoint& net_;
  const std::uint64_t staging_bytes_;
  mutable std::mutex remark_guard_;
  std::string remark_;
  peer_memory of_peers_;
  std::vector<std::unique_ptr<device_area>> device_areas_;
  std::vector<std::span<std::byte>> shown_;          ///< staging memory of the endpoint's, which peers read where it is
  std::vector<std::span<std::byte>> own_;            ///< staging memory of the driver's
  std::vector<std::span<const std::byte>> reached_;  ///< what peers keep for that
  std::vector<const std::byte*> refused_;            ///< likewise, but it could not be pinned
  memory_pool device_pool_, staging_pool_;
};

}  // namespace lsched
