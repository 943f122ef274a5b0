// What a rank tells its peers of a piece of its device memory. It may be taken back, and be told of another one, while
// they look: they see one as a whole, or none.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <tuple>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// All zeroes: there is none.
class shm_area {
 public:
  /// One that was taken back, by its owner. The area's serial was never shown here.
  void show(const endpoint::device_area& what) {
    const auto all = std::bit_cast<words>(what);
    for (std::size_t i = 0; i < all.size(); ++i) words_[i].store(all[i]);
    serial_.store(what.serial);
  }
  void hide() { serial_.store(0); }

  /// Any rank.
  std::optional<endpoint::device_area> what() const {
    const std::uint64_t serial = serial_.load();
    words seen{};
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = words_[i].load();
    if (serial == 0 || serial_.load() != serial) return std::nullopt;
    return std::bit_cast<endpoint::device_area>(seen);
  }

 private:
  using words = std::array<std::uint64_t, sizeof(endpoint::device_area) / sizeof(std::uint64_t)>;

  std::atomic<std::uint64_t> serial_;  ///< 0: nothing is shown, or it changes
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<words>> words_;
};

}  // namespace lsched
