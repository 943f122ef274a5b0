// Tests of the functions that compute the traffic of sparse allreduces. The computed traffic is compared with closed
// forms, and with ranks that run in lockstep and count the bytes that they exchange.
#include "microbench/lockstep/traffic.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <set>

#include "collectives/sparse/steps/topka_steps.h"
#include "microbench/lockstep/gradient_source.h"
#include "collectives/baselines/topk_dsa.h"
#include "tests/collectives/sparse/baseline_cases.h"

namespace lsched {
namespace {

/// A list of items, with the memory of the items.
struct kept_list {
  std::vector<std::byte> items;
  std::uint64_t count;
  item_list view() const { return {items.data(), count}; }
};

std::vector<item_list> views_of(const std::deque<kept_list>& lists) {
  std::vector<item_list> views;
  for (const kept_list& list : lists) views.push_back(list.view());
  return views;
}

std::deque<kept_list> lists_of(const sparse_problem& problem, gradient_kind kind) {
  list_source source({.kind = kind, .count = problem.count, .ranks = problem.place.size}, problem.type, problem.k);
  std::deque<kept_list> all;
  for (rank r = 0; r < problem.place.size; ++r) {
    const item_list drawn = source.draw(r, 1);
    all.push_back({{drawn.items, drawn.items + drawn.count * item_size(problem.type)}, drawn.count});
  }
  return all;
}

/// Counts the traffic of an allgather of blocks. `held[r]` is the set of blocks that rank r has. In each step a rank
/// sends to another rank all blocks that the other rank does not have.
void pass_blocks(const std::vector<std::uint64_t>& bytes, std::vector<rank_traffic>& to) {
  const std::size_t size = bytes.size();
  std::vector<std::set<std::size_t>> held(size);
  for (std::size_t r = 0; r < size; ++r) held[r].insert(r);
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    const auto before = held;
    for (std::size_t r = 0; r < size; ++r) {
      const std::size_t other = (r + size - distance) % size;
      for (const std::size_t block : before[r])
        if (held[other].insert(block).second)
          to[r].sent_bytes += bytes[block], to[other].received_bytes += bytes[block];
    }
  }
  for (const auto& it : held) ASSERT_EQ(it.size(), size);
}

void pass_lengths(std::vector<rank_traffic>& to) {
  for (rank_traffic& it : to) {
    it.sent_metadata_bytes += 8 * (to.size() - 1);
    it.received_metadata_bytes += 8 * (to.size() - 1);
  }
}

template <class Body>
void for_each_problem(const Body& body) {
  for (const rank ranks : {1, 2, 3, 5, 6, 7, 4, 8, 12, 13, 16, 33})
    for (const dtype type : {dtype::f32, dtype::f16, dtype::f64})
      for (const gradient_kind kind : k_all_gradient_kinds)
        for (const std::uint64_t k : {0U, 1U, 20U, 400U}) {
          SCOPED_TRACE(std::to_string(ranks) + " ranks, k = " + std::to_string(k) + ", " + std::string(name_of(kind)));
          body(sparse_problem{.count = 1000, .k = k, .place = {.self = 0, .size = ranks}, .type = type}, kind);
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST(BaselineTraffic, counts_what_disseminated_lists_take) {
  for_each_problem([](const sparse_problem& problem, gradient_kind kind) {
    std::vector<std::uint64_t> items, bytes;
    for (const kept_list& it : lists_of(problem, kind)) {
      items.push_back(it.count);
      bytes.push_back(it.items.size());
    }
    std::vector<rank_traffic> wanted(items.size());
    pass_lengths(wanted);
    pass_blocks(bytes, wanted);
    ASSERT_EQ(traffic_of_gathered_lists(problem.type, items).ranks, wanted);
  });
}

TEST(BaselineTraffic, counts_what_split_lists_and_blocks_take) {
  for_each_problem([](const sparse_problem& problem, gradient_kind kind) {
    const auto lists = lists_of(problem, kind);
    std::vector<rank_traffic> wanted(lists.size());
    std::deque<topk_dsa> ranks;
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::uint64_t>> lengths;
    for (std::size_t r = 0; r < lists.size(); ++r) {
      sparse_problem mine = problem;
      mine.place.self = static_cast<rank>(r);
      ranks.emplace_back(mine);
      gradient_source source({.kind = kind, .count = problem.count, .ranks = problem.place.size});
      std::vector<double> residual(problem.count), gradient(problem.count);  // large enough for any type
      source.draw(static_cast<rank>(r), 1, problem.type, gradient.data());
      sent.emplace_back(problem.count * item_size(problem.type));
      lengths.emplace_back(lists.size());
      top_k_hint hint;
      ranks[r].select(reinterpret_cast<std::byte*>(residual.data()), reinterpret_cast<std::byte*>(gradient.data()),
                      hint, sent[r].data(), lengths[r]);
    }
    std::vector<std::uint64_t> bytes;
    for (std::size_t region = 0; region < lists.size(); ++region) {
      std::vector<item_list> parts;
      for (std::size_t r = 0; r < lists.size(); ++r) {
        const auto before = std::accumulate(lengths[r].begin(),
                                            lengths[r].begin() + static_cast<std::ptrdiff_t>(region), std::uint64_t{0});
        parts.push_back({sent[r].data() + before * item_size(problem.type), lengths[r][region]});
        if (r == region) continue;
        wanted[r].sent_bytes += parts.back().count * item_size(problem.type);
        wanted[region].received_bytes += parts.back().count * item_size(problem.type);
      }
      std::vector<std::byte> block(ranks[region].block_room(static_cast<rank>(region)) * item_size(problem.type));
      bytes.push_back(ranks[region].reduce(parts, block.data()) * item_size(problem.type));
    }
    pass_lengths(wanted);
    pass_blocks(bytes, wanted);
    if (kind == gradient_kind::ties) {  // some sums of ties are zero and are not sent
      for (std::size_t r = 0; r < wanted.size(); ++r)
        ASSERT_LE(wanted[r].sent_bytes, traffic_of_topk_dsa(problem, views_of(lists)).ranks[r].sent_bytes);
    } else {
      ASSERT_EQ(traffic_of_topk_dsa(problem, views_of(lists)).ranks, wanted);
    }
  });
}

TEST(BaselineTraffic, counts_what_the_tree_takes) {
  for_each_problem([](const sparse_problem& problem, gradient_kind kind) {
    const auto lists = lists_of(problem, kind);
    for (const arrival_rule rule : {arrival_rule::published, arrival_rule::exact}) {
      std::vector<std::byte> result;
      const world_traffic made = traffic_of_gtopk(problem, views_of(lists), rule, &result);

      std::vector<rank_traffic> wanted(lists.size());
      std::deque<kept_list> partial = lists;
      const knomial tree(problem.place.size, 2);
      for (rank r = problem.place.size - 1; r >= 0; --r) {
        gtopk one(problem, arrival_rule::published, 0);
        kept_list& mine = partial[static_cast<std::size_t>(r)];
        mine.items.resize(one.list_room() * item_size(problem.type));
        for (const rank child : tree.children_of(r)) {
          const kept_list& theirs = partial[static_cast<std::size_t>(child)];
          wanted[static_cast<std::size_t>(child)].sent_bytes += theirs.count * item_size(problem.type);
          wanted[static_cast<std::size_t>(r)].received_bytes += theirs.count * item_size(problem.type);
          mine.count = one.merge(mine.view(), theirs.view(), mine.items.data());
        }
      }
      const std::uint64_t down = partial.front().count * item_size(problem.type);
      const std::uint64_t bitmap = rule == arrival_rule::exact ? (problem.k + 63) / 64 * 8 : 0;
      for (rank r = 1; r < problem.place.size; ++r) {
        rank_traffic& parent = wanted[static_cast<std::size_t>(tree.parent_of(r))];
        parent.sent_bytes += down, parent.sent_metadata_bytes += bitmap;
        wanted[static_cast<std::size_t>(r)].received_bytes += down;
        wanted[static_cast<std::size_t>(r)].received_metadata_bytes += bitmap;
      }
      ASSERT_EQ(made.ranks, wanted);
      ASSERT_EQ(result.size(), down);
      ASSERT_TRUE(std::equal(result.begin(), result.end(), partial.front().items.data()));
    }
  });
}

/// Compares the traffic with table 1 of the Ok-Topk paper, for f32. Each of the k items has two words of 4 bytes.
TEST(BaselineTraffic, is_what_closed_forms_say) {
  for (const rank ranks : {2, 3, 6, 16, 64, 256, 1024}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const sparse_problem problem{.count = 1 << 14, .k = 160, .place = {.self = 0, .size = ranks}};
    const auto others = static_cast<std::uint64_t>(ranks) - 1, steps = static_cast<std::uint64_t>(ceil_log2(ranks));
    const std::uint64_t list_bytes = problem.k * 8;
    list_source source({.count = problem.count, .ranks = ranks}, problem.type, problem.k);
    std::vector<std::uint64_t> items;
    std::deque<std::vector<std::byte>> kept;
    std::vector<item_list> lists;
    for (rank r = 0; r < ranks; ++r) {
      const item_list drawn = source.draw(r, 1);
      items.push_back(drawn.count);
      kept.emplace_back(drawn.items, drawn.items + drawn.count * item_size(problem.type));
      lists.push_back({kept.back().data(), drawn.count});
    }
    for (const rank_traffic& it : traffic_of_gathered_lists(problem.type, items).ranks) {
      ASSERT_EQ(it.received_bytes, others * list_bytes);
      ASSERT_EQ(it.sent_bytes, others * list_bytes);
    }
    const world_traffic up_and_down = traffic_of_gtopk(problem, lists, arrival_rule::published);
    EXPECT_EQ(up_and_down.ranks[0].received_bytes, steps * list_bytes);
    EXPECT_EQ(up_and_down.ranks[0].sent_bytes, steps * list_bytes);
    EXPECT_EQ(up_and_down.critical_bytes, 2 * steps * list_bytes);

    const double n = static_cast<double>(problem.count), density = static_cast<double>(problem.k) / n;
    const double in_union = n * (1 - std::pow(1 - density, ranks)), part = static_cast<double>(others) / ranks;
    const double words = (2 * static_cast<double>(problem.k) + std::min(2 * in_union, n)) * part;
    double received = 0;
    for (const rank_traffic& it : traffic_of_topk_dsa(problem, lists).ranks)
      received += static_cast<double>(it.received_bytes) / 4 / ranks;
    EXPECT_NEAR(received, words, words * 0.03);
  }
}

TEST(BaselineTraffic, shows_one_owner_with_everything_to_receive) {
  const sparse_problem problem{.count = 1 << 14, .k = 100, .place = {.self = 0, .size = 12}};
  const auto lists = lists_of(problem, gradient_kind::one_owner);
  const world_traffic traffic = traffic_of_topk_dsa(problem, views_of(lists));
  EXPECT_GE(traffic.critical_bytes, 11 * 100 * 8U);
}

}  // namespace
}  // namespace lsched
