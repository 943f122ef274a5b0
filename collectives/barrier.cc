#include "collectives/barrier.h"

#include "libsched/geometry.h"

namespace lsched {

// Receives have no deps: their registers are armed when the round begins, and an early signal just waits
// there. The sends form a chain, each of them also waiting for the receive of the step before. A send thus
// follows the entry and every earlier receive with two deps instead of k; so does the exit.
fragment add_barrier(builder& to, op_id entry) {
  const world place = to.place();
  op_id sent = entry;
  op_id heard = k_no_op;
  for (int k = 0; k < ceil_log2(place.size); ++k) {
    const rank distance = rank{1} << k;
    sent = to.signal_send(ring_after(place.self, distance, place.size), k_barrier_tag, {sent, heard});
    heard = to.signal_recv(ring_before(place.self, distance, place.size), k_barrier_tag);
  }
  return {.entry = entry, .exit = to.nop({sent, heard})};
}

namespace {

cost cost_of_barrier(rank size, const shape&, activation_policy) {
  const auto steps = static_cast<std::uint64_t>(ceil_log2(size));
  const std::uint64_t signals = static_cast<std::uint64_t>(size) * steps;
  return {.signals = signals, .signals_of_one = signals, .hops = steps};
}

fragment body(builder& to, const shape&, buffer_id, buffer_id, op_id entry) { return add_barrier(to, entry); }

}  // namespace

constinit const algorithm k_barrier_dissemination{
    .of = &k_barrier,
    .name = "dissemination",
    .generate = barrier_dissemination,
    .needs = {.summary = "any P; ceil(log2 P) steps of signals, no payload"},
    .cost_of = cost_of_barrier};

result<schedule_ptr> barrier_dissemination(world place, const shape& data, const activation& starts) {
  return make_collective(k_barrier_dissemination, place, data, starts, body);
}

}  // namespace lsched
