#include "collectives/allreduce/allreduce.h"

#include <array>

#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_fold_tag = 0;
constexpr std::uint32_t tag_of_step(int j) { return 1 + static_cast<std::uint32_t>(j); }
constexpr std::uint32_t unfold_tag(const fold& folded) { return tag_of_step(folded.levels()); }

/// A partial result: the buffer that holds it and the op that put it there.
struct value {
  buffer_id place;
  op_id producer;
};

/// The ops of one rank while they are being written.
class recursive_doubling {
 public:
  recursive_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : to_(to), data_(data), folded_(to.place().size), input_(input), output_(output), entry_(entry) {}

  fragment write() {
    exit_ = to_.nop();
    if (folded_.levels() == 0) {
      write_alone();
    } else if (folded_.is_extra(to_.place().self)) {
      write_extra();
    } else {
      write_core();
    }
    // A payload is held for the reader of step j, which may wait for the send of step j-1: always an earlier step, so
    // nobody waits in a circle. Only in place with one dimension does step 0 wait for its own send.
    return {.entry = entry_, .exit = exit_, .holding = !(data_.in_place && folded_.levels() == 1)};
  }

 private:
  // P = 1. In place, the result is there already.
  void write_alone() {
    if (data_.in_place) {
      to_.dep(entry_, exit_);
    } else {
      to_.dep(after(entry_, to_.copy(whole(input_), whole(output_), count())), exit_);
    }
  }

  // In place, the result may not arrive over an input that is still leaving.
  void write_extra() {
    const rank proxy = folded_.proxy_of(to_.place().self);
    const op_id given = after(entry_, to_.send(proxy, k_fold_tag, whole(input_), count()));
    const op_id got = to_.recv(proxy, unfold_tag(folded_), whole(output_), count());
    to_.dep(data_.in_place ? given : entry_, got);
    to_.dep(given, exit_);
    to_.dep(got, exit_);
  }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(to_.place().self);
    value now{input_, entry_};
    if (is_proxy) now = fold_in();
    for (int j = 0; j < folded_.levels(); ++j) now = step(j, now);
    to_.dep(is_proxy ? unfold(now) : now.producer, exit_);
  }

  value fold_in() {
    const rank extra = folded_.extra_of(to_.place().self);
    const buffer_id landing = scratch();
    const op_id got = after(entry_, to_.recv(extra, k_fold_tag, whole(landing), count()));
    const buffer_id target = accumulator(0);
    const op_id sum = to_.reduce(data_.what, whole(input_), whole(landing), whole(target), count(), {got});
    return {target, sum};
  }

  op_id unfold(value whole_sum) {
    const rank extra = folded_.extra_of(to_.place().self);
    return after(whole_sum.producer, to_.send(extra, unfold_tag(folded_), whole(whole_sum.place), count()));
  }

  // v_{j+1} = v_j (op) the partner's v_j, or the other way round. Its target may still be leaving:
  //   * an accumulator, which the reduction reuses two steps later, by send_{j-1};
  //   * the output, in place, by send_0 of a rank whose v_0 is its input (at a proxy v_0 is an accumulator,
  //     and the input's only reader is the fold's reduction, from which everything here follows).
  value step(int j, value now) {
    const rank self = to_.place().self;
    const rank partner = folded_.across(self, j);
    const bool is_last = j + 1 == folded_.levels();
    const op_id sent = after(now.producer, to_.send(partner, tag_of_step(j), whole(now.place), count()));
    const buffer_id landing = scratch();
    const op_id got = after(entry_, to_.recv(partner, tag_of_step(j), whole(landing), count()));
    const buffer_id target = is_last ? output_ : accumulator(j + 1);
    const region lower = whole(self < partner ? now.place : landing);
    const region higher = whole(self < partner ? landing : now.place);
    const op_id sum = after(now.producer, to_.reduce(data_.what, lower, higher, whole(target), count(), {got}));

    if (j == 0) first_ = {now.place, sent};
    if (target == previous_.place) to_.dep(previous_.producer, sum);
    if (is_last && data_.in_place && first_.place == input_) to_.dep(first_.producer, sum);
    previous_ = {now.place, sent};
    to_.dep(sent, exit_);
    return {target, sum};
  }

  std::uint64_t count() const { return data_.count; }
  region whole(buffer_id buffer) const { return {buffer, 0}; }
  buffer_id scratch() { return to_.scratch(data_.type, data_.count); }
  op_id after(op_id before, op_id what) {
    to_.dep(before, what);
    return what;
  }

  // The two accumulators take turns; a small world needs one or none.
  buffer_id accumulator(int j) {
    buffer_id& chosen = accumulators_[static_cast<std::size_t>(j % 2)];
    if (chosen == k_no_buffer) chosen = scratch();
    return chosen;
  }

  builder& to_;
  const shape& data_;
  const fold folded_;
  const buffer_id input_;
  const buffer_id output_;
  const op_id entry_;
  op_id exit_ = k_no_op;
  std::array<buffer_id, 2> accumulators_{k_no_buffer, k_no_buffer};
  value first_{k_no_buffer, k_no_op};     ///< what send_0 reads, and send_0
  value previous_{k_no_buffer, k_no_op};  ///< what send_{j-1} reads, and send_{j-1}
};

// Hops. A chain is longest when it starts at an extra and ends at one, L + 2. It crosses all L dimensions
// only if two proxies have opposite virtual indices, and these are all below rem: 2 * rem > core.
cost cost_of_allreduce(rank size, const shape& data, const activation&) {
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const std::uint64_t messages = wide(folded.core()) * levels + 2 * wide(folded.rem());
  const std::uint64_t ends = folded.rem() == 0 ? 0 : 2 * wide(folded.rem()) > wide(folded.core()) ? 2 : 1;
  return {
      .messages = messages, .bytes = saturating_product(messages, bytes_of(data.count, data)), .hops = levels + ends};
}

}  // namespace

constinit const algorithm k_allreduce_recursive_doubling{
    .of = &k_allreduce,
    .name = "recursive_doubling",
    .add = add_allreduce,
    .needs = {.summary = "any P and count; log2 P short steps, each with the entire vector; same bits on every rank"},
    .cost_of = cost_of_allreduce};

fragment add_allreduce(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return recursive_doubling(to, data, input, output, entry).write();
}

}  // namespace lsched
