#include "collectives/patterns/lists.h"

#include <algorithm>

#include "collectives/algorithm/shape.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

// Peers are divided into buckets (list_exchange::bucket). A rank sends the lists of a bucket after it has received the
// lists of the previous bucket. This cannot deadlock, because a rank waits only for ranks in earlier buckets.
op_id add_list_exchange(builder& to, const list_exchange& all, op_id exit) {
  const auto [self, size] = to.place();
  const auto at = [](buffer_id buffer, rank element) { return region(buffer, wide(element)); };
  const auto add = [&](op_id message, op_id next) {
    if (all.when != guard{}) to.set_guard(message, all.when);
    to.dep(message, next);
  };
  const op_id own = to.copy(at(all.from, self), at(all.into, self), 1, {all.sent, all.received});
  const op_id done = to.nop({own, all.sent});
  const std::int64_t each = all.bucket == 0 ? size : std::min<std::int64_t>(all.bucket, size);
  op_id ready = all.sent;
  for (std::int64_t first = 1; first < size; first += each) {
    const auto begin = static_cast<rank>(first), end = static_cast<rank>(std::min<std::int64_t>(size, first + each));
    const op_id have = end == size ? done : to.nop({ready});
    for (rank distance = begin; distance < end; ++distance) {
      const rank peer = ring_after(self, distance, size);
      add(to.send(peer, 0, at(all.from, peer), 1, {ready}), exit);
    }
    for (rank distance = begin; distance < end; ++distance) {
      const rank peer = ring_before(self, distance, size);
      add(to.recv(peer, 0, at(all.into, peer), 1, {all.received}), have);
    }
    if (have == done && begin > 1) to.dep(ready, done);
    ready = have;
  }
  return done;
}

/// Gathers the lists in the order self, self + 1, … (mod P), so that each step needs one message. Then copies the lists
/// into rank order.
gathered_lists add_list_gather(builder& to, buffer_id mine, region lengths, const list_layout& layout,
                               std::uint32_t tag, op_id entry, op_id exit) {
  const auto [self, size] = to.place();
  const auto at = [](buffer_id buffer, rank element) { return region(buffer, wide(element)); };
  const rank upper = size - self;
  const dtype items = to.at(mine).type;
  const buffer_id turned = to.lists(buffer_role::scratch, items, wide(size), layout);
  const buffer_id gathered = to.lists(buffer_role::scratch, items, wide(size), layout);
  const buffer_id order = to.scratch(dtype::u64, wide(size));
  const region mine_on(lengths.buffer(), lengths.offset() + wide(self));
  const op_id one = to.copy(mine_on, {order, 0}, wide(upper), {entry});
  const op_id other = to.copy(lengths, at(order, upper), wide(self), {entry});
  const op_id ready = to.lay_out({order, 0}, turned, {one, other});
  const op_id target = to.lay_out(lengths, gathered, {entry});
  op_id have = to.copy({mine, 0}, {turned, 0}, 1, {ready});
  for (rank distance = 1; distance < size; distance *= 2, ++tag) {
    const std::uint64_t lists = wide(std::min(distance, size - distance));
    to.dep(to.send(ring_before(self, distance, size), tag, {turned, 0}, lists, {have}), exit);
    have = to.nop({have, to.recv(ring_after(self, distance, size), tag, at(turned, distance), lists, {ready})});
    if (distance > size / 2) break;  // 2 * distance might overflow
  }
  const op_id lower = to.copy({turned, 0}, at(gathered, self), wide(upper), {have, target});
  const op_id rest = to.copy(at(turned, upper), {gathered, 0}, wide(self), {have, target});
  return {gathered, to.nop({lower, rest})};
}

}  // namespace lsched
