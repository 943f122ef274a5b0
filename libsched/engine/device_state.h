// The state of an instance that uses a device, or whose rounds wait for streams.
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
  bool has_left_jobs = false;          ///< the failure was published while jobs ran: these jobs still use the memory
  std::vector<std::byte*> owned{};     ///< device and staging memory
  std::unique_ptr<round_gate> gate{};  ///< gate that must be open when a round begins; null: rounds begin at once
  bool is_at_gate = false;             ///< the application has called for the next round, which waits for the gate
  /// For each send: location of the source in device memory if the peer reads the source directly; 0 if the payload is
  /// sent. Empty if peers cannot read device memory.
  std::vector<std::uint64_t> exposed{};
  /// For each op: true for a copy that is skipped because a peer reads the copy's source directly
  std::vector<bool> is_left_out{};
  std::vector<std::shared_ptr<const std::byte>> found{};  ///< for each receive: last mapping of the peer's memory
  std::string failure_words{};                            ///< text of a device failure; written before the verdict
};

}  // namespace lsched
