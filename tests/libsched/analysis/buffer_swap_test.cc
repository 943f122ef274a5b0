#include "libsched/analysis/buffer_swap.h"

#include <gtest/gtest.h>

#include "libsched/schedule/builder.h"
#include "tests/support/generators.h"

namespace lsched::testing {
namespace {

std::vector<buffer_swap> buffer_swaps_of(const schedule& program) {
  return lsched::buffer_swaps_of(program, segment_map(program));
}

/// Returns a schedule with a chain of three sums. The first and the third sum are written to buffer x, and the second
/// to buffer y. Each sum adds a received payload to the previous sum. The third sum waits until the first sum has been
/// sent from x.
schedule_ptr chain() {
  builder to({0, 2});
  const std::uint64_t all = 8;
  const auto landing = [&] { return region(to.scratch(dtype::i64, 8), 0); };
  const region x(to.scratch(dtype::i64, 8), 0);
  const region y(to.scratch(dtype::i64, 8), 0);
  const region in(to.input(dtype::i64, 8), 0);
  const region out(to.output(dtype::i64, 8), 0);
  op_id got[3];
  region payload[3];
  for (std::uint32_t i = 0; i < 3; ++i) got[i] = to.recv(1, i, payload[i] = landing(), all);
  const op_id first = to.reduce(kernel::sum, in, payload[0], x, all, {got[0]});
  const op_id sent = to.send(1, 7, x, all, {first});
  const op_id second = to.reduce(kernel::sum, x, payload[1], y, all, {first, got[1]});
  const op_id third = to.reduce(kernel::sum, y, payload[2], x, all, {second, got[2]});
  to.dep(sent, third);
  to.set_exit(to.nop({to.copy(x, out, all, {third}), sent}));
  return *to.compile();
}

op_id computing(const schedule& program, std::size_t which) {
  for (op_id id = 0; id < program.ops().size(); ++id)
    if (program.ops()[id].kind == op_kind::compute && which-- == 0) return id;
  return k_no_op;
}

TEST(buffer_swap, is_allowed_where_all_readers_come_before_the_place_is_written_again) {
  const schedule_ptr program = chain();
  const auto all = buffer_swaps_of(*program);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(all[computing(*program, i)].of_a) << i;
  EXPECT_FALSE(all[computing(*program, 3)].of_b) << "a copy has one operand";
}

TEST(buffer_swap, is_refused_where_a_reader_may_come_after_the_place_is_written_again) {
  builder to({0, 2});
  const std::uint64_t all = 8;
  const region in(to.input(dtype::i64, 8), 0);
  const region out(to.output(dtype::i64, 8), 0);
  const region value(to.scratch(dtype::i64, 8), 0);
  const region place(to.scratch(dtype::i64, 8), 0);
  const region other(to.scratch(dtype::i64, 8), 0);
  const op_id got = to.recv(1, 0, value, all);
  const op_id sum = to.reduce(kernel::sum, in, value, other, all, {got});
  const op_id taken = to.copy(other, place, all, {sum});
  const op_id again = to.copy(in, place, all, {taken});
  const op_id late = to.send(1, 0, other, all, {sum});
  to.set_exit(to.nop({to.copy(place, out, all, {again}), late}));
  const schedule_ptr unordered = *to.compile();
  EXPECT_FALSE(buffer_swaps_of(*unordered)[computing(*unordered, 1)].of_a);
  to.dep(late, again);
  const schedule_ptr ordered = *to.compile();
  EXPECT_TRUE(buffer_swaps_of(*ordered)[computing(*ordered, 1)].of_a);
}

// A value is copied from a to b and from b to c. If swaps replace both copies, c gets the memory of a. A later op
// writes c. Without a dep from the last read of a to this write, the write can happen first.
TEST(buffer_swap, is_followed_through_all_that_took_over_the_same_place) {
  const auto row = [](bool is_ordered) {
    builder to({0, 2});
    const std::uint64_t all = 8;
    const region in(to.input(dtype::i64, 8), 0);
    const region out(to.output(dtype::i64, 8), 0);
    const region landing(to.scratch(dtype::i64, 8), 0);
    const region a(to.scratch(dtype::i64, 8), 0);
    const region b(to.scratch(dtype::i64, 8), 0);
    const region c(to.scratch(dtype::i64, 8), 0);
    const op_id got = to.recv(1, 0, landing, all);
    const op_id in_a = to.reduce(kernel::sum, in, landing, a, all, {got});
    const op_id in_b = to.copy(a, b, all, {in_a});
    const op_id in_c = to.copy(b, c, all, {in_b});
    const op_id again = to.copy(in, c, all, {in_c});
    const op_id late = to.send(1, 0, a, all, {in_a});
    if (is_ordered) to.dep(late, again);
    to.set_exit(to.nop({to.copy(c, out, all, {again}), late}));
    const schedule_ptr program = *to.compile();
    return buffer_swaps_of(*program)[computing(*program, 2)].of_a;
  };
  EXPECT_FALSE(row(false));
  EXPECT_TRUE(row(true));
}

TEST(buffer_swap, is_refused_to_parts_and_of_outputs) {
  builder to({0, 1});
  const region in(to.input(dtype::i64, 8), 0);
  const buffer_id out = to.output(dtype::i64, 8);
  const buffer_id rest = to.scratch(dtype::i64, 8);
  const op_id low = to.copy(in, {out, 0}, 8);
  const op_id back = to.copy({out, 0}, {rest, 0}, 8, {low});
  to.copy({rest, 0}, {out, 0}, 4, {back});
  const schedule_ptr program = *to.compile();
  for (const buffer_swap& it : buffer_swaps_of(*program)) EXPECT_EQ(it, buffer_swap{});
}

/// If one operand of a sum is null, the sum is a copy. A swap of memory can replace a copy. Without swaps, rounds with
/// few contributors make needless copies.
TEST(buffer_swap, is_allowed_to_all_whole_vectors_of_partial_allreduces) {
  for (const rank size : {3, 5, 8, 16, 33})
    for (const auto generate : {partial_allreduce, partial_allreduce_tree})
      for (rank self = 0; self < size; ++self) {
        const shape data{.count = 8, .what = kernel::sum};
        const schedule_ptr program = *generate({self, size}, data, {.policy = activation_policy::solo});
        const auto all = buffer_swaps_of(*program);
        for (op_id id = 0; id < all.size(); ++id)
          if (const op& it = program->ops()[id]; it.kind == op_kind::compute) {
            EXPECT_TRUE(all[id].of_a || it.a == it.c) << size << " " << self << " " << id;
            EXPECT_TRUE(all[id].of_b || it.b == it.c || it.what == kernel::copy) << size << " " << self << " " << id;
          }
      }
}

}  // namespace
}  // namespace lsched::testing
