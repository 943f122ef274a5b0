// Trials of training loops in which some ranks die, and some hosts are lost. The survivors form a smaller world
// (lsched_shrink) and move their schedules into this world (lsched_carry). Further ranks may die meanwhile. At the end
// all survivors must have received the same contributions: every contribution of a survivor exactly once, and the first
// contributions of a lost rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "libsched/schedule/draw.h"
#include "ops/base.h"

namespace lsched::testing {

/// A rank that runs longer is killed, and the trial fails.
constexpr std::chrono::seconds k_limit_of_trial{100};

/// The faults of a host. If only the network of a host fails, the ranks of this host live, but may not continue.
enum class host_fault : std::uint8_t {
  processes,  ///< SIGKILL ends all ranks of the host
  power,      ///< the link of the host goes down, and then SIGKILL ends all ranks of the host
  link,       ///< the link of the host goes down
  reception,  ///< the host receives nothing more
  outage,  ///< the link of the host goes down for 2.5 to 6 s; either all ranks of the host are lost, or no rank is lost
  glitch   ///< the link of the host goes down for at most 1.4 s, and no rank is lost
};

/// The parameters of a trial. The seed determines everything else.
struct shrink_trial {
  std::uint64_t seed;
  const char* activation;
  rank ranks = 8;
  int kills = 1;
  std::uint64_t count = 64;    ///< number of elements of a contribution
  bool sums_integers = false;  ///< whether the elements are 64-bit integers, instead of double
  bool divides = false;        ///< whether results are divided by the number of ranks
  bool has_views = false;      ///< whether results are read in place
  bool averages = false;  ///< whether the ranks call model_sync every few steps; contributions are then not counted
  int schedules = 1;  ///< number of schedules that are in flight together; lsched_carry moves these one after the other
  bool kills_in_recovery = false;  ///< whether all deaths and faults except the first happen during a recovery
  std::int64_t steps = 200;
  int ranks_per_host = 0;  ///< number of ranks per emulated host (the transport net connects the hosts); 0: all ranks
                           ///< share memory
  bool has_networks = false;  ///< whether each host is a network namespace (network_hosts.h); only root can make these
  std::vector<host_fault> host_faults{};  ///< each fault is of a different host; needs `has_networks`

  int hosts() const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
};

struct shrink_result {
  std::string complaints;
  std::vector<double> gaps_ms;  ///< time from each loss until the last survivor had a result of the new world
  int deaths = 0;               ///< number of lost ranks
  int deaths_in_recovery = 0;   ///< number of deaths during a recovery, caused by `kills_in_recovery`
  int repeated_rounds = 0;      ///< number of rounds that a lost rank had ended with one sum, and that the survivors
                                ///< repeated with another sum
};

/// Returns the weight of a rank's contribution. The first contribution has the ordinal 1. A third of the weights are 1.
inline std::int64_t weight_of(const shrink_trial& what, rank of, std::size_t schedule, std::int64_t ordinal) {
  const std::uint64_t draw =
      mix(mix(what.seed + 16 * schedule + static_cast<std::uint64_t>(of)) + static_cast<std::uint64_t>(ordinal));
  return draw % 3 == 0 ? 1 : 1 + static_cast<std::int64_t>((draw >> 8) % 20);
}

/// Runs a trial with processes as ranks.
shrink_result run_shrink_trial(const shrink_trial& what);

}  // namespace lsched::testing
