#include "collectives/allgather/allgather_recursive_doubling.h"

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_fold_tag = 0;
constexpr std::uint32_t tag_of_step(int j) { return 1 + static_cast<std::uint32_t>(j); }
constexpr std::uint32_t unfold_tag(const fold& folded) { return tag_of_step(folded.levels()); }

/// The elements of the core ranks [index, index + ranks), and of their extras, in the output.
struct interval {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Of an index of the core, also one past the last: the first rank that it speaks for.
rank first_rank(const fold& folded, rank index) { return folded.real_of(index); }

interval interval_of(const fold& folded, const std::vector<std::uint64_t>& offsets, rank index, int level) {
  const rank first = index >> level << level;
  return {offsets[wide(first_rank(folded, first))], offsets[wide(first_rank(folded, first + (rank{1} << level)))]};
}

class recursive_doubling {
 public:
  recursive_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : part_(to, data, entry),
        folded_(part_.size()),
        offsets_(block_offsets(data, part_.size())),
        input_(input),
        output_(output) {}

  fragment write() {
    if (folded_.is_extra(part_.self()))
      write_extra();
    else
      write_core();
    return part_.finish(true);
  }

 private:
  std::uint64_t mine() const { return block_count(part_.data(), part_.self()); }
  region place(const interval& it) const { return {output_, it.begin}; }
  interval everything() const { return {0, offsets_.back()}; }

  /// In place, nothing may arrive over a block that is still leaving.
  void write_extra() {
    const rank proxy = folded_.proxy_of(part_.self());
    const op_id given = part_.send(proxy, k_fold_tag, {input_, 0}, mine());
    const op_id got = part_.recv(proxy, unfold_tag(folded_), place(everything()), offsets_.back(),
                                 {part_.data().in_place ? given : k_no_op});
    part_.end(given);
    part_.end(got);
  }

  void write_core() {
    const rank self = part_.self();
    const rank index = folded_.virtual_of(self);
    op_id all = k_no_op;
    if (!part_.data().in_place) all = part_.copy({input_, 0}, {output_, offsets_[wide(self)]}, mine());
    if (folded_.is_proxy(self)) all = both(all, fold_in());
    for (int j = 0; j < folded_.levels(); ++j) all = step(index, j, all);
    if (folded_.is_proxy(self))
      part_.end(part_.send(folded_.extra_of(self), unfold_tag(folded_), place(everything()), offsets_.back(), {all}));
    else
      part_.end(all);
  }

  op_id fold_in() {
    const rank extra = folded_.extra_of(part_.self());
    return part_.recv(extra, k_fold_tag, {output_, offsets_[wide(extra)]}, block_count(part_.data(), extra));
  }

  /// Sends what is there after `all`, and answers an op after which twice as much is.
  op_id step(rank index, int j, op_id all) {
    const rank partner = folded_.across(part_.self(), j);
    const interval here = interval_of(folded_, offsets_, index, j);
    const interval there = interval_of(folded_, offsets_, index ^ (rank{1} << j), j);
    const bool is_own_block = j == 0 && !folded_.is_proxy(part_.self());
    if (is_own_block)
      part_.end(part_.send(partner, tag_of_step(j), {input_, 0}, mine()));
    else
      part_.end(part_.send(partner, tag_of_step(j), place(here), here.end - here.begin, {all}));
    return both(all, part_.recv(partner, tag_of_step(j), place(there), there.end - there.begin));
  }

  op_id both(op_id x, op_id y) { return x == k_no_op ? y : part_.nop({x, y}); }

  rank_part part_;
  const fold folded_;
  const std::vector<std::uint64_t> offsets_;
  const buffer_id input_;
  const buffer_id output_;
};

/// Elements on the wire: every step moves what all core ranks have.
std::uint64_t elements_of(const fold& folded, rank size, const shape& data) {
  const auto offsets = block_offsets(data, size);
  std::uint64_t sum = wide(folded.rem()) * offsets.back();
  for (rank index = 0; index < folded.rem(); ++index) sum += block_count(data, folded.extra_of(folded.real_of(index)));
  for (int j = 0; j < folded.levels(); ++j)
    for (rank index = 0; index < folded.core(); ++index) {
      const interval it = interval_of(folded, offsets, index, j);
      sum += it.end - it.begin;
    }
  return sum;
}

/// Of blocks that are all of one length.
std::uint64_t equal_blocks_of(const fold& folded, rank size) {
  return wide(folded.rem()) * (wide(size) + 1) + wide(size) * (wide(folded.core()) - 1);
}

// Hops: as those of an allreduce by recursive doubling, and for the same reasons.
cost cost_of_doubling(rank size, const shape& data, const activation&) {
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const std::uint64_t ends = folded.rem() == 0 ? 0 : 2 * wide(folded.rem()) > wide(folded.core()) ? 2 : 1;
  const std::uint64_t bytes = data.counts.empty()
                                  ? saturating_product(equal_blocks_of(folded, size), bytes_of(data.count, data))
                                  : bytes_of(elements_of(folded, size, data), data);
  return {.messages = wide(folded.core()) * levels + 2 * wide(folded.rem()), .bytes = bytes, .hops = levels + ends};
}

}  // namespace

fragment add_allgather_recursive_doubling(builder& to, const shape& data, buffer_id input, buffer_id output,
                                          op_id entry) {
  return recursive_doubling(to, data, input, output, entry).write();
}

constinit const algorithm k_allgather_recursive_doubling{
    .of = &k_allgather,
    .name = "recursive_doubling",
    .add = add_allgather_recursive_doubling,
    .needs = {.needs_everybody = true, .summary = "any P; log2 P steps that double what a rank has, none of it copied"},
    .cost_of = cost_of_doubling};

constinit const algorithm k_allgatherv_recursive_doubling{
    .of = &k_allgatherv,
    .name = "recursive_doubling",
    .add = add_allgather_recursive_doubling,
    .needs = {.needs_everybody = true, .summary = "any P; log2 P steps that double what a rank has, none of it copied"},
    .cost_of = cost_of_doubling};

}  // namespace lsched
