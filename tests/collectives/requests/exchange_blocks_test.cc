// Tests of merged_blocks with random exchanges of one rank. fault_in() checks the rules for merged lists.
#include "collectives/requests/exchange_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace lsched::testing {
namespace {

using blocks = std::vector<exchanged_block>;

/// The blocks that one rank passes to the request.
struct exchange {
  rank self = 0;
  std::vector<std::uint64_t> sent{}, received{};
  std::vector<rank> destinations{}, sources{};

  result<blocks> merged() const { return merged_blocks({sent, destinations}, {received, sources}, self); }
};

/// Draws an exchange with neighbors. A rank may occur repeatedly. The blocks that the rank sends to itself are as long
/// as the blocks that it receives from itself.
exchange draw_neighbors(std::mt19937_64& random, rank size) {
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  const auto ranks = static_cast<std::uint64_t>(size);
  exchange drawn{.self = static_cast<rank>(below(ranks))};
  std::vector<std::uint64_t> own(below(3));
  for (std::uint64_t& count : own) count = below(3);
  const auto draw_half = [&](std::vector<std::uint64_t>& counts, std::vector<rank>& peers) {
    for (const std::uint64_t count : own) {
      for (std::uint64_t others = below(3); others > 0 && size > 1; --others) {
        const auto distance = static_cast<rank>(1 + below(ranks - 1));
        peers.push_back((drawn.self + distance) % size), counts.push_back(below(3));
      }
      peers.push_back(drawn.self), counts.push_back(count);
    }
    if (size > 1) peers.push_back((drawn.self + 1) % size), counts.push_back(below(2));
  };
  draw_half(drawn.sent, drawn.destinations);
  draw_half(drawn.received, drawn.sources);
  return drawn;
}

/// Returns the blocks whose member `end` is `self`, in the order of the list.
blocks part_of(const blocks& all, rank exchanged_block::*end, rank self) {
  blocks part;
  std::ranges::copy_if(all, std::back_inserter(part), [&](const exchanged_block& one) { return one.*end == self; });
  return part;
}

/// Returns the first rule that a merged list breaks, or an empty text. The rules: the list has the sent blocks in their
/// order, the received blocks in their order, and no other block.
std::string fault_in(const exchange& asked, const blocks& merged) {
  blocks sent, received;
  for (std::size_t i = 0; i < asked.sent.size(); ++i)
    sent.push_back({asked.self, asked.destinations[i], asked.sent[i]});
  for (std::size_t i = 0; i < asked.received.size(); ++i)
    received.push_back({asked.sources[i], asked.self, asked.received[i]});
  if (part_of(merged, &exchanged_block::from, asked.self) != sent) return "sent blocks";
  if (part_of(merged, &exchanged_block::to, asked.self) != received) return "received blocks";
  const auto own = static_cast<std::size_t>(std::ranges::count(asked.sources, asked.self));
  return merged.size() == sent.size() + received.size() - own ? "" : "other blocks";
}

TEST(exchange_blocks, keep_the_order_of_both_sides) {
  std::mt19937_64 random(1);
  for (const rank size : {3, 5, 6, 7, 1, 4, 8})
    for (int trial = 0; trial < 300; ++trial) {
      const exchange drawn = draw_neighbors(random, size);
      const auto merged = drawn.merged();
      ASSERT_TRUE(merged) << merged.error().text;
      EXPECT_EQ(fault_in(drawn, *merged), "") << size << " ranks, trial " << trial;
    }
}

/// If no peers are named, block i is for rank i. Therefore the block of a rank for itself has the same index on both
/// sides.
TEST(exchange_blocks, go_to_all_ranks_if_no_peers_are_named) {
  for (const rank size : {3, 5, 6, 7, 1, 4, 8})
    for (rank self = 0; self < size; ++self)
      for (const std::uint64_t count : {0u, 1u, 9u}) {
        exchange all{.self = self};
        for (rank peer = 0; peer < size; ++peer) {
          all.sent.push_back(peer == self ? count : static_cast<std::uint64_t>(peer));
          all.received.push_back(peer == self ? count : 2 * static_cast<std::uint64_t>(peer));
        }
        const auto merged = all.merged();
        ASSERT_TRUE(merged) << merged.error().text;
        for (rank peer = 0; peer < size; ++peer) all.destinations.push_back(peer), all.sources.push_back(peer);
        EXPECT_EQ(fault_in(all, *merged), "") << size << " ranks, rank " << self;
      }
}

TEST(exchange_blocks, of_a_rank_for_itself_must_agree) {
  const exchange longer{.self = 1, .sent = {3}, .received = {2}, .destinations = {1}, .sources = {1}};
  EXPECT_EQ(longer.merged().error().text, "this rank sends itself 3 elements but receives 2");
  const std::string odd =
      "this rank sends itself more or fewer blocks than this rank receives from itself: list the rank equally often in "
      "destinations and sources";
  const exchange unreceived{.self = 1, .sent = {3}, .received = {3}, .destinations = {1}, .sources = {0}};
  const exchange unsent{.self = 1, .sent = {3}, .received = {3}, .destinations = {0}, .sources = {1}};
  EXPECT_EQ(unreceived.merged().error().text, odd);
  EXPECT_EQ(unsent.merged().error().text, odd);
}

TEST(exchange_blocks, rules_sees_a_lost_a_changed_a_foreign_and_a_moved_block) {
  const exchange asked{
      .self = 1, .sent = {1, 0, 2}, .received = {4, 0, 5}, .destinations = {0, 1, 2}, .sources = {2, 1, 0}};
  const auto good = asked.merged();
  ASSERT_TRUE(good);
  ASSERT_EQ(fault_in(asked, *good), "");
  for (std::size_t i = 0; i < good->size(); ++i) {
    blocks lost = *good, changed = *good, foreign = *good;
    lost.erase(lost.begin() + static_cast<std::ptrdiff_t>(i));
    ++changed[i].count;
    foreign.insert(foreign.begin() + static_cast<std::ptrdiff_t>(i), {0, 2, 1});
    for (const blocks& bad : {lost, changed, foreign}) EXPECT_NE(fault_in(asked, bad), "") << i;
  }
  blocks by_sides = part_of(*good, &exchanged_block::from, 1);  // by default, received blocks follow sent blocks
  for (const exchanged_block& one : part_of(*good, &exchanged_block::to, 1))
    if (one.from != 1) by_sides.push_back(one);
  EXPECT_EQ(fault_in(asked, by_sides), "received blocks");
}

}  // namespace
}  // namespace lsched::testing
