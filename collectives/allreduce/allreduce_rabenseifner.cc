#include "collectives/allreduce/allreduce_rabenseifner.h"

#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_fold_tag, k_half_tag, k_unfold_tag, k_first_step_tag };
std::uint32_t halving_tag(int j) { return k_first_step_tag + 2 * static_cast<std::uint32_t>(j); }
std::uint32_t doubling_tag(int j) { return halving_tag(j) + 1; }

/// Blocks [first, first + count) of as many as the core has ranks.
struct block_range {
  rank first = 0;
  rank count = 0;
  block_range half(bool upper) const { return {upper ? first + count / 2 : first, count / 2}; }
};

/// The ops of one rank while they are being written.
class halving_doubling {
 public:
  halving_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        folded_(to.place().size),
        blocks_(cut_into_blocks(data, data.count, wide(folded_.core()))),
        all_{0, folded_.core()},
        input_(input),
        output_(output),
        ops_(to, data, entry) {
    input_cell_ = output_cell_ = ops_.new_cells(wide(folded_.core()));
    if (!data.in_place) output_cell_ = ops_.new_cells(wide(folded_.core()));
  }

  // A payload is held for a reduction that waits for earlier steps, and in place for their sends.
  fragment write() {
    if (folded_.levels() == 0) {
      if (input_cell_ != output_cell_) ops_.copy(in_input(all_), in_output(all_));
    } else if (folded_.is_extra(self_)) {
      write_extra();
    } else {
      write_core();
    }
    return ops_.finish(true);
  }

 private:
  stretch part_of(buffer_id buffer, std::uint32_t cell, block_range it) const {
    const std::uint64_t begin = blocks_.begin(wide(it.first));
    return {{buffer, begin},
            blocks_.begin(wide(it.first + it.count)) - begin,
            cell + static_cast<std::uint32_t>(it.first),
            static_cast<std::uint32_t>(it.count)};
  }
  stretch in_input(block_range it) const { return part_of(input_, input_cell_, it); }
  stretch in_output(block_range it) const { return part_of(output_, output_cell_, it); }

  stretch receive(rank from, std::uint32_t tag, std::uint64_t count) {
    const stretch landing = ops_.scratch(count);
    ops_.recv(from, tag, landing);
    return landing;
  }

  // The proxy has the lower rank, and the first half.
  void write_extra() {
    const rank proxy = folded_.proxy_of(self_);
    const stretch mine = in_output(all_.half(true));
    ops_.send(proxy, k_fold_tag, in_input(all_.half(false)));
    ops_.reduce(receive(proxy, k_fold_tag, mine.count), in_input(all_.half(true)), mine);
    ops_.send(proxy, k_half_tag, mine);
    ops_.recv(proxy, k_unfold_tag, in_output(all_));
  }

  void fold_in() {
    const rank extra = folded_.extra_of(self_);
    const stretch mine = in_output(all_.half(false));
    ops_.send(extra, k_fold_tag, in_input(all_.half(true)));
    ops_.reduce(in_input(all_.half(false)), receive(extra, k_fold_tag, mine.count), mine);
    ops_.recv(extra, k_half_tag, in_output(all_.half(true)));
  }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(self_);
    if (is_proxy) fold_in();
    halve(is_proxy);
    spread();
    if (is_proxy) ops_.send(folded_.extra_of(self_), k_unfold_tag, in_output(all_));
  }

  bool keeps_upper(int j) const { return (folded_.virtual_of(self_) >> j) % 2 != 0; }

  void halve(bool is_in_output) {
    block_range held = all_;
    for (int j = 0; j < folded_.levels(); ++j) {
      const rank partner = folded_.across(self_, j);
      const block_range kept = held.half(keeps_upper(j));
      const block_range given = held.half(!keeps_upper(j));
      ops_.send(partner, halving_tag(j), is_in_output ? in_output(given) : in_input(given));
      const stretch target = in_output(kept);
      const stretch mine = is_in_output ? target : in_input(kept);
      const stretch theirs = receive(partner, halving_tag(j), target.count);
      ops_.reduce(self_ < partner ? mine : theirs, self_ < partner ? theirs : mine, target);
      held = kept;
      is_in_output = true;
    }
  }

  /// What is held after the first j steps.
  block_range held_after(int j) const {
    block_range held = all_;
    for (int i = 0; i < j; ++i) held = held.half(keeps_upper(i));
    return held;
  }

  void spread() {
    for (int j = folded_.levels() - 1; j >= 0; --j) {
      const rank partner = folded_.across(self_, j);
      const block_range held = held_after(j);
      ops_.send(partner, doubling_tag(j), in_output(held.half(keeps_upper(j))));
      ops_.recv(partner, doubling_tag(j), in_output(held.half(!keeps_upper(j))));
    }
  }

  const rank self_;
  const fold folded_;
  const cut blocks_;
  const block_range all_;
  const buffer_id input_;
  const buffer_id output_;
  ordered_ops ops_;
  std::uint32_t input_cell_ = 0;
  std::uint32_t output_cell_ = 0;
};

// Bytes. In step j, each of the 2^j parts that are held has core / 2^(j+1) pairs of holders, and a pair exchanges all
// of it. Hops: a chain through a proxy begins at its extra, goes through all dimensions and back, and ends at its
// extra.
cost cost_of_rabenseifner(rank size, const shape& data, const activation&) {
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const cut blocks = cut_into_blocks(data, data.count, wide(folded.core()));
  const std::uint64_t upper_half = data.count - blocks.begin(wide(folded.core() / 2));
  const std::uint64_t per_extra = saturating_sum(bytes_of(2 * data.count, data), bytes_of(upper_half, data));
  return {.messages = 2 * levels * wide(folded.core()) + 4 * wide(folded.rem()),
          .bytes = saturating_sum(saturating_product(2 * (wide(folded.core()) - 1), bytes_of(data.count, data)),
                                  saturating_product(wide(folded.rem()), per_extra)),
          .hops = 2 * levels + (folded.rem() != 0 ? 3 : 0)};
}

}  // namespace

constinit const algorithm k_allreduce_rabenseifner{
    .of = &k_allreduce,
    .name = "rabenseifner",
    .add = add_allreduce_rabenseifner,
    .needs = {.summary =
                  "long vectors, any P, best at 2^k; halving then doubling, 2 log2 P steps, each byte moved twice"},
    .cost_of = cost_of_rabenseifner};

fragment add_allreduce_rabenseifner(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return halving_doubling(to, data, input, output, entry).write();
}

}  // namespace lsched
