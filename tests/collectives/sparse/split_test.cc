// Tests of the lists that a rank sends to the owners of regions. A rank cuts its selected items into lists, and leaves
// out items that exceed a capacity. In some rounds, a pair of ranks exchanges no items.
#include "collectives/sparse/steps/regions.h"

#include <gtest/gtest.h>

#include "tests/ops/lists.h"

namespace lsched {
namespace {

constexpr std::array k_sizes{1, 2, 3, 5, 6, 7, 4, 8, 12, 33};

sparse_problem problem_of(rank size, std::uint64_t k, rank self = 0) {
  return {.count = 1000, .k = k, .place = {self, size}, .capacity = capacity_policy::defer};
}

TEST(capacity_at, gives_others_no_more_than_their_part_of_k) {
  for (const rank size : k_sizes)
    for (std::uint64_t k = 0; k < 3 * static_cast<std::uint64_t>(size) + 2; ++k)
      for (round_no round = 1; round < 40; ++round) {
        const sparse_problem of = problem_of(size, k);
        std::uint64_t all = 0;
        for (rank distance = 0; distance < size; ++distance) {
          EXPECT_LE(capacity_at(of, distance, round), list_room(of));
          all += capacity_at(of, distance, round);
        }
        EXPECT_EQ(all, k);
        EXPECT_EQ(all, sum_room(of)) << "items that a rank sends, and items that an owner receives";
        const auto p = static_cast<std::uint64_t>(size);
        const std::uint64_t others = all - capacity_at(of, 0, round);
        EXPECT_LE(others * p, k == 1 && p > 1 ? p : k * (p - 1)) << size << " ranks, k = " << k;
      }
}

TEST(capacity_at, lets_every_pair_have_its_turn) {
  for (const rank size : k_sizes)
    for (std::uint64_t k = 1; k < 2 * static_cast<std::uint64_t>(size); ++k)
      for (rank distance = 0; distance < size; ++distance) {
        std::uint64_t turns = 0;
        for (round_no round = 10; round < 10 + static_cast<round_no>(size); ++round)
          turns += capacity_at(problem_of(size, k), distance, round);
        EXPECT_GT(turns, 0u) << size << " ranks, k = " << k << ", distance " << distance;
      }
}

TEST(items_below, finds_the_first_item_from_a_position_on) {
  list all;
  for (std::uint32_t i = 0; i < 40; ++i) all.push_back({3 * i + i % 2, 1});
  const list_in_memory memory(dtype::f32, all);
  const item_list items{memory.data(), all.size()};
  for (std::uint64_t from = 0; from <= all.size(); ++from)
    for (std::uint64_t position = 0; position < 130; ++position) {
      std::uint64_t expected = from;
      while (expected < all.size() && all[expected].index < position) ++expected;
      ASSERT_EQ(items_below(dtype::f32, items, from, position), expected) << from << ", " << position;
    }
}

/// Returns the lists that a rank sends. Each list is computed plainly, by a sort.
std::vector<list> lists_for_owners(const sparse_problem& of, round_no round, const list& selected,
                                   const std::vector<std::uint64_t>& boundaries) {
  std::vector<list> lists(boundaries.size() - 1);
  for (const entry& it : selected) {
    std::size_t owner = 0;
    while (it.index >= boundaries[owner + 1]) ++owner;
    lists[owner].push_back(it);
  }
  if (of.capacity == capacity_policy::strict) return lists;
  for (std::size_t owner = 0; owner < lists.size(); ++owner) {
    const rank distance = (static_cast<rank>(owner) - of.place.self + of.place.size) % of.place.size;
    lists[owner] = largest_of(of.type, lists[owner], capacity_at(of, distance, round));
  }
  return lists;
}

TEST(split, sends_each_owner_the_largest_that_it_has_room_for) {
  std::mt19937_64 draw(1);
  for (const dtype type : k_floats)
    for (const capacity_policy policy : {capacity_policy::strict, capacity_policy::defer})
      for (const rank size : {1, 2, 3, 5, 7, 8})
        for (const std::size_t k : {0u, 1u, 3u, 20u, 400u}) {
          sparse_problem of = problem_of(size, k, static_cast<rank>(draw() % static_cast<unsigned>(size)));
          of.type = type;
          of.capacity = policy;
          const list selected = largest_of(type, drawn_list(type, 300, 1000, draw, true), k);
          std::vector<std::uint64_t> boundaries{0, 1000};
          while (boundaries.size() <= static_cast<std::size_t>(size)) boundaries.push_back(draw() % 1001);
          std::sort(boundaries.begin(), boundaries.end());
          const list_in_memory from(type, selected), to(type, std::min<std::size_t>(k, 1000));
          std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size), 77);
          const round_no round = 1 + draw() % 100;
          const std::uint64_t count = split(of, round, {from.data(), selected.size()}, boundaries, to.data(), lengths);
          list expected;
          const std::vector<list> lists = lists_for_owners(of, round, selected, boundaries);
          for (std::size_t owner = 0; owner < lists.size(); ++owner) {
            EXPECT_EQ(lengths[owner], lists[owner].size());
            expected.insert(expected.end(), lists[owner].begin(), lists[owner].end());
          }
          EXPECT_EQ(to.content(count), expected) << size << " ranks, k = " << k;
          EXPECT_TRUE(to.is_intact());
          EXPECT_TRUE(policy == capacity_policy::defer || count == selected.size());
          EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), list_room(of));
        }
}

}  // namespace
}  // namespace lsched
