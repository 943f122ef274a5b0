// Allreduce by a k-nomial tree: reduce to rank 0, then broadcast.
//
//   up      a rank combines its input with what its children send, in their order, and sends that to its parent
//   down    the root's result comes back the same way
//
// 2 * (P-1) messages of `count` elements, the fewest there can be, against P log2 P of recursive doubling; twice as
// many hops. So it is the choice wherever messages cost more than hops do: where ranks share cores, and every
// message wakes somebody. One expression in rank order is evaluated once, so all ranks hold the same bits, and the
// kernel need not commute. Synchronising.
#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_up_tag = 0;
constexpr std::uint32_t k_down_tag = 1;

class reduce_and_broadcast : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    if (size() == 1) {
      end_with_copy(count());
      return finish(true);
    }
    const op_id reduced = reduce_children();
    const op_id result = is_root() ? reduced : pass_on(reduced);
    // The deepest subtree first.
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      end(send(*child, k_down_tag, whole(output()), count(), {result}));
    end(result);
    // A payload is held for a reduction that waits for other children only, and no child waits for another.
    return finish(true);
  }

 private:
  bool is_root() const { return self() == 0; }

  /// Answers the op that completes this subtree's value, which is then in `sum_`.
  op_id reduce_children() {
    op_id producer = entry();
    for (const rank child : children_) {
      const buffer_id landing = scratch(count());
      const op_id got = recv(child, k_up_tag, whole(landing), count());
      const buffer_id target = target_after(child);
      producer = reduce(whole(sum_), whole(landing), whole(target), count(), {got, producer});
      sum_ = target;
    }
    return producer;
  }

  /// The input is only read; the root's last value is the result.
  buffer_id target_after(rank child) {
    if (is_root() && child == children_.back()) return output();
    return sum_ == input() ? scratch(count()) : sum_;
  }

  /// Answers the arrival of the result. In place, that must not come over an input that is still leaving.
  op_id pass_on(op_id reduced) {
    const rank parent = tree_.parent_of(self());
    const op_id given = send(parent, k_up_tag, whole(sum_), count(), {reduced});
    const op_id got = recv(parent, k_down_tag, whole(output()), count(), {in_place() ? given : k_no_op});
    end(given);
    return got;
  }

  region whole(buffer_id buffer) const { return {buffer, 0}; }

  const knomial tree_{size(), k_tree_radix};
  const std::vector<rank> children_ = tree_.children_of(self());
  buffer_id sum_ = input();
};

}  // namespace

constinit const algorithm k_allreduce_tree{
    .of = &k_allreduce,
    .name = "tree",
    .add = add_by<reduce_and_broadcast>,
    .needs = {.summary = "any P and count; 2(P-1) messages, the fewest, along a tree; same bits on every rank"},
    .cost_of = [](rank size, const shape& data) {
      const auto depth = static_cast<std::uint64_t>(knomial(size, k_tree_radix).depth());
      return cost_of_messages(2 * (wide(size) - 1), data.count, data, 2 * depth);
    }};

}  // namespace lsched
