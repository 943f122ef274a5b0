// The memory of a rank's device: device memory, staging memory (pinned host memory) that peers can read, and peers'
// memory that the device reads directly.
//
// Only the destructor returns memory to the driver. To free memory, the driver waits for all streams, and a stream may
// wait for a round of this library.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "libsched/engine/device_memory.h"
#include "libsched/transport/endpoint.h"
#include "offload/cuda/driver/health.h"
#include "offload/cuda/memory_pool.h"
#include "offload/cuda/peer_memory.h"
#include "offload/cuda/pinned.h"

namespace lsched {

/// The device memory, staging memory and pinned memory of one rank. Only one thread at a time may use the object,
/// except for the functions that allow any thread.
class cuda_memory final : public device_memory {
 public:
  /// Staging memory is allocated in areas of at least `staging_bytes` bytes. `in`, `health` and `net` must outlive this
  /// object.
  cuda_memory(const cuda_context& in, cuda_health& health, endpoint& net, std::uint64_t staging_bytes,
              peer_reads which);

  /// Frees the memory. To free it, the driver waits for all work of the device.
  ~cuda_memory() override;
  cuda_memory(const cuda_memory&) = delete;
  cuda_memory& operator=(const cuda_memory&) = delete;

  /// Allocates the first area of device memory. Peers open this area to test whether they can read memory of this
  /// device.
  void show_first_area() { deallocate(allocate(memory_space::device, 1)); }

  result<memory_space> space_of(const std::byte* memory, std::uint64_t bytes) const override;
  std::byte* allocate(memory_space space, std::uint64_t bytes) override;
  void deallocate(std::byte* memory) override;
  std::byte* lend(std::uint64_t bytes) override { return device_pool_.allocate(bytes, piece_owner::application); }
  bool take_back(std::byte* memory) override { return device_pool_.deallocate(memory, piece_owner::application); }
  /// Pins the area of `memory` at the first call, if a peer never frees that area (endpoint::kept_at).
  bool reaches(const std::byte* memory, std::uint64_t bytes) override;
  peer_memory* peers() override { return &of_peers_; }

  /// Returns true if the memory is staging memory of this rank or of a peer. All other memory that jobs use is device
  /// memory.
  bool is_staging(const std::byte* memory) const;

  /// Returns the first known reason why messages need additional copies by the host, or an empty text. The text is for
  /// logs. Any thread may call this function.
  std::string description() const;

  /// Keeps all pinned memory pinned until the process ends. Must be called if the device hangs, because a hung device
  /// may still access this memory.
  void keep_all();

 private:
  std::span<std::byte> add_device_area(std::uint64_t bytes);
  std::span<std::byte> add_staging_area(std::uint64_t bytes);
  std::span<std::byte> add_shown_area(std::uint64_t bytes);
  std::span<std::byte> add_own_area(std::uint64_t bytes);
  void describe_unless_known(const std::string& what);

  const cuda_context& in_;
  cuda_health& health_;
  endpoint& net_;
  const std::uint64_t staging_bytes_;
  mutable std::mutex description_guard_;
  std::string description_;
  peer_memory of_peers_;
  std::vector<std::unique_ptr<device_area>> device_areas_;
  std::vector<std::span<std::byte>> shown_;          ///< staging memory from the endpoint, which peers can read
  std::vector<std::span<std::byte>> own_;            ///< staging memory from the driver
  std::vector<std::span<const std::byte>> reached_;  ///< memory of peers (endpoint::kept_at) that is pinned
  std::vector<const std::byte*> refused_;            ///< memory of peers that the driver refuses to pin
  memory_pool device_pool_, staging_pool_;
};

}  // namespace lsched
