// Allreduce by recursive doubling, for every P by a fold (Thakur, Rabenseifner and Gropp, 2005).
//
//   fold      an extra sends its input to its proxy, which combines the two
//   step j    core ranks across dimension j exchange what they have and combine it     j = 0 … L-1
//   unfold    a proxy sends the result to its extra
//
// Each combination takes the operand of the lower ranks first. All ranks evaluate one expression tree, so
// they hold the same bits, and its leaves are in rank order, so the kernel need not commute. On the wire:
// core * L + 2 * rem messages of `count` elements, in L + 2 steps at most. Latency-optimal, and the choice
// for short vectors; each rank moves L times the vector. Synchronising.
#include <array>

#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_fold_tag = 0;
constexpr std::uint32_t tag_of_step(int j) { return 1 + static_cast<std::uint32_t>(j); }

/// A partial result: the buffer that holds it and the op that put it there.
struct value {
  buffer_id place;
  op_id producer;
};

class recursive_doubling : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    if (folded_.levels() == 0) {
      end_with_copy(count());
    } else if (folded_.is_extra(self())) {
      write_extra();
    } else {
      write_core();
    }
    // A payload is held for the reader of step j, which may wait for the send of step j-1: always an earlier step, so
    // nobody waits in a circle. Only in place with one dimension does step 0 wait for its own send.
    return finish(!(in_place() && folded_.levels() == 1));
  }

 private:
  std::uint32_t unfold_tag() const { return tag_of_step(folded_.levels()); }

  // In place, the result may not arrive over an input that is still leaving.
  void write_extra() {
    const rank proxy = folded_.proxy_of(self());
    const op_id given = send(proxy, k_fold_tag, whole(input()), count());
    const op_id got = recv(proxy, unfold_tag(), whole(output()), count(), {in_place() ? given : k_no_op});
    end(given);
    end(got);
  }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(self());
    value now{input(), entry()};
    if (is_proxy) now = fold_in();
    for (int j = 0; j < folded_.levels(); ++j) now = step(j, now);
    end(is_proxy ? send(folded_.extra_of(self()), unfold_tag(), whole(now.place), count(), {now.producer})
                 : now.producer);
  }

  value fold_in() {
    const buffer_id landing = scratch(count());
    const op_id got = recv(folded_.extra_of(self()), k_fold_tag, whole(landing), count());
    const buffer_id target = accumulator(0);
    return {target, reduce(whole(input()), whole(landing), whole(target), count(), {got})};
  }

  // v_{j+1} = v_j (op) the partner's v_j, or the other way round. Its target may still be leaving:
  //   * an accumulator, which the reduction reuses two steps later, by send_{j-1};
  //   * the output, in place, by send_0 of a rank whose v_0 is its input (at a proxy v_0 is an accumulator,
  //     and the input's only reader is the fold's reduction, from which everything here follows).
  value step(int j, value now) {
    const rank partner = folded_.across(self(), j);
    const bool is_last = j + 1 == folded_.levels();
    const op_id sent = send(partner, tag_of_step(j), whole(now.place), count(), {now.producer});
    const buffer_id landing = scratch(count());
    const op_id got = recv(partner, tag_of_step(j), whole(landing), count());
    const buffer_id target = is_last ? output() : accumulator(j + 1);
    const region lower = whole(self() < partner ? now.place : landing);
    const region higher = whole(self() < partner ? landing : now.place);
    const op_id sum = reduce(lower, higher, whole(target), count(), {got, now.producer});

    if (j == 0) first_ = {now.place, sent};
    if (target == previous_.place) order(previous_.producer, sum);
    if (is_last && in_place() && first_.place == input()) order(first_.producer, sum);
    previous_ = {now.place, sent};
    end(sent);
    return {target, sum};
  }

  region whole(buffer_id buffer) const { return {buffer, 0}; }

  // The two accumulators take turns; a small world needs one or none.
  buffer_id accumulator(int j) {
    buffer_id& chosen = accumulators_[static_cast<std::size_t>(j % 2)];
    if (chosen == k_no_buffer) chosen = scratch(count());
    return chosen;
  }

  const fold folded_{size()};
  std::array<buffer_id, 2> accumulators_{k_no_buffer, k_no_buffer};
  value first_{k_no_buffer, k_no_op};     ///< what send_0 reads, and send_0
  value previous_{k_no_buffer, k_no_op};  ///< what send_{j-1} reads, and send_{j-1}
};

}  // namespace

fragment add_allreduce(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return recursive_doubling(to, data, input, output, entry).write();
}

constinit const algorithm k_allreduce_recursive_doubling{
    .of = &k_allreduce,
    .name = "recursive_doubling",
    .add = add_allreduce,
    .needs = {.summary = "any P and count; log2 P short steps, each with the entire vector; same bits on every rank"},
    .cost_of = [](rank size, const shape& data) {
      return cost_of_messages(messages_of_doubling(size), data.count, data, hops_of_doubling(size));
    }};

}  // namespace lsched
