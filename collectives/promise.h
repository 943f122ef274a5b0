// The postcondition that the schedules of a world must satisfy. The caller gives the collective, or the schedules' name
// contains it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/registry.h"

namespace lsched {

/// The values of a request that the caller gives. All other values are derived from the schedules.
struct asked {
  std::string_view collective{};  ///< empty: the collective in the schedules' name
  std::optional<kernel> what{};
  std::optional<dtype> type{};
  std::optional<std::uint64_t> count{};  ///< number of elements of the vector, or of a rank's block (shape::count)
  std::optional<rank> root{};
};

struct world_promise {
  const collective* of = nullptr;  ///< collective of the postcondition; nullptr: outputs may have any content
  const algorithm* by = nullptr;   ///< algorithm whose cost the schedules must have; nullptr: any cost
  shape data{};                    ///< the request
  postcondition what{};
  aliasing in_place = true;  ///< how buffers share memory if the world works in place
};

/// Returns the postcondition of the collective that the caller gives, without a cost. If the caller gives no
/// collective, the collective is taken from the schedules' name, such as "allreduce/tree". If a registered algorithm
/// has this name, and the kernel is not kernel::user, the postcondition includes the cost. If the name contains no
/// collective, the postcondition is empty.
///
/// Values that the caller does not state are derived from the schedules. The type, the counts and the root come from
/// the first inputs and outputs, and the kernel comes from the first rank that combines anything. All schedules must
/// then agree with the derived values. An error that all ranks share is detected only if it contradicts a value that
/// the caller states. For example, a world that takes the maximum in place of a sum satisfies the derived
/// postcondition. Tensors and lists of blocks cannot be derived. Therefore nothing is promised for the outputs of
/// collectives that need such values (adasum, alltoallv, neighbor_exchange and others). If the caller names the
/// collective, or if no registered algorithm has the schedules' name, operands may be combined in any order if the
/// kernel commutes. In this case, a partial round that is started by one call must send P-1 signals.
///
/// `world` must not be empty. Returns ARGUMENT if the collective does not exist or needs values that cannot be derived.
/// Also returns ARGUMENT if the caller gives a value that does not apply to the collective. If outputs may have any
/// content, no value applies.
result<world_promise> promise_for(std::span<const schedule_ptr> world, const asked& by_caller = {});

/// Returns "allreduce/tree of sum of 5 x f64" or "bcast of 5 x f64, root 2". `promise.of` must not be null.
std::string words_for(const world_promise& promise);

}  // namespace lsched
