#include "libsched/analysis/edge_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "libsched/schedule/builder.h"

namespace lsched {
namespace {

/// One end of an edge in a world of four ranks. Each rank has one buffer of 100 floats.
struct end {
  rank self;
  rank peer;
  std::uint32_t tag;
  std::uint64_t count;
  bool is_send;
};

edge_balance balance_of(const std::vector<end>& ends) {
  edge_balance all;
  for (rank r = 0; r < 4; ++r) {
    builder to({.self = r, .size = 4});
    const buffer_id data = to.scratch(dtype::f32, 100);
    to.nop();
    for (const end& it : ends) {
      if (it.self != r) continue;
      if (it.is_send)
        to.send(it.peer, it.tag, {data, 0}, it.count);
      else
        to.recv(it.peer, it.tag, {data, 0}, it.count);
    }
    const auto program = to.compile();
    EXPECT_TRUE(program) << program.error().text;
    edge_balance mine;
    if (program) mine.add(**program);
    all.add(mine);
  }
  return all;
}

/// Returns both ends of all edges. There are five edges, with different tags, from every rank to every other rank.
std::vector<end> pairs() {
  std::vector<end> ends;
  for (rank from = 0; from < 4; ++from)
    for (rank to = 0; to < 4; ++to)
      for (std::uint32_t tag = 0; from != to && tag < 5; ++tag) {
        ends.push_back({from, to, tag, 10 + tag, true});
        ends.push_back({to, from, tag, 10 + tag, false});
      }
  return ends;
}

TEST(edge_balance, is_even_where_everything_pairs_up) {
  EXPECT_TRUE(balance_of({}).is_even());
  EXPECT_TRUE(balance_of(pairs()).is_even());
  EXPECT_EQ(balance_of(pairs()).odd_end(), std::nullopt);
}

TEST(edge_balance, names_the_one_end_that_is_left_over) {
  const auto all = pairs();
  for (std::size_t gone = 0; gone < all.size(); ++gone) {
    auto ends = all;
    ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(gone));
    const edge_balance sum = balance_of(ends);
    EXPECT_FALSE(sum.is_even());
    const end& it = all[gone];
    const std::string what = std::to_string(it.count * 4) + " bytes of f32 with tag " + std::to_string(it.tag);
    const std::string self = "rank " + std::to_string(it.self);
    const std::string peer = "rank " + std::to_string(it.peer);
    const std::string left = it.is_send ? peer + " receives " + what + " from " + self + ", which has no matching send"
                                        : peer + " sends " + what + " to " + self + ", which has no matching receive";
    EXPECT_EQ(sum.odd_end(), left);
  }
}

TEST(edge_balance, differences_in_tag_size_peer_and_direction_count) {
  const end send{0, 1, 7, 4, true};
  for (const end& other : {end{1, 0, 8, 4, false}, end{1, 0, 7, 5, false}, end{2, 0, 7, 4, false},
                           end{1, 2, 7, 4, false}, end{1, 0, 7, 4, true}}) {
    const edge_balance sum = balance_of({send, other});
    EXPECT_FALSE(sum.is_even());
  }
}

TEST(edge_balance, names_both_ends_that_differ_in_size_alone) {
  auto ends = pairs();
  for (const std::size_t longer : {std::size_t{1}, std::size_t{6}}) ends[longer].count += 1;
  const edge_balance sum = balance_of(ends);
  const auto named = sum.odd_end();
  ASSERT_TRUE(named);
  EXPECT_TRUE(*named == "rank 0 sends 40 bytes of f32 with tag 0 to rank 1, which receives 44 bytes of f32 instead" ||
              *named == "rank 0 sends 56 bytes of f32 with tag 3 to rank 1, which receives 52 bytes of f32 instead")
      << *named;
}

/// If many ends lack an opposite end, odd_end() may find none of them, because no cell (edge_balance.h) contains
/// exactly one such end. An end that odd_end() names must lack an opposite end.
TEST(edge_balance, never_names_an_end_that_has_its_opposite) {
  std::mt19937_64 random(5);
  const auto all = pairs();
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<end> ends;
    std::vector<std::string> left;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      ends.push_back(all[i]);
      if (random() % 4 != 0) {
        ends.push_back(all[i + 1]);
      } else {
        left.push_back("rank " + std::to_string(all[i].self) + " sends " + std::to_string(all[i].count * 4) +
                       " bytes of f32 with tag " + std::to_string(all[i].tag) + " to rank " +
                       std::to_string(all[i].peer) + ", which has no matching receive");
      }
    }
    const edge_balance sum = balance_of(ends);
    EXPECT_EQ(sum.is_even(), left.empty());
    const auto named = sum.odd_end();
    EXPECT_TRUE(!named || std::ranges::find(left, *named) != left.end()) << *named;
  }
}

}  // namespace
}  // namespace lsched
