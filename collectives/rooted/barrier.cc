#include "collectives/rooted/barrier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "libsched/schedule/geometry.h"

namespace lsched {

// Receives have no deps: their registers are armed when the round begins, and an early signal just waits
// there. The sends form a chain, the first of each step also waiting for the receives of the step before. A send thus
// follows the entry and every earlier receive with a few deps; so does the exit.
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
  for (const op_id it : heard) to.dep(it, exit);
  return {.entry = entry, .exit = exit};
}

namespace {

constexpr rank k_radix = 4;
rank radix_of(const shape& data) { return data.radix == 0 ? k_radix : data.radix; }

cost cost_of_barrier(rank size, rank radix) {
  cost all;
  for (std::int64_t step = 1; step < size; step *= radix, ++all.hops)
    all.signals += static_cast<std::uint64_t>(size) *
                   static_cast<std::uint64_t>(std::min<std::int64_t>(radix - 1, (size - 1) / step));
  all.signals_of_one = all.signals;
  return all;
}

fragment body(builder& to, const shape&, buffer_id, buffer_id, op_id entry) { return add_barrier(to, entry); }

fragment body_of_radix(builder& to, const shape& data, buffer_id, buffer_id, op_id entry) {
  return add_barrier(to, entry, radix_of(data));
}

}  // namespace

constinit const algorithm k_barrier_dissemination{
    .of = &k_barrier,
    .name = "dissemination",
    .add = body,
    .needs = {.summary = "any P; ceil(log2 P) steps of signals, no payload"},
    .cost_of = [](rank size, const shape&, const activation&) { return cost_of_barrier(size, 2); }};

constinit const algorithm k_barrier_k_dissemination{
    .of = &k_barrier,
    .name = "k_dissemination",
    .add = body_of_radix,
    .needs = {.summary = "any P; ceil(log4 P) steps of three signals, or of radix k; for a core for every rank"},
    .cost_of = [](rank size, const shape& data, const activation&) { return cost_of_barrier(size, radix_of(data)); }};

}  // namespace lsched
