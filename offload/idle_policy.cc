#include "offload/idle_policy.h"

#include <sched.h>

#include "libsched/transport/doorbell.h"

namespace lsched {

std::optional<idle_mode> parse_idle_mode(std::string_view text) {
  if (text == "auto") return idle_mode::automatic;
  if (text == "spin") return idle_mode::spin;
  if (text == "yield") return idle_mode::yield;
  if (text == "park") return idle_mode::park;
  return std::nullopt;
}

idle_policy make_idle_policy(idle_mode mode, unsigned local_ranks, unsigned cores) {
  using namespace std::chrono_literals;
  switch (mode) {
    case idle_mode::spin: return {.spin = idle_policy::forever};
    case idle_mode::yield: return {.yield = idle_policy::forever};
    case idle_mode::park: return {};
    case idle_mode::automatic: break;
  }
  const bool are_cores_taken = local_ranks >= cores;
  if (local_ranks <= cores) return {.spin = 50us, .yield = 20us, .are_cores_taken = are_cores_taken, .gives_way = true};
  return {.spin = 0ns, .yield = 10us, .turns = 32, .patience = 500us, .are_cores_taken = are_cores_taken};
}

bool idle_once(const idle_policy& policy, std::chrono::nanoseconds idle_for, std::uint32_t& yields) {
  if (idle_for < policy.spin) {
    cpu_relax();
    return true;
  }
  const bool has_time = policy.yield == idle_policy::forever || idle_for - policy.spin < policy.yield;
  if (has_time || (yields < policy.turns && idle_for < policy.patience)) {
    ++yields;
    sched_yield();
    return true;
  }
  return false;
}

}  // namespace lsched
