// Barriers by signals, without payload.
//
//   dissemination      k = 2 (Hensgen, Finkel and Manber, 1988)
//   k_dissemination    dissemination with k-1 peers in each step (Hoefler and others, 2006). k is `radix`, or 4 if
//                      `radix` is 0. k = 4 needs half as many steps as k = 2, but each step has three signals
//   tree               a k-nomial tree whose radix is `radix`, or 4 if `radix` is 0. A rank signals its parent when the
//                      whole subtree of the rank has entered. The rank signals its children when all ranks have entered
//
// In step j of a dissemination, j = 0 … ceil(log_k P) - 1, rank r signals ranks r + i k^j and waits for ranks r - i k^j
// (mod P), i = 1 … k-1. A signal of step j means that the sender and the k^j - 1 ranks before it have entered. The
// receives of an earlier step m cover the ranks at distances k^m … k^(m+1) - 1. So a rank sends a signal of step j only
// after the receives of *all* earlier steps.
//
// The tree needs 2 (P-1) signals, which is the minimum, and has 2 * depth hops. The tree suits ranks that share cores,
// because every signal may have to wake its receiver.
#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "collectives/rooted/rooted.h"

namespace lsched {

// Receives have no deps, because an early signal stays in its register. The sends form a chain, in which the first send
// of each step also waits for the receives of the previous step. So only a few deps are needed, although each send and
// the exit wait for the entry and for all earlier receives.
fragment add_barrier(builder& to, op_id entry, rank radix) {
  const world place = to.place();
  op_id sent = entry;
  std::vector<op_id> heard;
  for (std::int64_t step = 1; step < place.size; step *= radix) {
    const std::vector<op_id> before = std::exchange(heard, {});
    for (std::int64_t i = 1; i < radix && i * step < place.size; ++i) {
      const auto distance = static_cast<rank>(i * step);
      sent = to.signal_send(ring_after(place.self, distance, place.size), k_barrier_tag, {sent});
      for (std::size_t k = 0; i == 1 && k < before.size(); ++k) to.dep(before[k], sent);
      heard.push_back(to.signal_recv(ring_before(place.self, distance, place.size), k_barrier_tag));
    }
  }
  const op_id exit = to.nop({sent});
  for (const op_id received : heard) to.dep(received, exit);
  return {.entry = entry, .exit = exit};
}

namespace {

rank radix_of(const shape& data) { return data.radix == 0 ? k_tree_radix : data.radix; }

cost cost_of_dissemination(rank size, rank radix) {
  cost all;
  for (std::int64_t step = 1; step < size; step *= radix, ++all.hops)
    all.signals += static_cast<std::uint64_t>(size) *
                   static_cast<std::uint64_t>(std::min<std::int64_t>(radix - 1, (size - 1) / step));
  all.signals_of_one = all.signals;
  return all;
}

knomial tree_of(rank size, const shape& data) { return {size, radix_of(data)}; }

fragment add_tree(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  rank_part part(to, data, input, output, entry);
  const knomial tree = tree_of(part.size(), data);
  const std::vector<rank> children = tree.children_of(part.self());
  op_id all = part.nop();
  for (const rank child : children) part.order(part.signal_recv(child, k_barrier_tag), all);
  if (part.self() != 0) {
    const rank parent = tree.parent_of(part.self());
    const op_id told = part.signal_send(parent, k_barrier_tag, {all});
    all = part.nop({told, part.signal_recv(parent, k_barrier_tag)});
  }
  // Signals the child with the deepest subtree first.
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    part.end(part.signal_send(*child, k_barrier_tag, {all}));
  if (children.empty()) part.end(all);
  return part.finish(true);
}

cost cost_of_tree(rank size, const shape& data) {
  const std::uint64_t signals = 2 * (wide(size) - 1);
  return {.signals = signals,
          .signals_of_one = signals,
          .hops = 2 * static_cast<std::uint64_t>(tree_of(size, data).depth())};
}

}  // namespace

constinit const algorithm k_barrier_dissemination{
    .of = &k_barrier,
    .name = "dissemination",
    .add = [](builder& to, const shape&, buffer_id, buffer_id, op_id entry) { return add_barrier(to, entry); },
    .needs = {.summary = "any P; ceil(log2 P) steps of signals, no payload"},
    .cost_of = [](rank size, const shape&) { return cost_of_dissemination(size, 2); }};

constinit const algorithm k_barrier_k_dissemination{
    .of = &k_barrier,
    .name = "k_dissemination",
    .add = [](builder& to, const shape& data, buffer_id, buffer_id,
              op_id entry) { return add_barrier(to, entry, radix_of(data)); },
    .needs = {.summary = "any P; ceil(log4 P) steps of three signals, or of radix k; for a core for every rank"},
    .cost_of = [](rank size, const shape& data) { return cost_of_dissemination(size, radix_of(data)); },
    .looks_at = {.radix = true}};

constinit const algorithm k_barrier_tree{
    .of = &k_barrier,
    .name = "tree",
    .add = add_tree,
    .needs = {.summary = "any P; 2(P-1) signals, the fewest, along a tree; for ranks that share cores"},
    .cost_of = cost_of_tree,
    .looks_at = {.radix = true}};

}  // namespace lsched
