// An allgather of lists, which sends the lengths before the lists. This is the smallest example with packed lists and
// both kinds of guards. One kind of guard runs an op only in some rounds. The other kind skips an op if a list is
// empty.
#pragma once

#include <vector>

#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/builder.h"

namespace lsched::testing {

inline constexpr std::uint64_t k_list_room = 5;   ///< capacity of a list, in items
inline constexpr std::uint64_t k_list_total = 9;  ///< capacity of an output, in items

/// Options of the allgather, some of which plant faults.
struct list_gather {
  bool skips_empty = true;
  std::uint32_t every = 1;        ///< the messages with lists are sent only in every `every`-th round
  bool lays_out = true;           ///< fault if false: the op that lays out the outputs is missing
  bool turns_lengths = false;     ///< fault: the outputs are laid out with the lengths of the neighbouring ranks
  bool sends_other_list = false;  ///< fault: a rank sends the length of one list and the items of another list
  std::uint64_t typical = 0;      ///< typical number of items in a list, for cost models
};

/// Writes the ops of a rank. Every rank has two lists, and the first list is gathered. In every other round the rank
/// also sends all lengths to its neighbour.
inline void write_list_gather(builder& to, const list_gather& how) {
  const auto [self, size] = to.place();
  const auto ranks = static_cast<std::uint64_t>(size), mine = static_cast<std::uint64_t>(self);
  const buffer_id in = to.lists(buffer_role::input, dtype::f32, 2, {.room = k_list_room, .typical = how.typical});
  const buffer_id out = to.lists(buffer_role::output, dtype::f32, ranks,
                                 {.room = k_list_room, .total = k_list_total, .typical = how.typical});
  const buffer_id lengths = to.scratch(dtype::u64, ranks), turned = to.scratch(dtype::u64, ranks);
  const op_id measured = to.measure({in, 0}, {lengths, mine}, 1);
  op_id known = to.nop({measured});
  for (rank r = 0; r < size; ++r) {
    if (r == self) continue;
    to.send(r, 0, {lengths, mine}, 1, {measured});
    known = to.nop({known, to.recv(r, 0, {lengths, static_cast<std::uint64_t>(r)}, 1)});
  }
  op_id ready = known;
  if (how.turns_lengths)
    ready = to.nop({to.copy({lengths, 1}, {turned, 0}, ranks - 1, {known}),
                    to.copy({lengths, 0}, {turned, ranks - 1}, 1, {known})});
  if (how.lays_out) ready = to.lay_out({how.turns_lengths ? turned : lengths, 0}, out, {ready});
  to.copy({in, 0}, {out, mine}, 1, {ready});
  for (rank r = 0; r < size; ++r) {
    if (r == self) continue;
    const op_id sent = to.send(r, 1, {in, how.sends_other_list ? 1u : 0u}, 1);
    const op_id got = to.recv(r, 1, {out, static_cast<std::uint64_t>(r)}, 1, {ready});
    for (const op_id it : {sent, got})
      if (how.every != 1 || how.skips_empty) to.set_guard(it, {.every = how.every, .skips_empty = how.skips_empty});
  }
  if (size > 1) {
    const buffer_id heard = to.scratch(dtype::u64, ranks), kept = to.scratch(dtype::u64, ranks);
    const op_id told = to.send((self + 1) % size, 2, {lengths, 0}, ranks, {known});
    const op_id got = to.recv((self + size - 1) % size, 2, {heard, 0}, ranks);
    for (const op_id it : {told, got, to.copy({heard, 0}, {kept, 0}, ranks, {got})}) to.set_guard(it, {.every = 2});
  }
  to.declare_synchronising();
}

inline std::vector<schedule_ptr> list_gather_world(rank size, const list_gather& how = {}) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    builder to({self, size}, "list_gather");
    write_list_gather(to, how);
    world.push_back(*to.compile());
  }
  return world;
}

/// Returns the postcondition: every output contains the first list of every rank.
inline postcondition all_lists(rank size) {
  postcondition promise;
  for (rank holder = 0; holder < size; ++holder)
    for (rank from = 0; from < size; ++from)
      promise.ranges.push_back({.holder = holder,
                                .begin = static_cast<std::uint64_t>(from),
                                .end = static_cast<std::uint64_t>(from) + 1,
                                .what = promised_content::moved,
                                .source = from});
  return promise;
}

}  // namespace lsched::testing
