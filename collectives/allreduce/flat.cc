// Allreduce in one hop: everybody sends its vector to everybody and combines all of them.
//
//   send      the input to each other rank, the next one first
//   combine   ((x0 op x1) op x2) … op x_{P-1}, each as soon as it and its predecessors are here
//
// P * (P-1) messages of `count` elements, the most there can be, in the fewest hops: for short vectors on few ranks,
// where a hop means waiting for somebody who has to be scheduled first. Every rank evaluates the same expression in
// rank order, so all hold the same bits, and the kernel need not commute. Synchronising.
#include <utility>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_tag = 0;

class all_to_all : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    const std::vector<op_id> given = send_to_all();
    op_id result = combine();
    if (size() == 1 ? !in_place() : sum_ != output()) result = copy(whole(sum_), whole(output()), count(), {result});
    // In place, the result must not come over an input that is still leaving. Nothing else waits for a send.
    for (const op_id sent : given) in_place() ? order(sent, result) : end(sent);
    end(result);
    // A payload waits for those of lower ranks, and their senders wait for nothing.
    return finish(true);
  }

 private:
  std::vector<op_id> send_to_all() {
    std::vector<op_id> sent;
    for (rank distance = 1; distance < size(); ++distance)
      sent.push_back(send(after(distance), k_tag, whole(input()), count()));
    return sent;
  }

  /// Answers the op that completes the result, which is then in `sum_`.
  op_id combine() {
    sum_ = input();
    if (size() == 1) return entry();
    const buffer_id target = in_place() ? scratch(count()) : output();
    op_id producer = k_no_op;
    for (rank r = 0; r < size(); ++r) {
      const auto [from, arrived] = contribution_of(r);
      producer = r == 0 ? arrived : reduce(whole(sum_), whole(from), whole(target), count(), {arrived, producer});
      sum_ = r == 0 ? from : target;
    }
    return producer;
  }

  /// Where rank r's vector is, and the op that puts it there.
  std::pair<buffer_id, op_id> contribution_of(rank r) {
    if (r == self()) return {input(), entry()};
    const buffer_id landing = scratch(count());
    return {landing, recv(r, k_tag, whole(landing), count())};
  }

  region whole(buffer_id buffer) const { return {buffer, 0}; }

  buffer_id sum_ = k_no_buffer;
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
