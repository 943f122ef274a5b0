// Functions that make this process the rank that the local launcher (`lsched run`) has prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/open/launch.h"

namespace lsched {

/// Maps the launcher's segment. Programs that this process executes do not inherit the descriptor, because they would
/// keep the memory of all ranks allocated. The descriptor keeps its number. Returns STATE if a rank has started this
/// process. Returns TRANSPORT if the descriptor is not the launcher's. Returns ARGUMENT if the segment is for another
/// number of ranks.
result<std::shared_ptr<shm_segment>> adopt_segment(const launch& where);

/// Returns the process that has created the pair of sockets to which `socket` belongs. Returns 0 if that process is in
/// another process name space.
std::int32_t creator_of(int socket);

/// Returns the failure of a process that is not a rank, but was started by a rank. The starter is the rank in `where`,
/// and its process id is `starter`.
failure not_a_rank(const launch& where, std::int32_t starter);

/// Makes this process the rank in `where`. The descriptor in `where` is the socket of the exchange (launch_exchange.h).
/// Programs that this process executes do not inherit the socket. The kernel kills this process when the launcher ends.
/// Returns STATE if a rank has started this process, or if another process already is this rank.
std::optional<failure> adopt_exchange(const launch& where);

/// Attaches this process to the segment, as the rank in `where`. If `where` has a descriptor of the launcher's pipe,
/// the kernel kills this process when the launcher ends. If this process is a child that the rank has forked, another
/// process already has this rank, and the failure names that process.
result<std::unique_ptr<shm_endpoint>> take_place(const std::shared_ptr<shm_segment>& segment, const launch& where,
                                                 const shm_options& options);

}  // namespace lsched
