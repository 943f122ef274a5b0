#include "microbench/lockstep/volume.h"

#include <algorithm>

namespace lsched {
namespace {

std::uint64_t wide(rank it) { return static_cast<std::uint64_t>(it); }

}  // namespace

std::uint64_t bound_items(const sparse_problem& problem) {
  return 3 * most_items(problem) * (problem.ranks() - 1) / problem.ranks();
}

void phase_volume::add(item_traffic of_rank) {
  most_sent = std::max(most_sent, of_rank.sent);
  most_received = std::max(most_received, of_rank.received);
  total += of_rank.sent;
}

volume_meter::volume_meter(const sparse_problem& problem) : problem_(problem), payload_(wide(problem.place.size)) {}

void volume_meter::begin(bool looks) {
  volume_ = {.looks = looks};
  std::fill(payload_.begin(), payload_.end(), item_traffic{});
}

void volume_meter::add_split(rank from, std::span<const std::uint64_t> lengths) {
  std::uint64_t sent = 0;
  for (std::size_t to = 0; to < lengths.size(); ++to) {
    if (to == wide(from)) continue;
    sent += lengths[to];
    payload_[to].received += lengths[to];
  }
  payload_[wide(from)].sent += sent;
}

void volume_meter::finish(const balance_plan& plan) {
  volume_.kept = plan.total();
  const std::uint64_t bound = bound_items(problem_);
  for (rank r = 0; r < problem_.place.size; ++r) {
    item_traffic& all = payload_[wide(r)];
    volume_.split.add(all);
    const item_traffic moved = plan.exchanged_by(r), gathered = plan.gathered_by(r);
    volume_.balance.add(moved);
    volume_.gather.add(gathered);
    all.sent += moved.sent + gathered.sent;
    all.received += moved.received + gathered.received;
    volume_.payload.add(all);
    if (all.sent > bound || all.received > bound) ++volume_.over_bound;
  }
}

}  // namespace lsched
