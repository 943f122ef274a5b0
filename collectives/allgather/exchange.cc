// Exchanges in which every pair of ranks has its own block: alltoall, alltoallv and neighbor_exchange.
//
//   direct     sends to all peers at once, in the order r+1, r+2, …, so that ranks begin with different peers     1 hop
//   pairwise   alltoallv only: step k exchanges with r+k and r-k. Step k waits for step k-W, so that at most W steps
//              are in flight. W is `radix`, or 8 if `radix` is 0. (Kumar and others, 2008; Thakur, Rabenseifner and
//              Gropp, 2005)
//
// Each block moves once, from its place in the input to its place in the output. Long blocks are cut into segments. An
// in-place alltoall first copies outgoing blocks to scratch memory, because an incoming block might overwrite an
// outgoing block before that block has been sent. In an alltoall(v), a pair of ranks without a block, or with an empty
// block, exchanges an empty message. So an alltoall(v) is synchronising. If a pair has several blocks, they are matched
// by their order in the list (shape::blocks).
#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

/// The location of a block in the buffer of its sender or its receiver, and the first tag of its pieces.
struct block_end {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  std::uint32_t tag = 0;
};

/// The blocks that a rank sends and receives, indexed by the distance from sender to receiver, modulo P. The entries
/// with index 0 are the blocks that the rank copies, in the same order in both lists.
struct blocks_of_rank {
  explicit blocks_of_rank(rank size) : out(wide(size)), in(wide(size)) {}
  std::vector<std::vector<block_end>> out, in;
};

std::uint64_t pieces_in(const shape& data, std::uint64_t count) {
  return std::max(pieces_of(data, count), std::uint64_t{1});
}

void add_end(std::vector<block_end>& to, const shape& data, std::uint64_t offset, std::uint64_t count) {
  const std::uint64_t tag = to.empty() ? 0 : to.back().tag + pieces_in(data, to.back().count);
  to.push_back({offset, count, static_cast<std::uint32_t>(tag)});
}

blocks_of_rank listed_blocks(world place, const shape& data) {
  blocks_of_rank all(place.size);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  for (const auto [from, to, count] : data.blocks) {
    const std::size_t distance = wide(ring_before(to, from, place.size));
    if (from == place.self) add_end(all.out[distance], data, std::exchange(sent, sent + count), count);
    if (to == place.self) add_end(all.in[distance], data, std::exchange(received, received + count), count);
  }
  return all;
}

/// Returns the blocks of an alltoall: `data.count` elements to and from every rank.
blocks_of_rank blocks_of_alltoall(world place, const shape& data) {
  shape listed = data;
  for (rank r = 0; r < place.size; ++r) {
    listed.blocks.push_back({place.self, r, data.count});
    if (r != place.self) listed.blocks.push_back({r, place.self, data.count});
  }
  return listed_blocks(place, listed);
}

/// Returns the listed blocks, and an empty block for every pair without a block.
blocks_of_rank listed_and_empty_blocks(world place, const shape& data) {
  blocks_of_rank all = listed_blocks(place, data);
  for (std::size_t distance = 1; distance < wide(place.size); ++distance)
    for (auto* ends : {&all.out[distance], &all.in[distance]})
      if (ends->empty()) add_end(*ends, data, 0, 0);
  return all;
}

class exchange : rank_part {
 public:
  exchange(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry, const blocks_of_rank& blocks)
      : rank_part(to, data, input, output, entry), blocks_(blocks) {}

  /// Exchanges the blocks of all distances, at most `window` distances at a time.
  fragment write(rank window) {
    if (in_place()) stage();
    std::vector<op_id> over(wide(size()), k_no_op);
    for (rank distance = 1; distance < size(); ++distance) {
      const bool is_throttled = distance > window;
      over[wide(distance)] =
          step(distance, is_throttled ? over[wide(distance - window)] : k_no_op, distance < size() - window);
    }
    if (!in_place()) copy_own();
    return finish(true);
  }

 private:
  // Copies the outgoing blocks of an in-place alltoall to scratch memory, where they stay until the end of the round.
  void stage() {
    staged_.resize(wide(size()));
    if (size() == 1) return;
    source_ = scratch(wide(size()) * count());
    for (rank distance = 1; distance < size(); ++distance) {
      const block_end& block = blocks_.out[wide(distance)].front();
      staged_[wide(after(distance))] = copy({input(), block.offset}, {source_, block.offset}, block.count);
    }
  }

  /// Appends the messages of one distance. These messages wait for `when`. If `is_awaiting` is true, returns an op that
  /// completes after all these messages. A later step waits for this op. If `is_awaiting` is false, returns k_no_op.
  op_id step(rank distance, op_id when, bool is_awaiting) {
    const op_id over = is_awaiting ? nop({k_no_op}) : k_no_op;
    const auto add = [&](op_id message) { is_awaiting ? order(message, over) : end(message); };
    const rank target = after(distance);
    const rank source = before(distance);
    for (const block_end& block : blocks_.in[wide(distance)])
      for_each_piece(block, [&](std::uint32_t tag, std::uint64_t offset, std::uint64_t count) {
        add(recv(source, tag, {output(), offset}, count, {when, staged(source)}));
      });
    for (const block_end& block : blocks_.out[wide(distance)])
      for_each_piece(block, [&](std::uint32_t tag, std::uint64_t offset, std::uint64_t count) {
        add(send(target, tag, {source_of_sends(), offset}, count, {when, staged(target)}));
      });
    return over;
  }

  op_id staged(rank peer) const { return staged_.empty() ? k_no_op : staged_[wide(peer)]; }
  buffer_id source_of_sends() const { return source_ == k_no_buffer ? input() : source_; }

  template <class Visit>
  void for_each_piece(const block_end& block, const Visit& visit) {
    const portions pieces(block.count, pieces_in(data(), block.count));
    for (std::uint64_t i = 0; i < pieces.number(); ++i)
      visit(block.tag + tag_of_piece(i), block.offset + pieces.begin(i), pieces.length(i));
  }

  void copy_own() {
    for (std::size_t i = 0; i < blocks_.out[0].size(); ++i)
      end(copy({input(), blocks_.out[0][i].offset}, {output(), blocks_.in[0][i].offset}, blocks_.out[0][i].count));
  }

  const blocks_of_rank& blocks_;
  buffer_id source_ = k_no_buffer;  ///< source of the sends; k_no_buffer: the input
  std::vector<op_id> staged_{};     ///< in place, by rank: the op that copies the outgoing block; receives wait for it
};

// --- costs ---------------------------------------------------------------------------------------------------

cost cost_of_alltoall(rank size, const shape& data) {
  const std::uint64_t pairs = wide(size) * (wide(size) - 1);
  return {.messages = pairs * pieces_in(data, data.count),
          .bytes = saturating_product(pairs, bytes_of(data.count, data)),
          .hops = size > 1 ? 1u : 0u};
}

/// Returns the cost of the listed blocks, without empty messages for other pairs.
cost cost_of_list(rank, const shape& data) {
  cost all;
  std::uint64_t elements = 0;
  for (const auto [from, to, count] : data.blocks) {
    if (from == to) continue;
    all.messages += pieces_in(data, count);
    elements += count;
    all.hops = 1;
  }
  all.bytes = bytes_of(elements, data);
  return all;
}

/// Return the maximum number of distances at a time (exchange::write). Only the pairwise algorithm limits this number.
constexpr rank no_window(rank size, const shape&) { return size; }
constexpr rank window_of(rank, const shape& data) { return data.radix == 0 ? 8 : data.radix; }

template <rank (*window)(rank, const shape&)>
cost cost_of_alltoallv(rank size, const shape& data) {
  std::vector<std::uint64_t> pairs;
  for (const auto [from, to, count] : data.blocks)
    if (from != to) pairs.push_back(wide(from) * wide(size) + wide(to));
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  const std::uint64_t at_once = wide(window(size, data));
  cost all = cost_of_list(size, data);
  all.messages += wide(size) * (wide(size) - 1) - pairs.size();
  all.hops = (wide(size) - 1 + at_once - 1) / at_once;
  return all;
}

template <blocks_of_rank (*blocks_of)(world, const shape&), rank (*window)(rank, const shape&)>
fragment add_exchange(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const blocks_of_rank blocks = blocks_of(to.place(), data);
  return exchange(to, data, input, output, entry, blocks).write(window(to.place().size, data));
}

}  // namespace

constinit const algorithm k_alltoall_direct{
    .of = &k_alltoall,
    .name = "direct",
    .add = add_exchange<blocks_of_alltoall, no_window>,
    .needs = {.moves_lists = true, .summary = "any P; all pairs at once, one hop"},
    .cost_of = cost_of_alltoall,
    .looks_at = {.segment = true}};

constinit const algorithm k_alltoallv_direct{
    .of = &k_alltoallv,
    .name = "direct",
    .add = add_exchange<listed_and_empty_blocks, no_window>,
    .needs = {.in_place = false, .summary = "any P; all pairs at once, one hop"},
    .cost_of = cost_of_alltoallv<no_window>,
    .looks_at = {.segment = true}};

constinit const algorithm k_alltoallv_pairwise{
    .of = &k_alltoallv,
    .name = "pairwise",
    .add = add_exchange<listed_and_empty_blocks, window_of>,
    .needs = {.in_place = false,
              .summary = "any P; at most 8 peers at a time, or radix; for many ranks and long blocks"},
    .cost_of = cost_of_alltoallv<window_of>,
    .looks_at = {.segment = true, .radix = true}};

constinit const algorithm k_neighbor_exchange_direct{
    .of = &k_neighbor_exchange,
    .name = "direct",
    .add = add_exchange<listed_blocks, no_window>,
    .needs = {.in_place = false, .summary = "any graph of neighbours; all blocks at once, one hop"},
    .cost_of = cost_of_list,
    .looks_at = {.segment = true}};

}  // namespace lsched
