#include "collectives/allgather/exchange.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Exchanges under way at a time in a pairwise exchange.
constexpr rank k_window = 8;
rank window_of(const shape& data) { return data.radix == 0 ? k_window : data.radix; }

/// A block's end at one rank: where it lies in that rank's buffer, and the first of the tags of its pieces.
struct block_end {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  std::uint32_t tag = 0;
};

/// What a rank sends and receives, by the distance of the peer on the ring: behind the sender, or before the receiver.
/// At distance 0 are the blocks that it copies, in the same order.
struct blocks_of_rank {
  std::vector<std::vector<block_end>> out;
  std::vector<std::vector<block_end>> in;
};

std::uint64_t pieces_in(const shape& data, std::uint64_t count) {
  return std::max(pieces_of(data, count), std::uint64_t{1});
}

void add_end(std::vector<block_end>& to, const shape& data, std::uint64_t offset, std::uint64_t count) {
  const std::uint64_t tag = to.empty() ? 0 : to.back().tag + pieces_in(data, to.back().count);
  to.push_back({offset, count, static_cast<std::uint32_t>(tag)});
}

blocks_of_rank blocks_of_alltoall(world place, const shape& data) {
  blocks_of_rank all{std::vector<std::vector<block_end>>(wide(place.size)),
                     std::vector<std::vector<block_end>>(wide(place.size))};
  for (rank distance = 0; distance < place.size; ++distance) {
    const rank target = ring_after(place.self, distance, place.size);
    const rank source = ring_before(place.self, distance, place.size);
    add_end(all.out[wide(distance)], data, wide(target) * data.count, data.count);
    add_end(all.in[wide(distance)], data, wide(source) * data.count, data.count);
  }
  return all;
}

blocks_of_rank listed_blocks(world place, const shape& data) {
  blocks_of_rank all{std::vector<std::vector<block_end>>(wide(place.size)),
                     std::vector<std::vector<block_end>>(wide(place.size))};
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  for (const exchanged_block& it : data.blocks) {
    const std::size_t distance = wide(ring_before(it.to, it.from, place.size));
    if (it.from == place.self) add_end(all.out[distance], data, std::exchange(sent, sent + it.count), it.count);
    if (it.to == place.self) add_end(all.in[distance], data, std::exchange(received, received + it.count), it.count);
  }
  return all;
}

/// Every pair has something to say.
blocks_of_rank listed_and_empty_blocks(world place, const shape& data) {
  blocks_of_rank all = listed_blocks(place, data);
  for (std::size_t distance = 1; distance < wide(place.size); ++distance)
    for (auto* ends : {&all.out[distance], &all.in[distance]})
      if (ends->empty()) add_end(*ends, data, 0, 0);
  return all;
}

/// The ops of one rank while they are being written.
class exchange {
 public:
  exchange(builder& to, const shape& data, const blocks_of_rank& blocks, buffer_id input, buffer_id output, op_id entry)
      : part_(to, data, entry), blocks_(blocks), input_(input), output_(output) {}

  /// At most `window` distances at a time.
  fragment write(rank window) {
    if (part_.data().in_place) stage();
    std::vector<op_id> over(wide(part_.size()), k_no_op);
    for (rank distance = 1; distance < part_.size(); ++distance) {
      const bool is_throttled = distance > window;
      over[wide(distance)] =
          step(distance, is_throttled ? over[wide(distance - window)] : k_no_op, distance < part_.size() - window);
    }
    if (!part_.data().in_place) copy_own();
    return part_.finish(true);
  }

 private:
  // Blocks of an alltoall in place are sent from where they stay until the end of the round.
  void stage() {
    staged_.resize(wide(part_.size()));
    if (part_.size() == 1) return;
    source_ = part_.scratch(wide(part_.size()) * part_.data().count);
    for (rank distance = 1; distance < part_.size(); ++distance) {
      const block_end& it = blocks_.out[wide(distance)].front();
      staged_[wide(part_.after(distance))] = part_.copy({input_, it.offset}, {source_, it.offset}, it.count);
    }
  }

  /// Answers an op after which the step is over, if a later step `is_awaiting` that.
  op_id step(rank distance, op_id when, bool is_awaiting) {
    const op_id over = is_awaiting ? part_.nop({k_no_op}) : k_no_op;
    const auto finish = [&](op_id what) { is_awaiting ? part_.order(what, over) : part_.end(what); };
    const rank target = part_.after(distance);
    const rank source = part_.before(distance);
    for (const block_end& it : blocks_.in[wide(distance)])
      for_each_piece(it, [&](std::uint32_t tag, std::uint64_t offset, std::uint64_t count) {
        finish(part_.recv(source, tag, {output_, offset}, count, {when, staged(source)}));
      });
    for (const block_end& it : blocks_.out[wide(distance)])
      for_each_piece(it, [&](std::uint32_t tag, std::uint64_t offset, std::uint64_t count) {
        finish(part_.send(target, tag, {source_of_sends(), offset}, count, {when, staged(target)}));
      });
    return over;
  }

  op_id staged(rank peer) const { return staged_.empty() ? k_no_op : staged_[wide(peer)]; }
  buffer_id source_of_sends() const { return source_ == k_no_buffer ? input_ : source_; }

  template <class Visit>
  void for_each_piece(const block_end& it, const Visit& visit) {
    const portions pieces(it.count, pieces_in(part_.data(), it.count));
    for (std::uint64_t i = 0; i < pieces.number(); ++i)
      visit(it.tag + static_cast<std::uint32_t>(i), it.offset + pieces.begin(i), pieces.length(i));
  }

  void copy_own() {
    for (std::size_t i = 0; i < blocks_.out[0].size(); ++i)
      part_.end(
          part_.copy({input_, blocks_.out[0][i].offset}, {output_, blocks_.in[0][i].offset}, blocks_.out[0][i].count));
  }

  rank_part part_;
  const blocks_of_rank& blocks_;
  const buffer_id input_;
  const buffer_id output_;
  buffer_id source_ = k_no_buffer;  ///< of sends, if that is not the input
  std::vector<op_id>
      staged_{};  ///< in place, by rank: the copy of what it is sent; before it, nothing may arrive there
};

// --- costs ---------------------------------------------------------------------------------------------------

cost cost_of_alltoall(rank size, const shape& data, const activation&) {
  const std::uint64_t pairs = wide(size) * (wide(size) - 1);
  return {.messages = pairs * pieces_in(data, data.count),
          .bytes = saturating_product(pairs, bytes_of(data.count, data)),
          .hops = size > 1 ? 1u : 0u};
}

/// Of the listed blocks alone.
cost cost_of_list(const shape& data) {
  cost all;
  std::uint64_t elements = 0;
  for (const exchanged_block& it : data.blocks) {
    if (it.from == it.to) continue;
    all.messages += pieces_in(data, it.count);
    elements += it.count;
    all.hops = 1;
  }
  all.bytes = bytes_of(elements, data);
  return all;
}

cost cost_of_alltoallv(rank size, const shape& data, rank window) {
  std::vector<std::uint64_t> pairs;
  for (const exchanged_block& it : data.blocks)
    if (it.from != it.to) pairs.push_back(wide(it.from) * wide(size) + wide(it.to));
  std::ranges::sort(pairs);
  const auto repeated = std::ranges::unique(pairs);
  cost all = cost_of_list(data);
  all.messages += wide(size) * (wide(size) - 1) - (pairs.size() - repeated.size());
  all.hops = (wide(size) - 1 + wide(window) - 1) / wide(window);
  return all;
}

rank no_window(rank size) { return size; }

}  // namespace

fragment add_alltoall_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const blocks_of_rank blocks = blocks_of_alltoall(to.place(), data);
  return exchange(to, data, blocks, input, output, entry).write(no_window(to.place().size));
}

fragment add_alltoallv_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const blocks_of_rank blocks = listed_and_empty_blocks(to.place(), data);
  return exchange(to, data, blocks, input, output, entry).write(no_window(to.place().size));
}

fragment add_alltoallv_pairwise(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const blocks_of_rank blocks = listed_and_empty_blocks(to.place(), data);
  return exchange(to, data, blocks, input, output, entry).write(window_of(data));
}

fragment add_neighbor_exchange_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const blocks_of_rank blocks = listed_blocks(to.place(), data);
  return exchange(to, data, blocks, input, output, entry).write(no_window(to.place().size));
}

constinit const algorithm k_alltoall_direct{.of = &k_alltoall,
                                            .name = "direct",
                                            .add = add_alltoall_direct,
                                            .needs = {.summary = "any P; all pairs at once, one hop"},
                                            .cost_of = cost_of_alltoall};

constinit const algorithm k_alltoallv_direct{
    .of = &k_alltoallv,
    .name = "direct",
    .add = add_alltoallv_direct,
    .needs = {.in_place = false, .summary = "any P; all pairs at once, one hop"},
    .cost_of = [](rank size, const shape& data, const activation&) {
      return cost_of_alltoallv(size, data, no_window(size));
    }};

constinit const algorithm k_alltoallv_pairwise{
    .of = &k_alltoallv,
    .name = "pairwise",
    .add = add_alltoallv_pairwise,
    .needs = {.in_place = false,
              .summary = "any P; at most 8 peers at a time, or radix; for many ranks and long blocks"},
    .cost_of = [](rank size, const shape& data, const activation&) {
      return cost_of_alltoallv(size, data, window_of(data));
    }};

constinit const algorithm k_neighbor_exchange_direct{
    .of = &k_neighbor_exchange,
    .name = "direct",
    .add = add_neighbor_exchange_direct,
    .needs = {.in_place = false, .summary = "any graph of neighbours; all blocks at once, one hop"},
    .cost_of = [](rank, const shape& data, const activation&) { return cost_of_list(data); }};

}  // namespace lsched
