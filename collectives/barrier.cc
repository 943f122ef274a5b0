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

result<schedule_ptr> barrier_dissemination(world place) {
  builder to(place, "barrier/dissemination");
  to.set_exit(add_barrier(to, k_no_op).exit);
  to.declare_synchronising();
  return to.compile();
}

}  // namespace lsched
