// An shm_area is an object in shared memory that describes an area of a rank's device memory. The rank may withdraw or
// replace the description while peers read it. A reader gets a complete description or none.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <tuple>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// Memory of zeros means that no area is exposed.
class shm_area {
 public:
  /// Exposes an area. The previous area must have been hidden. The serial must not have been used in this object
  /// before. Only the owner of the area may call this function.
  void show(const exposed_area& what) {
    const auto all = std::bit_cast<words>(what);
    for (std::size_t i = 0; i < all.size(); ++i) words_[i].store(all[i]);
    serial_.store(what.serial);
  }
  void hide() { serial_.store(0); }

  /// Returns the exposed area, or nullopt. Any rank may call this function.
  std::optional<exposed_area> what() const {
    const std::uint64_t serial = serial_.load();
    words seen{};
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = words_[i].load();
    if (serial == 0 || serial_.load() != serial) return std::nullopt;
    return std::bit_cast<exposed_area>(seen);
  }

 private:
  using words = std::array<std::uint64_t, sizeof(exposed_area) / sizeof(std::uint64_t)>;

  std::atomic<std::uint64_t> serial_;  ///< 0: no area is exposed, or the description is being changed
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<words>> words_;
};

}  // namespace lsched
