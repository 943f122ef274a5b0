#include "collectives/allreduce/allreduce_tree.h"

#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_up_tag = 0;
constexpr std::uint32_t k_down_tag = 1;

/// The ops of one rank while they are being written.
class reduce_and_broadcast {
 public:
  reduce_and_broadcast(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : to_(to),
        data_(data),
        tree_(to.place().size, k_tree_radix),
        children_(tree_.children_of(to.place().self)),
        input_(input),
        output_(output),
        entry_(entry) {}

  fragment write() {
    exit_ = to_.nop();
    op_id result = is_root() && children_.empty() ? write_alone() : reduce();
    if (!is_root()) result = pass_on(result);
    // The deepest subtree first.
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      to_.dep(after(result, to_.send(*child, k_down_tag, whole(output_), count())), exit_);
    to_.dep(result, exit_);
    // A payload is held for a reduction that waits for other children only, and no child waits for another.
    return {.entry = entry_, .exit = exit_, .holding = true};
  }

 private:
  bool is_root() const { return to_.place().self == 0; }

  // P = 1. In place, the result is there already.
  op_id write_alone() {
    return data_.in_place ? entry_ : after(entry_, to_.copy(whole(input_), whole(output_), count()));
  }

  /// Answers the op that completes this subtree's value, which is then in `sum_`.
  op_id reduce() {
    sum_ = input_;
    op_id producer = entry_;
    for (const rank child : children_) {
      const buffer_id landing = to_.scratch(data_.type, data_.count);
      const op_id got = after(entry_, to_.recv(child, k_up_tag, whole(landing), count()));
      const buffer_id target = target_after(child);
      producer = after(producer, to_.reduce(data_.what, whole(sum_), whole(landing), whole(target), count(), {got}));
      sum_ = target;
    }
    return producer;
  }

  /// The input is only read; the root's last value is the result.
  buffer_id target_after(rank child) {
    if (is_root() && child == children_.back()) return output_;
    return sum_ == input_ ? to_.scratch(data_.type, data_.count) : sum_;
  }

  /// Answers the arrival of the result. In place, that must not come over an input that is still leaving.
  op_id pass_on(op_id reduced) {
    const rank parent = tree_.parent_of(to_.place().self);
    const op_id given = after(reduced, to_.send(parent, k_up_tag, whole(sum_), count()));
    const op_id got = to_.recv(parent, k_down_tag, whole(output_), count());
    to_.dep(data_.in_place ? given : entry_, got);
    to_.dep(given, exit_);
    return got;
  }

  std::uint64_t count() const { return data_.count; }
  region whole(buffer_id buffer) const { return {buffer, 0}; }
  op_id after(op_id before, op_id what) {
    to_.dep(before, what);
    return what;
  }

  builder& to_;
  const shape& data_;
  const knomial tree_;
  const std::vector<rank> children_;
  const buffer_id input_;
  const buffer_id output_;
  const op_id entry_;
  op_id exit_ = k_no_op;
  buffer_id sum_ = k_no_buffer;
};

cost cost_of_tree(rank size, const shape& data, const activation&) {
  const std::uint64_t messages = 2 * (wide(size) - 1);
  return {.messages = messages,
          .bytes = saturating_product(messages, bytes_of(data.count, data)),
          .hops = 2 * static_cast<std::uint64_t>(knomial(size, k_tree_radix).depth())};
}

}  // namespace

constinit const algorithm k_allreduce_tree{
    .of = &k_allreduce,
    .name = "tree",
    .add = add_allreduce_tree,
    .needs = {.summary = "any P and count; 2(P-1) messages, the fewest, along a tree; same bits on every rank"},
    .cost_of = cost_of_tree};

fragment add_allreduce_tree(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return reduce_and_broadcast(to, data, input, output, entry).write();
}

}  // namespace lsched
