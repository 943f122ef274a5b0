#include "collectives/patterns/ordered_ops.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lsched::testing {
namespace {

/// Returns whether op `after` depends directly on op `before`.
bool waits(const schedule& program, op_id before, op_id after) {
  const auto next = program.successors(before);
  return std::ranges::find(next, after) != next.end();
}

class OrderedOps : public ::testing::Test {
 protected:
  const shape data_{.count = 4, .what = kernel::sum};
  builder to_{{.self = 0, .size = 3}};
  ordered_ops ops_{to_, data_, k_no_op};

  schedule_ptr compiled() {
    to_.set_exit(ops_.finish(false).exit);
    return *to_.compile();
  }
};

TEST_F(OrderedOps, a_reader_waits_for_the_writer_and_the_next_writer_for_all_readers) {
  const stretch cell = ops_.scratch(4);
  const op_id written = ops_.recv(1, 0, cell);
  const op_id one = ops_.send(1, 0, cell);
  const op_id other = ops_.send(2, 0, cell);
  const op_id again = ops_.recv(2, 0, cell);
  const auto program = compiled();
  EXPECT_TRUE(waits(*program, written, one) && waits(*program, written, other));
  EXPECT_TRUE(waits(*program, one, again) && waits(*program, other, again));
  EXPECT_FALSE(waits(*program, written, again)) << "the readers already wait for this write";
  EXPECT_FALSE(waits(*program, one, other));
}

TEST_F(OrderedOps, a_writer_waits_for_a_writer_that_nobody_has_read) {
  const stretch cell = ops_.scratch(4);
  const op_id first = ops_.recv(1, 0, cell);
  const op_id second = ops_.recv(2, 0, cell);
  EXPECT_TRUE(waits(*compiled(), first, second));
}

TEST_F(OrderedOps, an_op_that_writes_what_it_reads_waits_once) {
  const stretch x = ops_.scratch(4);
  const stretch y = ops_.scratch(4);
  const op_id first = ops_.recv(1, 0, x);
  const op_id second = ops_.recv(2, 0, y);
  const op_id sum = ops_.reduce(x, y, x);
  const op_id sent = ops_.send(1, 0, x);
  const auto program = compiled();
  EXPECT_TRUE(waits(*program, first, sum) && waits(*program, second, sum) && waits(*program, sum, sent));
  EXPECT_FALSE(waits(*program, first, sent));
}

TEST_F(OrderedOps, cells_of_one_buffer_are_apart_and_an_empty_stretch_has_cells) {
  const stretch all = ops_.scratch(4, 2);
  const stretch left{all.at, 4, all.cell};
  const stretch right{{all.at.buffer(), 4}, 0, all.cell + 1};
  const op_id one = ops_.recv(1, 0, left);
  const op_id other = ops_.recv(2, 0, right);
  const op_id sent_left = ops_.send(1, 0, left);
  const op_id sent_right = ops_.send(2, 0, right);
  const op_id sent_all = ops_.send(2, 1, all);
  const auto program = compiled();
  EXPECT_TRUE(waits(*program, one, sent_left) && waits(*program, other, sent_right));
  EXPECT_FALSE(waits(*program, one, sent_right) || waits(*program, other, sent_left));
  EXPECT_TRUE(waits(*program, one, sent_all) && waits(*program, other, sent_all));
}

TEST(ordered_ops, nothing_fires_before_the_entry_and_the_exit_comes_last) {
  const shape data{.count = 4, .what = kernel::sum};
  for (const int sends : {0, 1, 3}) {
    builder to({.self = 0, .size = 2});
    const op_id entry = to.nop();
    ordered_ops ops(to, data, entry);
    const stretch cell = ops.scratch(4);
    for (int i = 0; i < sends; ++i) ops.send(1, static_cast<std::uint32_t>(i), cell);
    const fragment part = ops.finish(true);
    EXPECT_TRUE(part.holding);
    to.set_exit(part.exit);
    const auto program = *to.compile();
    EXPECT_EQ(program->roots().size(), 1u);
    EXPECT_EQ(program->ops()[program->exit()].need, static_cast<std::uint32_t>(std::max(1, sends)));
  }
}

TEST(ordered_ops, errors_of_the_builder_stay_with_it) {
  const shape data{.count = 4, .what = kernel::none};
  builder to({.self = 0, .size = 2});
  ordered_ops ops(to, data, k_no_op);
  const stretch cell = ops.scratch(4);
  ops.recv(5, 0, cell);
  ops.reduce(cell, cell, cell);
  ops.finish(false);
  EXPECT_FALSE(to.compile());
}

}  // namespace
}  // namespace lsched::testing
