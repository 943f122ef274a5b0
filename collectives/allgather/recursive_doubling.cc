// Allgather(v) by recursive doubling (Thakur, Rabenseifner and Gropp, 2005). A fold (geometry.h) extends the algorithm
// to every P.
//
//   fold      an extra sends its block to its proxy, the previous rank
//   step j    core ranks across dimension j exchange all of their blocks, which are adjacent intervals     j = 0 … L-1
//   unfold    a proxy sends all blocks to its extra
//
// Blocks are received at their final places in the output, and forwarded from these places. So only the rank's own
// block is copied. There are core * L + 2 * rem messages, in at most L + 2 steps. `core` is the number of core ranks (a
// power of two), L = log2(core), and `rem` is the number of extras. The algorithm is synchronising: no rank ends before
// every rank has begun.
#include "collectives/allgather/allgather.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_fold_tag = 0;
constexpr std::uint32_t tag_of_step(int j) { return 1 + static_cast<std::uint32_t>(j); }

/// Elements [begin, end) of the output.
struct interval {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t count() const { return end - begin; }
};

/// Returns the interval of the blocks of 2^level core ranks and of their extras. The core ranks are the aligned group
/// that contains core rank `index`. The block of an extra follows the block of its proxy.
interval interval_of(const fold& folded, const std::vector<std::uint64_t>& offsets, rank index, int level) {
  const rank first = index >> level << level;
  return {offsets[wide(folded.real_of(first))], offsets[wide(folded.real_of(first + (rank{1} << level)))]};
}

class recursive_doubling : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    if (folded_.is_extra(self()))
      write_extra();
    else
      write_core();
    return finish(true);
  }

 private:
  std::uint32_t unfold_tag() const { return tag_of_step(folded_.levels()); }
  std::uint64_t own_count() const { return block_count(data(), self()); }
  region everything() const { return {output(), 0}; }

  /// In place, the result overwrites this rank's block. So the receive of the result must wait until the block has been
  /// sent.
  void write_extra() {
    const rank proxy = folded_.proxy_of(self());
    const op_id given = send(proxy, k_fold_tag, {input(), 0}, own_count());
    const op_id got = recv(proxy, unfold_tag(), everything(), offsets_.back(), {in_place() ? given : k_no_op});
    end(given);
    end(got);
  }

  void write_core() {
    const rank index = folded_.virtual_of(self());
    const bool is_proxy = folded_.is_proxy(self());
    op_id all = k_no_op;
    if (!in_place()) all = copy({input(), 0}, {output(), offsets_[wide(self())]}, own_count());
    if (is_proxy) all = both(all, fold_in());
    for (int j = 0; j < folded_.levels(); ++j) all = step(index, j, all);
    if (is_proxy)
      end(send(folded_.extra_of(self()), unfold_tag(), everything(), offsets_.back(), {all}));
    else
      end(all);
  }

  op_id fold_in() {
    const rank extra = folded_.extra_of(self());
    return recv(extra, k_fold_tag, {output(), offsets_[wide(extra)]}, block_count(data(), extra));
  }

  /// Exchanges blocks with the rank across dimension j. All blocks to send must be present when op `all` completes.
  /// Returns an op after which twice as many blocks are present.
  op_id step(rank index, int j, op_id all) {
    const rank partner = folded_.across(self(), j);
    const interval here = interval_of(folded_, offsets_, index, j);
    const interval there = interval_of(folded_, offsets_, index ^ (rank{1} << j), j);
    const bool is_own_block = j == 0 && !folded_.is_proxy(self());
    if (is_own_block)
      end(send(partner, tag_of_step(j), {input(), 0}, own_count()));
    else
      end(send(partner, tag_of_step(j), {output(), here.begin}, here.count(), {all}));
    return both(all, recv(partner, tag_of_step(j), {output(), there.begin}, there.count()));
  }

  op_id both(op_id x, op_id y) { return x == k_no_op ? y : nop({x, y}); }

  const fold folded_{size()};
  const std::vector<std::uint64_t> offsets_ = block_offsets(data(), size());
};

/// Returns the number of elements that all ranks send. In every step, each core rank sends all blocks that it has.
std::uint64_t elements_of(const fold& folded, rank size, const shape& data) {
  const auto offsets = block_offsets(data, size);
  std::uint64_t sum = wide(folded.rem()) * offsets.back();
  for (rank index = 0; index < folded.rem(); ++index) sum += block_count(data, folded.extra_of(folded.real_of(index)));
  for (int j = 0; j < folded.levels(); ++j)
    for (rank index = 0; index < folded.core(); ++index) sum += interval_of(folded, offsets, index, j).count();
  return sum;
}

/// Returns the number of blocks that all ranks send, if all blocks have the same length.
std::uint64_t equal_blocks_of(const fold& folded, rank size) {
  return wide(folded.rem()) * (wide(size) + 1) + wide(size) * (wide(folded.core()) - 1);
}

cost cost_of_doubling(rank size, const shape& data) {
  const fold folded(size);
  const std::uint64_t bytes = data.counts.empty()
                                  ? saturating_product(equal_blocks_of(folded, size), bytes_of(data.count, data))
                                  : bytes_of(elements_of(folded, size, data), data);
  return {.messages = messages_of_doubling(size), .bytes = bytes, .hops = hops_of_doubling(size)};
}

constexpr algorithm recursive_doubling_of(const collective& of) {
  return {.of = &of,
          .name = "recursive_doubling",
          .add = add_by<recursive_doubling>,
          .needs = {.needs_everybody = true,
                    .summary = "any P; log2 P steps that double the blocks of a rank, without copies"},
          .cost_of = cost_of_doubling};
}

}  // namespace

constinit const algorithm k_allgather_recursive_doubling = recursive_doubling_of(k_allgather);
constinit const algorithm k_allgatherv_recursive_doubling = recursive_doubling_of(k_allgatherv);

}  // namespace lsched
