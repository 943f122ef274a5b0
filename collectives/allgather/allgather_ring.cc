#include "collectives/allgather/allgather_ring.h"

#include <algorithm>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

portions pieces_in(const shape& data, rank block) {
  const std::uint64_t count = block_count(data, block);
  return {count, data.segment == 0 ? 1 : std::max(pieces_of(data, count), std::uint64_t{1})};
}

cost cost_of_ring(rank size, const shape& data, const activation&) {
  const std::uint64_t others = wide(size) - 1;
  if (data.counts.empty())
    return {.messages = wide(size) * pieces_in(data, 0).number() * others,
            .bytes = saturating_product(wide(size) * others, bytes_of(data.count, data)),
            .hops = others};
  cost all{.hops = others};
  std::uint64_t elements = 0;
  for (rank block = 0; block < size; ++block) {
    all.messages += pieces_in(data, block).number() * others;
    elements += block_count(data, block);
  }
  all.bytes = saturating_product(others, bytes_of(elements, data));
  return all;
}

}  // namespace

/// A block that has come `distance` steps comes by one message a piece, and goes on unless the next rank owns it.
fragment add_allgather_ring(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  rank_part part(to, data, entry);
  const auto offsets = block_offsets(data, part.size());
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  for (rank distance = 0; part.size() > 1 && distance < part.size(); ++distance) {
    const rank block = part.before(distance);
    const portions pieces = pieces_in(data, block);
    for (std::uint64_t i = 0; i < pieces.number(); ++i) {
      const region here{output, offsets[wide(block)] + pieces.begin(i)};
      op_id got = k_no_op;
      if (distance > 0) got = part.recv(part.before(1), received++, here, pieces.length(i));
      if (distance + 1 == part.size())
        part.end(got);
      else
        part.end(part.send(part.after(1), sent++, distance == 0 ? region{input, pieces.begin(i)} : here,
                           pieces.length(i), {got}));
    }
  }
  if (!data.in_place)
    part.end(part.copy({input, 0}, {output, offsets[wide(part.self())]}, block_count(data, part.self())));
  return part.finish(true);
}

constinit const algorithm k_allgather_ring{
    .of = &k_allgather,
    .name = "ring",
    .generate = generated<k_allgather_ring, add_allgather_ring>,
    .needs = {.summary = "any P; P-1 steps with one block between neighbours; for long blocks"},
    .cost_of = cost_of_ring};

constinit const algorithm k_allgatherv_ring{
    .of = &k_allgatherv,
    .name = "ring",
    .generate = generated<k_allgatherv_ring, add_allgather_ring>,
    .needs = {.summary = "any P; P-1 steps with one block between neighbours; for long blocks"},
    .cost_of = cost_of_ring};

}  // namespace lsched
