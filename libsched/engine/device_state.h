// The state of an instance that uses a device, or whose rounds start in the order of a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libsched/engine/round_gate.h"

namespace lsched {

struct device_state {
  std::uint32_t most_jobs = 0;         ///< jobs reserved on the device; 0: no op runs on the device
  bool has_left_jobs = false;          ///< jobs were left to the device: the memory is kept until these jobs end
  std::vector<std::byte*> owned{};     ///< device and staging memory
  std::unique_ptr<round_gate> gate{};  ///< gate that must be open when a round begins; null: rounds begin at once
  bool is_at_gate = false;             ///< the next round was called for and waits for the gate
  /// Locations of sources in device memory that peers read, by send; 0: the source is copied. Empty if peers cannot
  /// read device memory.
  std::vector<std::uint64_t> exposed{};
  /// Flags, by op: the op is a copy that is skipped because peers read the source
  std::vector<bool> is_left_out{};
  std::vector<std::shared_ptr<const std::byte>> found{};  ///< device memory of peers that was read last, by receive
  std::string failure_words{};                            ///< text of a device failure; written before the verdict
};

}  // namespace lsched
