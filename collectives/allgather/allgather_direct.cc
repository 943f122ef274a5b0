#include "collectives/allgather/allgather_direct.h"

#include <algorithm>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// A rank says that it has entered even if it has nothing to send.
portions pieces_in(const shape& data, rank block) {
  const std::uint64_t count = block_count(data, block);
  return {count, std::max(pieces_of(data, count), std::uint64_t{1})};
}

cost cost_of_direct(rank size, const shape& data, const activation&) {
  if (size == 1) return {};
  const std::uint64_t others = wide(size) - 1;
  cost all{.hops = 1};
  if (data.counts.empty())
    return {.messages = wide(size) * pieces_in(data, 0).number() * others,
            .bytes = saturating_product(wide(size) * others, bytes_of(data.count, data)),
            .hops = 1};
  std::uint64_t elements = 0;
  for (rank block = 0; block < size; ++block) {
    all.messages += pieces_in(data, block).number() * others;
    elements += block_count(data, block);
  }
  all.bytes = saturating_product(others, bytes_of(elements, data));
  return all;
}

}  // namespace

fragment add_allgather_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  rank_part part(to, data, entry);
  const rank self = part.self();
  const auto offsets = block_offsets(data, part.size());
  const portions mine = pieces_in(data, self);
  for (std::uint64_t i = 0; i < mine.number(); ++i)
    for (rank distance = 1; distance < part.size(); ++distance)
      part.end(part.send(part.after(distance), static_cast<std::uint32_t>(i), {input, mine.begin(i)}, mine.length(i)));
  for (rank distance = 1; distance < part.size(); ++distance) {
    const rank peer = part.before(distance);
    const portions theirs = pieces_in(data, peer);
    for (std::uint64_t i = 0; i < theirs.number(); ++i)
      part.end(part.recv(peer, static_cast<std::uint32_t>(i), {output, offsets[wide(peer)] + theirs.begin(i)},
                         theirs.length(i)));
  }
  if (!data.in_place) part.end(part.copy({input, 0}, {output, offsets[wide(self)]}, block_count(data, self)));
  return part.finish(true);
}

constinit const algorithm k_allgather_direct{
    .of = &k_allgather,
    .name = "direct",
    .add = add_allgather_direct,
    .needs = {.summary = "any P; everybody sends to everybody, one hop; for shared memory"},
    .cost_of = cost_of_direct};

constinit const algorithm k_allgatherv_direct{
    .of = &k_allgatherv,
    .name = "direct",
    .add = add_allgather_direct,
    .needs = {.summary = "any P; everybody sends to everybody, one hop; for shared memory"},
    .cost_of = cost_of_direct};

}  // namespace lsched
