// Reductions by recursive halving (Rabenseifner, 2004; Thakur, Rabenseifner and Gropp, 2005). A fold (geometry.h)
// extends the algorithms to every P.
//
//   fold       a proxy and its extra swap halves of all blocks and combine a half each; the extra sends its half back
//   halve      step j: core ranks across a dimension exchange halves of the blocks that they have, and combine the half
//              that they keep
//   double     allreduce only: the same steps in reverse order, in which partners exchange finished blocks
//   unfold     a proxy sends the result to its extra; in a reduce_scatter, it sends only the block of the extra
//
//   rabenseifner        allreduce. The first steps, with the longest messages, are between near ranks, and the values
//                       of two partners come from adjacent intervals of ranks. So operands are in rank order, and the
//                       kernel need not be commutative. In 2 log2 P steps, each core rank sends and receives 2
//                       (P-1)/P of the vector. This is bandwidth-optimal if P is a power of two. For the fold and the
//                       unfold, each proxy also receives 1 vector and sends 3/2 vectors. Every block is combined once,
//                       so all ranks get the same result, bit for bit.
//   recursive_halving   reduce_scatter. In log2 P steps, a core rank sends and receives (P-1)/P of all blocks. Both
//                       numbers are minimal if P is a power of two. Distant ranks are combined first, not in rank
//                       order, so the kernel must be commutative.
#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_fold_tag, k_half_tag, k_unfold_tag, k_first_step_tag };

/// The fold, which both algorithms share. Both algorithms store their partial sums in `sums_`.
class halving : protected ordered_part {
 protected:
  using ordered_part::ordered_part;

  stretch in_sums(block_range blocks) const { return blocks_in(sums_, sums_cell_, blocks); }

  // The proxy, which has the lower rank, combines the lower half.
  void fold_out(block_range lower, block_range upper, const stretch& result) {
    const rank proxy = folded_.proxy_of(self());
    send(proxy, k_fold_tag, in_input(lower));
    reduce(receive(proxy, k_fold_tag, in_sums(upper).count), in_input(upper), in_sums(upper));
    send(proxy, k_half_tag, in_sums(upper));
    recv(proxy, k_unfold_tag, result);
  }

  void fold_in(block_range lower, block_range upper) {
    const rank extra = folded_.extra_of(self());
    send(extra, k_fold_tag, in_input(upper));
    reduce(in_input(lower), receive(extra, k_fold_tag, in_sums(lower).count), in_sums(lower));
    recv(extra, k_half_tag, in_sums(upper));
  }

  const fold folded_{size()};
  const bool is_proxy_ = folded_.is_proxy(self());
  buffer_id sums_ = k_no_buffer;
  std::uint32_t sums_cell_ = 0;
};

/// The allreduce, with one block for each core rank. Sums are computed in the output.
class halving_doubling : halving {
 public:
  halving_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : halving(to, data, input, output, entry) {
    set_blocks(block_begins(data, wide(folded_.core())));
    sums_ = output;
    sums_cell_ = output_cell();
  }

  // The fragment satisfies the conditions of builder::declare_holding: the reduction that reads a payload waits only
  // for earlier steps and, in place, for the sends of these steps.
  fragment write() {
    if (folded_.levels() == 0) {
      copy_alone(in_input(all_), in_output(all_));
    } else if (folded_.is_extra(self())) {
      fold_out(all_.half(false), all_.half(true), in_output(all_));
    } else {
      write_core();
    }
    return finish(true);
  }

 private:
  static std::uint32_t halving_tag(int j) { return k_first_step_tag + 2 * static_cast<std::uint32_t>(j); }
  static std::uint32_t doubling_tag(int j) { return halving_tag(j) + 1; }
  bool keeps_upper(int j) const { return (folded_.virtual_of(self()) >> j) % 2 != 0; }

  void write_core() {
    if (is_proxy_) fold_in(all_.half(false), all_.half(true));
    for (int j = 0; j < folded_.levels(); ++j) halve(j);
    for (int j = folded_.levels() - 1; j >= 0; --j) spread(j);
    if (is_proxy_) send(folded_.extra_of(self()), k_unfold_tag, in_output(all_));
  }

  void halve(int j) {
    const rank partner = folded_.across(self(), j);
    const bool is_in_output = is_proxy_ || j > 0;
    const block_range held = held_after(j), kept = held.half(keeps_upper(j)), given = held.half(!keeps_upper(j));
    send(partner, halving_tag(j), is_in_output ? in_output(given) : in_input(given));
    const stretch target = in_output(kept);
    const stretch own = is_in_output ? target : in_input(kept);
    const stretch theirs = receive(partner, halving_tag(j), target.count);
    reduce(self() < partner ? own : theirs, self() < partner ? theirs : own, target);
  }

  /// Returns the blocks that the rank has after the first j steps.
  block_range held_after(int j) const {
    block_range held = all_;
    for (int i = 0; i < j; ++i) held = held.half(keeps_upper(i));
    return held;
  }

  void spread(int j) {
    const rank partner = folded_.across(self(), j);
    const block_range held = held_after(j);
    send(partner, doubling_tag(j), in_output(held.half(keeps_upper(j))));
    recv(partner, doubling_tag(j), in_output(held.half(!keeps_upper(j))));
  }

  const block_range all_{0, folded_.core()};
};

/// Returns the rank of core rank `index`, or P if `index` is the number of core ranks.
rank rank_at(const fold& folded, rank index) {
  return index < folded.core() ? folded.real_of(index) : folded.core() + folded.rem();
}

class scattering : halving {
 public:
  scattering(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : halving(to, data, input, output, entry) {
    set_blocks(block_offsets(data, size()));
  }

  // Satisfies builder::declare_holding: the reduction that reads a payload waits only for earlier steps.
  fragment write() {
    if (size() == 1) {
      copy_alone(in_input({0, 1}), own_output());
      return finish(true);
    }
    const stretch sums = scratch(begins().back(), wide(size()));
    sums_ = sums.at.buffer();
    sums_cell_ = sums.cell;
    if (folded_.is_extra(self())) {
      fold_out(lower_half(), upper_half(), own_output());
    } else {
      write_core();
    }
    return finish(true);
  }

 private:
  block_range lower_half() const { return {0, rank_at(folded_, folded_.core() / 2)}; }
  block_range upper_half() const { return {lower_half().end, size()}; }

  void write_core() {
    if (is_proxy_) fold_in(lower_half(), upper_half());
    rank first = 0;
    for (rank reach = folded_.core() / 2; reach > 0; reach /= 2) first = step(first, reach);
    if (is_proxy_) send(self() + 1, k_unfold_tag, in_sums({self() + 1, self() + 2}));
    if (is_proxy_ || in_place()) copy(in_sums({self(), self() + 1}), own_output());
  }

  /// Halves the blocks of core ranks [first, first + 2 * reach). Returns the first core rank of the half that this rank
  /// keeps.
  rank step(rank first, rank reach) {
    const rank index = folded_.virtual_of(self());
    const bool keeps_upper = (index & reach) != 0;
    const block_range lower{rank_at(folded_, first), rank_at(folded_, first + reach)};
    const block_range upper{lower.end, rank_at(folded_, first + 2 * reach)};
    const block_range kept = keeps_upper ? upper : lower, given = keeps_upper ? lower : upper;
    const bool is_in_sums = is_proxy_ || 2 * reach < folded_.core();
    const rank partner = folded_.real_of(index ^ reach);
    const std::uint32_t tag = k_first_step_tag + static_cast<std::uint32_t>(reach);

    send(partner, tag, is_in_sums ? in_sums(given) : in_input(given));
    const bool ends_here = reach == 1 && !is_proxy_ && !in_place();
    const stretch target = ends_here ? own_output() : in_sums(kept);
    const stretch landing = receive(partner, tag, target.count);
    reduce(landing, is_in_sums ? in_sums(kept) : in_input(kept), target);
    return keeps_upper ? first + reach : first;
  }
};

// --- costs -------------------------------------------------------------------------------------------------

/// Returns the number of messages and bytes. In step j, the blocks are divided into 2^j parts. For each part, there are
/// core / 2^(j+1) pairs of ranks, and the two ranks of a pair together send the whole part. Each pair of a proxy and an
/// extra adds the messages of a fold and an unfold.
cost cost_of_halving(const fold& folded, const shape& data, std::uint64_t total, std::uint64_t upper_half,
                     std::uint64_t unfolded, std::uint64_t phases) {
  const std::uint64_t steps = saturating_product(phases * (wide(folded.core()) - 1), bytes_of(total, data));
  const std::uint64_t fold = saturating_sum(bytes_of(total, data), bytes_of(upper_half, data));
  return {
      .messages = phases * static_cast<std::uint64_t>(folded.levels()) * wide(folded.core()) + 4 * wide(folded.rem()),
      .bytes = saturating_sum(saturating_sum(steps, saturating_product(wide(folded.rem()), fold)),
                              bytes_of(unfolded, data))};
}

// Hops: the longest chain has two messages between a proxy and its extra, two messages for each dimension, and a
// message to an extra.
cost cost_of_rabenseifner(rank size, const shape& data) {
  const fold folded(size);
  const std::uint64_t upper = data.count - block_begins(data, wide(folded.core()))[wide(folded.core() / 2)];
  cost all = cost_of_halving(folded, data, data.count, upper, saturating_product(wide(folded.rem()), data.count), 2);
  all.hops = 2 * static_cast<std::uint64_t>(folded.levels()) + (folded.rem() != 0 ? 3 : 0);
  return all;
}

// Hops: the longest chain begins with two messages between a proxy and its extra. The chain ends with a message to an
// extra only if there are two proxies whose core indices differ in all bits.
cost cost_of_scattering(rank size, const shape& data) {
  const fold folded(size);
  const auto offsets = block_offsets(data, size);
  const std::uint64_t total = offsets.back();
  const std::uint64_t upper = size == 1 ? 0 : total - offsets[wide(rank_at(folded, folded.core() / 2))];
  std::uint64_t unfolded = 0;
  for (rank i = 0; i < folded.rem(); ++i) unfolded += block_count(data, folded.extra_of(2 * i));
  cost all = cost_of_halving(folded, data, total, upper, unfolded, 1);
  all.hops = static_cast<std::uint64_t>(folded.levels());
  if (folded.rem() != 0) all.hops += 2 * folded.rem() > folded.core() ? 3u : 2u;
  return all;
}

constexpr algorithm scattering_of(const collective& of) {
  return {.of = &of,
          .name = "recursive_halving",
          .add = add_by<scattering>,
          .needs = {.needs_commutative = true,
                    .summary = "short blocks, any P, best at 2^k: log2 P steps, each half as long as the last"},
          .cost_of = cost_of_scattering};
}

}  // namespace

constinit const algorithm k_allreduce_rabenseifner{
    .of = &k_allreduce,
    .name = "rabenseifner",
    .add = add_by<halving_doubling>,
    .needs = {.summary =
                  "long vectors, any P, best at 2^k; halving then doubling, 2 log2 P steps, each byte moved twice"},
    .cost_of = cost_of_rabenseifner};

constinit const algorithm k_reduce_scatter_halving = scattering_of(k_reduce_scatter);
constinit const algorithm k_reduce_scatter_block_halving = scattering_of(k_reduce_scatter_block);

}  // namespace lsched
