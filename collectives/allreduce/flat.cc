// Allreduce in one hop: every rank sends its vector to all other ranks and combines all vectors.
//
//   send      the input to each other rank, the next rank first
//   combine   ((x0 op x1) op x2) … op x_{P-1}; an operand is combined as soon as it and all lower operands have arrived
//
// There are P * (P-1) messages of `count` elements. These are more bytes than in most other algorithms, but there is
// only one hop. The algorithm suits short vectors on few ranks, where a hop can take long because the peer must first
// be scheduled. Every rank evaluates the same expression in rank order. So all ranks get the same result, bit for bit,
// and the kernel need not be commutative.
#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_tag = 0;

class all_to_all : ordered_part {
 public:
  using ordered_part::ordered_part;

  // The fragment satisfies the conditions of builder::declare_holding: the op that reads a payload waits only for
  // payloads of lower ranks, whose senders do not wait.
  fragment write() {
    set_blocks({0, count()});
    const stretch own = in_input({0, 1}), result = in_output({0, 1});
    if (size() == 1) {
      copy_alone(own, result);
      return finish(true);
    }
    for (rank distance = 1; distance < size(); ++distance) send(after(distance), k_tag, own);
    // In place, the sum is computed in scratch memory. A sum in the output would have to wait for the sends of the
    // input, and builder::declare_holding would be wrong. Only the last copy waits for these sends.
    const stretch target = in_place() ? scratch(count()) : result;
    stretch sum{};
    for (rank r = 0; r < size(); ++r) {
      const stretch next = r == self() ? own : receive(r, k_tag, count());
      if (r > 0) reduce(sum, next, target);
      sum = r > 0 ? target : next;
    }
    if (in_place()) copy(sum, result);
    return finish(true);
  }
};

}  // namespace

constinit const algorithm k_allreduce_flat{
    .of = &k_allreduce,
    .name = "flat",
    .add = add_by<all_to_all>,
    .needs = {.summary = "any P and count; one hop, P(P-1) messages, for short vectors; same bits on every rank"},
    .cost_of = [](rank size, const shape& data) {
      return cost_of_messages(wide(size) * (wide(size) - 1), data.count, data, size == 1 ? 0 : 1);
    }};

}  // namespace lsched
