// Ranks of a node expose areas of their device memory to each other (docs/inside/cuda.md). The transport only stores
// the descriptions of these areas. The class `device_peers` (engine/device_memory.h) interprets the descriptions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "libsched/transport/message.h"
#include "ops/base.h"

namespace lsched {

/// The description of an area of a rank's device memory.
struct exposed_area {
  static constexpr std::uint32_t k_most = 64;  ///< maximum number of areas that a rank exposes

  std::uint64_t address, bytes;
  std::int32_t process;              ///< process in which the address is valid
  std::int32_t descriptor;           ///< descriptor in that process; -1: use `handle`
  std::array<std::byte, 16> device;  ///< unique id of the device
  std::array<std::byte, 64> handle;
  std::uint64_t serial = 0;  ///< set by the endpoint; unique among all areas that the rank exposes
};

/// Exposes areas of this rank, and finds areas of other ranks. Transports whose ranks share no memory use the functions
/// of this base class.
class endpoint_areas {
 public:
  virtual ~endpoint_areas() = default;

  /// Exposes an area to the ranks that share this rank's memory. `number` must be below exposed_area::k_most and not in
  /// use. Returns false if no rank shares this memory. Only cold paths may call this function.
  virtual bool expose(std::uint32_t number, const exposed_area& what) {
    static_cast<void>(number), static_cast<void>(what);
    return false;
  }
  /// Withdraws the area with that number. Only cold paths may call this function.
  virtual void withdraw(std::uint32_t number) { static_cast<void>(number); }
  /// Returns the area that rank `who` exposes under `number`, or nullopt. This function is cheap.
  virtual std::optional<exposed_area> area_of(rank who, std::uint32_t number) const {
    static_cast<void>(who), static_cast<void>(number);
    return std::nullopt;
  }
  /// Returns whether the receiver of a linked outgoing edge accepts messages in device memory.
  virtual bool reads_device(link_id link) const {
    static_cast<void>(link);
    return false;
  }
};

}  // namespace lsched
