// Tests of properties that proofs of contents and total costs do not cover. These properties are the pairs of ranks
// that exchange messages, and the number of messages in flight at the same time. A correct but slow algorithm may have
// a bottleneck, a detour, or messages of the wrong size. Its result is the same, and its total cost may be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"

namespace lsched::testing {
namespace {

std::vector<schedule_ptr> world_of(std::string_view collective, std::string_view name, rank size, const shape& data) {
  auto world = generate_world(*find(collective, name), size, data);
  if (!world) throw std::runtime_error(world.error().text);
  return *std::move(world);
}

std::vector<op> ops_of(const schedule& program, op_kind kind) {
  std::vector<op> found;
  std::ranges::copy_if(program.ops(), std::back_inserter(found), [&](const op& it) { return it.kind == kind; });
  return found;
}

std::uint64_t sent_by(const schedule& program) {
  std::uint64_t sum = 0;
  for (const op& it : ops_of(program, op_kind::send)) sum += it.count;
  return sum;
}

std::vector<rank> peers_of(const schedule& program, op_kind kind) {
  std::vector<rank> peers;
  for (const op& it : ops_of(program, kind)) peers.push_back(it.peer);
  return peers;
}

TEST(pattern, no_rank_of_a_scattering_broadcast_sends_more_than_the_vector) {
  for (const rank size : {3, 5, 6, 7, 8}) {
    const shape data{.count = 840, .root = 1};
    for (const schedule_ptr& it : world_of("bcast", "scatter_allgather", size, data)) EXPECT_LE(sent_by(*it), 840u);
  }
}

/// The root sends a region to all receivers before it sends the next region. A transport can then copy the region once
/// for all receivers.
TEST(pattern, a_flat_broadcast_sends_one_region_to_all_before_the_next) {
  const auto world = world_of("bcast", "flat", 4, {.count = 9, .root = 2, .segment = 3});
  const auto sends = ops_of(*world[2], op_kind::send);
  ASSERT_EQ(sends.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(sends[i].a, (region{0, i / 3 * 3})) << i;
    EXPECT_EQ(sends[i].count, 3) << i;
  }
}

TEST(pattern, a_binomial_broadcast_feeds_the_deepest_subtree_first) {
  const auto world = world_of("bcast", "binomial", 8, {.count = 1, .root = 3});
  EXPECT_EQ(peers_of(*world[3], op_kind::send), (std::vector<rank>{7, 5, 4}));
  EXPECT_EQ(peers_of(*world[7], op_kind::send), (std::vector<rank>{1, 0}));
}

TEST(pattern, segments_are_bounded_in_number_and_in_bytes) {
  const auto sends = [](std::uint64_t count, std::uint64_t segment) {
    const shape data{.count = count, .type = dtype::f64, .segment = segment};
    return ops_of(*world_of("bcast", "flat", 2, data)[0], op_kind::send).size();
  };
  EXPECT_EQ(sends(16 << 10, 0), 1u);  // messages of 128 KiB
  EXPECT_EQ(sends((16 << 10) + 1, 0), 2u);
  EXPECT_EQ(sends(1 << 30, 0), 64u);
  EXPECT_EQ(sends(100, 1), 64u);
}

TEST(pattern, everybody_begins_with_another_peer) {
  for (const auto& [collective, name] :
       std::vector<std::pair<const char*, const char*>>{{"alltoall", "direct"}, {"allgather", "direct"}}) {
    const auto world = world_of(collective, name, 7, {.count = 2});
    for (rank r = 0; r < 7; ++r)
      EXPECT_EQ(peers_of(*world[static_cast<std::size_t>(r)], op_kind::send).front(), (r + 1) % 7)
          << collective << name;
  }
}

/// Returns the number of sends that start at the beginning of a round, before any message has arrived.
std::size_t sends_at_once(const schedule& program) {
  return static_cast<std::size_t>(
      std::ranges::count_if(program.ops(), [](const op& it) { return it.kind == op_kind::send && it.need == 0; }));
}

TEST(pattern, a_pairwise_alltoallv_is_throttled) {
  for (const rank radix : {0, 2, 3}) {
    shape data = typical_shape(k_alltoallv, 20, 2, dtype::f32, kernel::none);
    data.radix = radix;
    for (const schedule_ptr& it : world_of("alltoallv", "pairwise", 20, data))
      EXPECT_EQ(sends_at_once(*it), static_cast<std::size_t>(radix == 0 ? 8 : radix));
    for (const schedule_ptr& it : world_of("alltoallv", "direct", 20, data)) EXPECT_EQ(sends_at_once(*it), 19u);
  }
}

/// Every rank reduces one block, and no rank sends more bytes than the vector has.
TEST(pattern, a_reduce_by_blocks_spreads_the_arithmetic) {
  for (const schedule_ptr& it : world_of("reduce", "direct", 5, {.count = 500, .what = kernel::sum, .root = 3})) {
    std::uint64_t combined = 0;
    for (const op& step : ops_of(*it, op_kind::compute)) combined += step.count;
    EXPECT_EQ(combined, 4u * 100);
    EXPECT_LE(sent_by(*it), 500u);
  }
}

TEST(pattern, nothing_is_copied_on_the_way_of_these) {
  for (const auto& [collective, name] :
       std::vector<std::pair<const char*, const char*>>{{"allgather", "direct"},
                                                        {"allgather", "recursive_doubling"},
                                                        {"alltoall", "direct"},
                                                        {"gather", "flat"},
                                                        {"scatter", "flat"}})
    for (const schedule_ptr& it : world_of(collective, name, 6, {.count = 3})) {
      EXPECT_LE(ops_of(*it, op_kind::compute).size(), 1u) << collective << name;  // at most a copy of its own block
      for (const buffer& memory : it->buffers()) EXPECT_NE(memory.role, buffer_role::scratch) << collective << name;
    }
}

/// If a received payload is used only as an operand of a compute op, the transport may read the payload in the sender's
/// memory.
TEST(pattern, what_is_combined_is_read_in_place) {
  for (const auto& [collective, name] : std::vector<std::pair<const char*, const char*>>{
           {"reduce", "flat"}, {"reduce", "binomial"}, {"scan", "chain"}, {"scan", "recursive_doubling"}})
    for (const schedule_ptr& it : world_of(collective, name, 6, {.count = 3, .what = kernel::sum, .root = 0}))
      for (const op& got : ops_of(*it, op_kind::recv)) EXPECT_TRUE(got.in_place) << collective << name;
}

}  // namespace
}  // namespace lsched::testing
