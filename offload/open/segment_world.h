// Functions that open a world whose ranks share a segment. The ranks are a single process, threads of one process, or
// processes of `lsched run`.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libsched/transport/net/wire_up.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/neighbourhood.h"
#include "offload/open/launch.h"

namespace lsched {

struct segment_options {
  std::uint64_t region_bytes = 0;            ///< 0: the default of this machine (shm_segment.h)
  std::string recorder{};                    ///< file for `lsched postmortem`; empty: none
  std::chrono::nanoseconds start_timeout{};  ///< timeout of the wait for all ranks to open the world
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(60);  ///< timeout of connections after all ranks met
  /// Timeout of an exchange after the first. The other ranks may try to connect for connect_timeout before they fail.
  std::chrono::nanoseconds later_timeout() const { return start_timeout + connect_timeout; }
  shm_options shm{};
  rank ranks_per_node = 0;        ///< number of consecutive ranks that are treated as a node, for tests; 0: real nodes
  net_interfaces interfaces{};    ///< the network between hosts
  std::string interfaces_from{};  ///< the variable that names the interfaces, for describe()
  lsched::net_limits net_limits{};
  bool encrypts = false;  ///< the connections between hosts are encrypted
  /// A secret that all ranks know before they exchange data. If set, the secret of the job is derived from this secret,
  /// so that the exchange may be public.
  std::optional<secret_bytes> known_secret{};
};

/// One rank's access to the transport of a new world.
struct opened_rank {
  std::unique_ptr<endpoint> net;
  neighbourhood around;
  std::string warning{};  ///< set if the regions are smaller than a user would expect
};

result<opened_rank> open_alone(const segment_options& how);

/// Opens a world whose ranks are threads of this process. Returns all ranks, in rank order.
result<std::vector<opened_rank>> open_threads(rank ranks, const segment_options& how);

/// Opens the world of `lsched run` as the rank in `where`, and waits until all ranks have opened the world. Returns
/// STATE if this process is not a rank, but was started by a rank.
result<opened_rank> open_launched(const launch& where, const segment_options& how);

}  // namespace lsched
