// Allgather(v) in one hop: every rank sends its block to all others. They receive the block at its final place.
//
// There are P (P-1) messages, or more if blocks are cut into segments. A rank sends a segment to all peers before it
// sends the next. Peers are served in the order r+1, r+2, …, so that ranks begin with different peers. The algorithm is
// synchronising: no rank ends before every rank has begun.
#include <algorithm>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

/// Returns the pieces of a rank's block. There is at least one piece, because even an empty message shows that the rank
/// has entered the round.
portions pieces_in(const shape& data, rank block) {
  const std::uint64_t count = block_count(data, block);
  return {count, std::max(pieces_of(data, count), std::uint64_t{1})};
}

fragment add_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  rank_part part(to, data, input, output, entry);
  const rank self = part.self();
  const auto offsets = block_offsets(data, part.size());
  const portions own = pieces_in(data, self);
  for (std::uint64_t i = 0; i < own.number(); ++i)
    for (rank distance = 1; distance < part.size(); ++distance)
      part.end(part.send(part.after(distance), tag_of_piece(i), {input, own.begin(i)}, own.length(i)));
  for (rank distance = 1; distance < part.size(); ++distance) {
    const rank peer = part.before(distance);
    const portions theirs = pieces_in(data, peer);
    for (std::uint64_t i = 0; i < theirs.number(); ++i)
      part.end(part.recv(peer, tag_of_piece(i), {output, offsets[wide(peer)] + theirs.begin(i)}, theirs.length(i)));
  }
  if (!data.in_place) part.end(part.copy({input, 0}, {output, offsets[wide(self)]}, block_count(data, self)));
  return part.finish(true);
}

cost cost_of_direct(rank size, const shape& data) {
  std::uint64_t messages = 0;
  if (data.counts.empty()) messages = wide(size) * pieces_in(data, 0).number();
  for (rank block = 0; !data.counts.empty() && block < size; ++block) messages += pieces_in(data, block).number();
  return {.messages = messages * (wide(size) - 1), .bytes = bytes_to_all(size, data), .hops = size == 1 ? 0u : 1u};
}

constexpr algorithm direct_of(const collective& of) {
  return {
      .of = &of,
      .name = "direct",
      .add = add_direct,
      .needs = {.moves_lists = true, .summary = "any P; every rank sends to every rank, one hop; for shared memory"},
      .cost_of = cost_of_direct,
      .looks_at = {.segment = true}};
}

}  // namespace

constinit const algorithm k_allgather_direct = direct_of(k_allgather);
constinit const algorithm k_allgatherv_direct = direct_of(k_allgatherv);

}  // namespace lsched
