#include "libsched/partial/partial_stats.h"

#include <algorithm>

namespace lsched {
namespace {

std::uint64_t time_between(std::uint64_t earlier, std::uint64_t later) { return later > earlier ? later - earlier : 0; }

void count_contributors(partial_figures& into, std::uint64_t contributors, std::uint64_t ranks) {
  into.contributors_sum += contributors;
  into.contributors_min = into.rounds == 0 ? contributors : std::min(into.contributors_min, contributors);
  into.contributors_max = std::max(into.contributors_max, contributors);
  constexpr std::uint64_t k_most = partial_figures::k_most_contributors;
  ++into.contributors[ranks <= k_most ? contributors : (contributors * k_most + ranks - 1) / ranks];
}

}  // namespace

// Decides whether the call for the round is in time. A call after this check is late, even if the engine handles the
// call in the same step.
void partial_stats::enter(round_no round, std::uint64_t now_ns) {
  entered_ = round;
  gates_[round % call_times::k_kept] = now_ns;
  is_in_time_ = calls.last() >= round;
}

void partial_stats::finish(const delivered& what, std::uint64_t now_ns) {
  const std::uint64_t gate_ns = gates_[what.to % call_times::k_kept];
  count_late_up_to(what.to - 1);
  if (is_in_time_) {
    ++figures_.in_time;
    if (const auto call_ns = calls.of(what.to)) figures_.early_ns.add(time_between(*call_ns, gate_ns));
    counted_ = what.to;
  }
  count_contributors(figures_, what.contributors, what.ranks);
  if (what.mine != 0) figures_.staleness.add(what.staleness);
  figures_.completion_ns.add(time_between(gate_ns, now_ns));
  figures_.rounds = what.to - before_;
}

const partial_figures& partial_stats::figures() {
  count_late_up_to(before_ + figures_.rounds);
  return figures_;
}

// A rank that is far behind may call for rounds whose capture times are already overwritten. Such calls are counted
// without a time.
void partial_stats::count_late_up_to(round_no round) {
  const round_no end = std::min(calls.last(), round);
  if (end <= counted_) return;
  figures_.late += end - counted_;
  const round_no forgotten = entered_ > call_times::k_kept ? entered_ - call_times::k_kept : 0;
  for (round_no late = std::max(counted_, forgotten) + 1; late <= end; ++late)
    if (const auto call_ns = calls.of(late))
      figures_.late_ns.add(time_between(gates_[late % call_times::k_kept], *call_ns));
  counted_ = end;
}

}  // namespace lsched
