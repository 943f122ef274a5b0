// Allreduce by a k-nomial tree: reduce to rank 0, then broadcast.
//
//   up      a rank combines its input with the values of its children, in their order, and sends the sum to its parent
//   down    the root's result travels back along the same edges
//
// There are 2 * (P-1) messages of `count` elements. This is the minimum (recursive doubling has P log2 P messages), but
// there are twice as many hops as in recursive doubling. The algorithm suits ranks that share cores, because every
// message may have to wake its receiver. The sum is computed once, by one expression in rank order. So all ranks get
// the same result, bit for bit, and the kernel need not be commutative.
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_up_tag = 0;
constexpr std::uint32_t k_down_tag = 1;

class reduce_and_broadcast : ordered_part {
 public:
  using ordered_part::ordered_part;

  // The fragment satisfies the conditions of builder::declare_holding: the reduction that reads a payload waits only
  // for the payloads of other children, and no child waits for another child.
  fragment write() {
    set_blocks({0, count()});
    const knomial tree(size(), k_tree_radix);
    const std::vector<rank> children = tree.children_of(self());
    const bool is_root = self() == 0;
    const stretch result = in_output({0, 1});
    if (size() == 1) copy_alone(in_input({0, 1}), result);
    stretch sum = in_input({0, 1});
    for (std::size_t i = 0; i < children.size(); ++i) {
      const stretch landing = receive(children[i], k_up_tag, count());
      const bool is_result = is_root && i + 1 == children.size();
      const stretch target = is_result ? result : i == 0 ? scratch(count()) : sum;
      reduce(sum, landing, target);
      sum = target;
    }
    if (!is_root) {
      send(tree.parent_of(self()), k_up_tag, sum);
      recv(tree.parent_of(self()), k_down_tag, result);
    }
    // Sends to the child with the deepest subtree first.
    for (auto child = children.rbegin(); child != children.rend(); ++child) send(*child, k_down_tag, result);
    return finish(true);
  }
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
