#include "collectives/allreduce/allreduce.h"

#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "libsched/verify/verify.h"
#include "tests/support/generators.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

shape sums(std::uint64_t count, std::uint64_t segment, bool is_visible) {
  return {.count = count, .what = kernel::sum, .segment = segment, .is_visible = is_visible};
}

/// Each rank chooses independently whether it stages messages in scratch memory or reads payloads in place.
TEST(direct, ranks_that_stage_and_ranks_that_do_not_form_one_world) {
  for (const rank size : {2, 3, 5, 6, 7, 8})
    for (const std::uint64_t segment : {0u, 1u, 2u})
      for (const bool in_place : {false, true})
        for (const rank odd : {0, 1}) {
          const std::uint64_t count = 9 * static_cast<std::uint64_t>(size) + 1;
          shape data = sums(count, segment, true);
          const auto promise = promise_of(k_allreduce_direct, size, data, {});
          const auto programs = whole_world(size, [&](world place) {
            data = sums(count, segment, place.self % 2 == odd);
            data.in_place = in_place;
            return allreduce_direct(place, data);
          });
          const auto answer = verify(programs, promise, {.in_place = in_place});
          EXPECT_TRUE(answer.holds()) << size << " " << segment << ": " << answer.findings[0].text;
        }
}

std::uint64_t scratch_of(const schedule& program) {
  std::uint64_t count = 0;
  for (const buffer& it : program.buffers()) count += it.role == buffer_role::scratch ? it.count : 0;
  return count;
}

/// Reading a payload in place needs no scratch memory. Staging needs scratch memory for a few segments, independent of
/// the length of the vector.
TEST(direct, staging_takes_a_ring_of_segments) {
  const std::uint64_t segment = 64, segments = 50;
  const world place{.self = 1, .size = 4};
  const std::uint64_t count = segment * segments * 4;
  const auto visible = *allreduce_direct(place, sums(count, segment, true));
  const auto staged = *allreduce_direct(place, sums(count, segment, false));
  EXPECT_EQ(scratch_of(*staged) - scratch_of(*visible), 3 * 4 * segment);
}

TEST(direct, every_contribution_is_read_where_the_transport_has_it) {
  for (const bool is_visible : {true, false})
    for (const std::uint64_t segment : {0u, 5u}) {
      const auto program = *allreduce_direct({.self = 2, .size = 5}, sums(100, segment, is_visible));
      std::uint64_t read = 0, received = 0;
      for (const op& it : program->ops()) {
        received += it.kind == op_kind::recv;
        read += it.kind == op_kind::recv && it.in_place;
      }
      EXPECT_EQ(2 * read, received);
      EXPECT_GT(read, 0u);
    }
}

}  // namespace
}  // namespace lsched::testing
