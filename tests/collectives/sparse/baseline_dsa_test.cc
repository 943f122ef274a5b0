// Tests of TopkDSA with all ranks in lockstep, against a plain reference. A block of the sum consists of values or of
// items. The tests cover both forms.
#include <gtest/gtest.h>

#include <numeric>

#include "collectives/baselines/topk_dsa.h"
#include "tests/collectives/sparse/baseline_cases.h"

namespace lsched {
namespace {

/// The memory of the lists and of the block that a rank sends. In TopkDSA, a rank first sends lists to the owners, and
/// then a block of the sum to all ranks.
struct block_memory {
  block_memory(dtype type, const topk_dsa& of, rank self)
      : lists(type, static_cast<std::size_t>(of.list_room())),
        block(type, static_cast<std::size_t>(of.block_room(self))) {}

  list_in_memory lists;
  std::vector<std::uint64_t> lengths{};
  list_in_memory block;
  std::uint64_t units = 0;
};

class dsa_world {
 public:
  explicit dsa_world(const baseline_case& what) : what_(what) {
    for (rank r = 0; r < what.problem.place.size; ++r) {
      ranks_.emplace_back(problem_of(what, r));
      memories_.emplace_back(what, 0, ranks_.back().result_room());
      blocks_.emplace_back(what.problem.type, ranks_.back(), r);
      blocks_.back().lengths.resize(static_cast<std::size_t>(what.problem.place.size));
    }
  }

  std::size_t size() const { return ranks_.size(); }
  const topk_dsa& at(std::size_t r) const { return ranks_[r]; }
  const rank_memory& memory(std::size_t r) const { return memories_[r]; }
  const block_memory& blocks(std::size_t r) const { return blocks_[r]; }

  void select(std::size_t r, const elements& gradient) {
    const dense_in_memory given(what_.problem.type, gradient);
    rank_memory& mine = memories_[r];
    ranks_[r].select(mine.residual.data(), given.data(), mine.hint, blocks_[r].lists.data(), blocks_[r].lengths);
  }

  item_list list_of(std::size_t from, std::size_t region) const {
    const auto& lengths = blocks_[from].lengths;
    const auto before =
        std::accumulate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(region), std::uint64_t{0});
    return {blocks_[from].lists.data() + before * item_size(what_.problem.type), lengths[region]};
  }

  void reduce() {
    for (std::size_t r = 0; r < size(); ++r) {
      std::vector<item_list> lists;
      for (std::size_t from = 0; from < size(); ++from) lists.push_back(list_of(from, r));
      blocks_[r].units = ranks_[r].reduce(lists, blocks_[r].block.data());
    }
  }

  void settle() {
    std::vector<item_list> views;
    for (const block_memory& it : blocks_) views.push_back({it.block.data(), it.units});
    for (std::size_t r = 0; r < size(); ++r) {
      rank_memory& mine = memories_[r];
      mine.n_result = ranks_[r].settle(views, mine.result.data(), mine.residual.data(), mine.update.data());
    }
  }

 private:
  const baseline_case& what_;
  std::deque<topk_dsa> ranks_;
  std::deque<rank_memory> memories_;
  std::deque<block_memory> blocks_;
};

/// Returns the items of a list that are in a region, with indices relative to the beginning of the region.
list part_of(const list& all, std::uint64_t begin, std::uint64_t end) {
  list made;
  for (const entry& it : all)
    if (it.index >= begin && it.index < end) made.push_back({it.index - static_cast<std::uint32_t>(begin), it.value});
  return made;
}

struct region_bounds {
  std::uint64_t begin, end;
};
region_bounds region_of(const baseline_case& what, std::size_t r) {
  const std::uint64_t count = what.problem.count, ranks = static_cast<std::uint64_t>(what.problem.place.size);
  const std::uint64_t begin = r * (count / ranks) + std::min<std::uint64_t>(r, count % ranks);
  return {begin, begin + count / ranks + (r < count % ranks ? 1 : 0)};
}

list content_of(const item_list& from, dtype type) {
  const list_in_memory copy(type, static_cast<std::size_t>(from.count));
  if (from.count > 0) std::memcpy(copy.data(), from.items, from.count * item_size(type));
  return copy.content(from.count);
}

/// Expects that rank r has the block of the sum, and counts the blocks of each form in `forms`.
void expect_block(const baseline_case& what, const dsa_world& world, std::size_t r, const list& sum,
                  std::array<std::size_t, 2>& forms) {
  const dtype type = what.problem.type;
  const auto [begin, end] = region_of(what, r);
  const list wanted = part_of(sum, begin, end);
  const block_memory& made = world.blocks(r);
  const std::size_t bytes_of_items = wanted.size() * item_size(type), bytes_of_values = (end - begin) * size_of(type);
  const bool is_values = bytes_of_items >= bytes_of_values;
  ASSERT_EQ(world.at(0).is_values(static_cast<rank>(r), made.units), is_values);
  ++forms[is_values ? 1 : 0];
  if (is_values) {
    ASSERT_EQ(made.units, (bytes_of_values + item_size(type) - 1) / item_size(type));
    elements values(end - begin, 0);
    for (const entry& it : wanted) values[it.index] = it.value;
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(read_element(made.block.data(), i, type), values[i]) << i;
  } else {
    ASSERT_EQ(content_of({made.block.data(), made.units}, type), wanted);
  }
}

std::array<std::size_t, 2> run(const baseline_case& what) {
  const dtype type = what.problem.type;
  dsa_world world(what);
  std::array<std::size_t, 2> forms{};
  std::vector<elements> residuals(world.size(), elements(what.problem.count, 0));
  for (round_no round = 1; round <= k_baseline_rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<list> lists;
    for (std::size_t r = 0; r < world.size(); ++r) {
      const elements gradient = gradient_of(what, static_cast<rank>(r), round);
      accumulate(what, residuals[r], gradient);
      lists.push_back(largest_of(type, sendable(what, residuals[r]), what.problem.k));
      world.select(r, gradient);
      for (std::size_t region = 0; region < world.size(); ++region) {
        const auto [begin, end] = region_of(what, region);
        EXPECT_EQ(content_of(world.list_of(r, region), type), part_of(lists[r], begin, end)) << r << " to " << region;
        EXPECT_LE(world.list_of(r, region).count, world.at(r).list_room(static_cast<rank>(region)));
      }
    }
    const list sum = sum_in_order(type, lists);
    world.reduce();
    world.settle();
    for (std::size_t r = 0; r < world.size(); ++r) {
      SCOPED_TRACE("rank " + std::to_string(r));
      expect_block(what, world, r, sum, forms);
      settle(what, sum, residuals[r], lists[r], [](std::uint32_t) { return true; });
      const rank_memory& mine = world.memory(r);
      EXPECT_EQ(mine.result.content(mine.n_result), sum);
      EXPECT_EQ(mine.residual.content(), residuals[r]);
      EXPECT_EQ(mine.update.content(), update_of(what, sum));
      EXPECT_TRUE(mine.is_intact() && world.blocks(r).lists.is_intact() && world.blocks(r).block.is_intact());
    }
    if (::testing::Test::HasFailure()) return forms;
  }
  return forms;
}

TEST(BaselineTopkDSA, adds_the_largest_of_all_ranks_in_rank_order) {
  std::array<std::size_t, 2> forms{};
  for_each_baseline_case([&](const baseline_case& what) {
    if (::testing::Test::HasFailure()) return;
    const auto [items, values] = run(what);
    forms[0] += items, forms[1] += values;
  });
  EXPECT_GT(forms[0], lsched::testing::sampled() ? 20U : 1000U);
  EXPECT_GT(forms[1], lsched::testing::sampled() ? 20U : 1000U);
}

TEST(BaselineTopkDSA, sends_values_where_items_would_take_as_much) {
  // In f32, an item (index and value) is as long as two values.
  for (const std::uint64_t region : sizes{1, 2, 3, 8, 9}) {
    EXPECT_EQ(units_of_values(dtype::f32, region), (region + 1) / 2);
    for (std::uint64_t items = 0; items <= region; ++items)
      EXPECT_EQ(units_of_block(dtype::f32, region, items), 2 * items >= region ? (region + 1) / 2 : items);
  }
  EXPECT_EQ(units_of_values(dtype::f16, 4), 2U);   // four values have 8 bytes; the unit has 6 bytes
  EXPECT_EQ(units_of_values(dtype::bf16, 3), 1U);  // three values have 6 bytes; the unit has 6 bytes
  EXPECT_EQ(units_of_values(dtype::f64, 4), 3U);   // four values have 32 bytes; the unit has 12 bytes
  EXPECT_EQ(units_of_values(dtype::f64, 0), 0U);
}

}  // namespace
}  // namespace lsched
