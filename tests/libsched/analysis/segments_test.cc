#include "libsched/analysis/segments.h"

#include <gtest/gtest.h>

#include "libsched/schedule/builder.h"
#include "tests/support/generators.h"

namespace lsched::testing {
namespace {

std::uint64_t of(std::uint64_t count) { return count; }

TEST(segments, a_buffer_that_is_used_whole_is_one_piece) {
  const shape data{.count = 5, .what = kernel::sum};
  const schedule_ptr program = *partial_allreduce({0, 4}, data, {.policy = activation_policy::solo});
  const segment_map segments(*program);
  EXPECT_EQ(segments.count(), program->buffers().size());
  for (op_id id = 0; id < program->ops().size(); ++id)
    if (const op& it = program->ops()[id]; it.c.exists()) {
      EXPECT_EQ(segments.of(id).c, segments.of_buffer(it.c.buffer()));
    }
}

TEST(segments, end_where_any_region_begins_or_ends) {
  builder to({0, 1});
  const buffer_id in = to.input(dtype::f32, 10);
  const buffer_id out = to.output(dtype::f32, 10);
  const op_id low = to.copy({in, 0}, {out, 0}, of(4));
  const op_id high = to.copy({in, 4}, {out, 4}, of(6), {low});
  const op_id middle = to.copy({in, 0}, {out, 2}, of(5), {high});
  const schedule_ptr program = *to.compile();
  const segment_map segments(*program);
  EXPECT_EQ(segments.of_buffer(in), (segment_range{0, 3}));   // boundaries: 0, 4, 5, 10
  EXPECT_EQ(segments.of_buffer(out), (segment_range{3, 7}));  // boundaries: 0, 2, 4, 7, 10
  EXPECT_EQ(segments.count(), 7u);
  EXPECT_EQ(segments.of(low).a, (segment_range{0, 1}));
  EXPECT_EQ(segments.of(low).c, (segment_range{3, 5}));
  EXPECT_EQ(segments.of(high).a, (segment_range{1, 3}));
  EXPECT_EQ(segments.of(high).c, (segment_range{5, 7}));
  EXPECT_EQ(segments.of(middle).a, (segment_range{0, 2}));
  EXPECT_EQ(segments.of(middle).c, (segment_range{4, 6}));
  EXPECT_EQ(segments.of(middle).b.size(), 0u);
}

TEST(segments, an_empty_region_has_none_and_an_empty_buffer_has_one) {
  builder to({0, 1});
  const buffer_id in = to.input(dtype::f32, 3);
  const buffer_id out = to.output(dtype::f32, 3);
  const buffer_id nothing = to.scratch(dtype::f32, 0);
  const op_id whole = to.copy({in, 0}, {out, 0}, of(3));
  const op_id empty = to.copy({in, 3}, {nothing, 0}, of(0), {whole});
  const schedule_ptr program = *to.compile();
  const segment_map segments(*program);
  EXPECT_EQ(segments.of(empty).a.size(), 0u);
  EXPECT_EQ(segments.of(empty).c, segments.of_buffer(nothing));
  EXPECT_EQ(segments.of_buffer(nothing).size(), 1u);
  EXPECT_EQ(segments.of_buffer(in).size(), 1u);
}

}  // namespace
}  // namespace lsched::testing
