// Tests of sums of users' sparse vectors. Real schedules run on real engines. All ranks run in one thread, and events
// happen in random order. The results are compared bit by bit with a map that adds the ranks' items in the promised
// order.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "collectives/sparse/coo_allreduce.h"
#include "collectives/sparse/steps/coo.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

std::size_t wide(rank it) { return static_cast<std::size_t>(it); }

/// The items that a rank contributes, in the user's order, with values in f64.
struct user_items {
  std::vector<std::uint64_t> indices;
  std::vector<double> values;

  void add(std::uint64_t index, double value) {
    indices.push_back(index);
    values.push_back(value);
  }
};

/// Returns the f64 values converted to a type.
std::vector<std::byte> as(dtype type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  find_convert(dtype::f64, type)(values.data(), values.size(), 1, bytes.data());
  return bytes;
}

/// The items of the result in the form that the user gets.
struct expected_result {
  std::vector<std::uint64_t> indices;
  std::vector<std::byte> values;
};

template <class Sum>
expected_result expected(const std::vector<user_items>& ranks, dtype type) {
  const dtype sums = sizeof(Sum) == 8 ? dtype::f64 : dtype::f32;
  std::map<std::uint64_t, Sum> all;
  for (const user_items& mine : ranks) {
    const std::vector<std::byte> given = as(type, mine.values);
    std::vector<Sum> values(mine.values.size());
    find_convert(type, sums)(given.data(), values.size(), 1, values.data());
    std::map<std::uint64_t, Sum> own;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto [at, is_new] = own.try_emplace(mine.indices[i], values[i]);
      if (!is_new) at->second += values[i];
    }
    for (const auto& [index, value] : own) {
      const auto [at, is_new] = all.try_emplace(index, value);
      if (!is_new) at->second += value;
    }
  }
  expected_result result;
  std::vector<Sum> values;
  for (const auto& [index, value] : all) result.indices.push_back(index), values.push_back(value);
  result.values.resize(values.size() * size_of(type));
  find_convert(sums, type)(values.data(), values.size(), 1, result.values.data());
  return result;
}

expected_result expected(const std::vector<user_items>& ranks, dtype type) {
  return type == dtype::f64 ? expected<double>(ranks, type) : expected<float>(ranks, type);
}

constexpr std::uint64_t k_untouched = 0xABABABABABABABAB;

/// A world in which every rank contributes a sparse vector.
class coo_world {
 public:
  coo_world(const coo_problem& problem, std::uint64_t seed)
      : problem_(problem), world_(problem.place.size, seed), ranks_(wide(problem.place.size)) {
    its_ = world_.commit([&](rank r) {
      member& me = ranks_[wide(r)];
      coo_problem mine = problem_;
      mine.place.self = r;
      me.indices.resize(problem_.room);
      me.values.resize(problem_.room * size_of(problem_.type));
      me.dense.assign(problem_.has_dense ? problem_.count * size_of(problem_.type) : 0, std::byte{0xAB});
      me.steps = std::make_shared<coo_functions>(mine);
      me.forget(problem_);
      binding memory{{bytes(me.indices.data()), me.values.data(), bytes(&me.number)},
                     {bytes(me.out_indices.data()), me.out_values.data(), bytes(&me.out_number)}};
      if (problem_.has_dense) memory.outputs.push_back(me.dense.data());
      return commit_request{"coo", coo_schedule(mine), std::move(memory), {.local = me.steps}};
    });
  }

  bool is_there() const { return its_.size() == ranks_.size(); }

  bool run(const std::vector<user_items>& given) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      member& me = ranks_[r];
      const std::vector<std::byte> values = as(problem_.type, given[r].values);
      me.number = given[r].indices.size();
      std::copy_n(given[r].indices.begin(), std::min<std::size_t>(me.number, problem_.room), me.indices.begin());
      std::copy_n(values.begin(), std::min(values.size(), me.values.size()), me.values.begin());
      me.forget(problem_);
    }
    return world_.run_round(its_);
  }

  struct member {
    std::vector<std::uint64_t> indices, out_indices;
    std::vector<std::byte> values, out_values, dense;
    std::uint64_t number = 0, out_number = 0;
    std::shared_ptr<coo_functions> steps;

    void forget(const coo_problem& problem) {
      out_indices.assign(problem.result_room, k_untouched);
      out_values.assign(problem.result_room * size_of(problem.type), std::byte{0xAB});
      out_number = k_untouched;
    }
  };
  const member& at(rank r) const { return ranks_[wide(r)]; }

  void expect(const expected_result& all, const std::string& where) const {
    const std::size_t width = size_of(problem_.type);
    std::vector<std::byte> dense(problem_.has_dense ? problem_.count * width : 0);
    for (std::size_t i = 0; problem_.has_dense && i < all.indices.size(); ++i)
      std::memcpy(&dense[all.indices[i] * width], &all.values[i * width], width);
    for (rank r = 0; r < problem_.place.size; ++r) {
      const member& me = at(r);
      ASSERT_EQ(me.out_number, all.indices.size()) << where << ", rank " << r;
      ASSERT_TRUE(std::equal(all.indices.begin(), all.indices.end(), me.out_indices.begin()))
          << where << ", rank " << r;
      ASSERT_TRUE(std::equal(all.values.begin(), all.values.end(), me.out_values.begin())) << where << ", rank " << r;
      for (std::size_t i = me.out_number; i < problem_.result_room; ++i) ASSERT_EQ(me.out_indices[i], k_untouched);
      ASSERT_EQ(me.dense, dense) << where << ", rank " << r;
    }
  }

  /// Expects that the round has ended with the error `flaw`, and has written only the number of items.
  void expect_bad(round_no round, coo_flaw flaw, rank culprit, std::uint64_t items) const {
    for (rank r = 0; r < problem_.place.size; ++r) {
      const member& me = at(r);
      const coo_status verdict = me.steps->status_of(round);
      EXPECT_EQ(verdict.flaw, flaw);
      EXPECT_EQ(verdict.culprit, culprit);
      EXPECT_EQ(verdict.items, items);
      EXPECT_EQ(me.out_number, items);
      EXPECT_EQ(std::ranges::count(me.out_indices, k_untouched), static_cast<std::ptrdiff_t>(problem_.result_room));
      EXPECT_EQ(std::ranges::count(me.out_values, std::byte{0xAB}), static_cast<std::ptrdiff_t>(me.out_values.size()));
    }
  }

  /// Returns one counter of the traffic so far, summed over the buffers with lists or over all other buffers.
  std::uint64_t sum_of(rank r, bool of_lists, std::uint64_t traffic::*which) const {
    std::uint64_t sum = 0;
    const instance& it = *its_[wide(r)];
    for (std::size_t b = 0; b < it.moved.size(); ++b)
      if (it.program->buffers()[b].has_lists() == of_lists) sum += it.moved[b].*which;
    return sum;
  }

 private:
  template <class Number>
  static std::byte* bytes(Number* at) {
    return reinterpret_cast<std::byte*>(at);
  }

  coo_problem problem_;
  lockstep_world world_;
  std::vector<member> ranks_;
  std::vector<instance*> its_;
};

/// The distributions of the items over indices and ranks.
enum class item_kind { scattered, sorted, few_indices, one_index, one_region, some_ranks_none, nobody };
constexpr item_kind k_all_kinds[] = {item_kind::scattered, item_kind::sorted,     item_kind::few_indices,
                                     item_kind::one_index, item_kind::one_region, item_kind::some_ranks_none,
                                     item_kind::nobody};

std::vector<user_items> drawn(item_kind kind, const coo_problem& problem, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<user_items> ranks(wide(problem.place.size));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const bool has_none = problem.count == 0 || kind == item_kind::nobody ||
                          (kind == item_kind::some_ranks_none && (r % 2 == 0 || r + 1 == ranks.size()));
    const std::uint64_t number = has_none ? 0 : draw() % (problem.room + 1);
    for (std::uint64_t i = 0; i < number; ++i) {
      std::uint64_t index = draw() % problem.count;
      if (kind == item_kind::few_indices) index = index % 5 * (problem.count / 5);
      if (kind == item_kind::one_index) index = problem.count - 1;
      if (kind == item_kind::one_region) index = problem.count / 2 + index % (problem.count / 64 + 1);
      if (index >= problem.count) index = problem.count - 1;
      // Values have many magnitudes and both signs. Some values are zero, and some cancel each other exactly.
      const double size = std::ldexp(1 + static_cast<double>(draw() % 1000) / 1000, static_cast<int>(draw() % 8));
      ranks[r].add(index, draw() % 9 == 0 ? 0 : draw() % 4 == 0 ? (draw() % 2 == 0 ? 64 : -64) : size - 60);
    }
    if (kind == item_kind::sorted) std::ranges::sort(ranks[r].indices);
  }
  return ranks;
}

std::vector<rank> sizes() {
  return sampled() ? std::vector<rank>{1, 2, 3, 5, 8} : std::vector<rank>{1, 2, 3, 5, 6, 7, 4, 8};
}

std::vector<std::pair<rank, bool>> sizes_and_regions() {
  std::vector<std::pair<rank, bool>> all;
  for (const rank size : sizes()) all.emplace_back(size, false), all.emplace_back(size, true);
  return all;
}

TEST(coo, what_ranks_bring_is_added_up_bit_by_bit) {
  for (const rank size : sizes())
    for (const std::uint64_t count : {0u, 1u, 7u, 1000u})
      for (const item_kind kind : k_all_kinds)
        for (const bool is_balanced : {false, true}) {
          const coo_problem problem{.count = count,
                                    .room = 90,
                                    .result_room = count,
                                    .place = {0, size},
                                    .is_balanced = is_balanced,
                                    .has_dense = count != 7};
          coo_world world(problem, count + wide(size));
          ASSERT_TRUE(world.is_there());
          for (round_no round = 1; round <= 3; ++round) {
            const auto given = drawn(kind, problem, round * 1000 + count);
            ASSERT_TRUE(world.run(given));
            const std::string where = std::to_string(size) + " ranks, count " + std::to_string(count) + ", kind " +
                                      std::to_string(static_cast<int>(kind)) + (is_balanced ? ", balanced" : "");
            ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, problem.type), where));
            ASSERT_EQ(world.at(0).steps->status_of(round).flaw, coo_flaw::none);
          }
        }
}

TEST(coo, all_types_are_rounded_once) {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const item_kind kind : {item_kind::scattered, item_kind::few_indices, item_kind::one_index}) {
      const coo_problem problem{.count = 300,
                                .room = 200,
                                .result_room = 300,
                                .place = {0, 3},
                                .type = type,
                                .is_balanced = kind == item_kind::few_indices,
                                .has_dense = true};
      coo_world world(problem, 5);
      ASSERT_TRUE(world.is_there());
      const auto given = drawn(kind, problem, 17);
      ASSERT_TRUE(world.run(given));
      ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, type), std::string(name_of(type))));
    }
}

/// In f16, 2048 + 1 + 1 is 2050 if only the final sum is rounded, and 2048 if every addition is rounded.
TEST(coo, no_sum_of_one_rank_is_rounded) {
  for (const bool is_one_rank : {true, false}) {
    const coo_problem problem{.count = 9, .room = 3, .result_room = 1, .place = {0, 3}, .type = dtype::f16};
    coo_world world(problem, 5);
    ASSERT_TRUE(world.is_there());
    std::vector<user_items> given(3);
    for (std::size_t i = 0; i < 3; ++i) given[is_one_rank ? 1 : i].add(4, i == 0 ? 2048 : 1);
    ASSERT_TRUE(world.run(given));
    EXPECT_EQ(world.at(2).out_indices[0], 4u);
    EXPECT_EQ(std::memcmp(world.at(2).out_values.data(), as(dtype::f16, {2050}).data(), 2), 0);
  }
}

TEST(coo, order_is_of_ranks_and_of_items) {
  const coo_problem problem{.count = 1, .room = 3, .result_room = 1, .place = {0, 2}};
  coo_world world(problem, 1);
  ASSERT_TRUE(world.is_there());
  const auto first_value = [&] {
    float value = 0;
    std::memcpy(&value, world.at(1).out_values.data(), sizeof value);
    return value;
  };
  std::vector<user_items> given(2);
  for (const double value : {1e8, 1.0, -1e8}) given[0].add(0, value);
  ASSERT_TRUE(world.run(given));
  EXPECT_EQ(first_value(), 0);
  given[0].values = {1e8, -1e8, 1.0};
  ASSERT_TRUE(world.run(given));
  EXPECT_EQ(first_value(), 1);
  EXPECT_EQ(world.at(0).out_number, 1u);
  // The items of rank 0 are summed first: the sum is (1 + 1e8) + -1e8.
  given[0] = {}, given[0].add(0, 1), given[0].add(0, 1e8), given[1].add(0, -1e8);
  ASSERT_TRUE(world.run(given));
  EXPECT_EQ(first_value(), 0);
}

TEST(coo, an_index_stays_if_its_sum_is_zero_and_nan_are_seen_by_all) {
  const coo_problem problem{.count = 100, .room = 3, .result_room = 3, .place = {0, 3}, .has_dense = true};
  coo_world world(problem, 1);
  ASSERT_TRUE(world.is_there());
  std::vector<user_items> given(3);
  given[0].add(50, 8), given[2].add(50, -8), given[1].add(0, 0);
  given[1].add(99, std::copysign(std::numeric_limits<double>::quiet_NaN(), -1.0));
  ASSERT_TRUE(world.run(given));
  ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, dtype::f32), "zeros"));
  EXPECT_EQ(world.at(1).out_number, 3u);
  std::uint32_t nan = 0;
  std::memcpy(&nan, world.at(1).out_values.data() + 8, sizeof nan);
  EXPECT_EQ(nan, 0x7FC00000u);
}

/// No buffer has a size proportional to `count`, so `count` can be huge. An index in a message has only 32 bits, but is
/// relative to the beginning of a region.
TEST(coo, vectors_may_be_longer_than_an_index) {
  for (const rank size : sizes()) {
    const std::uint64_t count = static_cast<std::uint64_t>(size) << 32;
    const coo_problem problem{.count = count, .room = 100, .result_room = 800, .place = {0, size}};
    coo_world world(problem, 3);
    ASSERT_TRUE(world.is_there());
    for (const item_kind kind : {item_kind::scattered, item_kind::few_indices, item_kind::one_index}) {
      auto given = drawn(kind, problem, 99);
      given.back().indices = {count - 1, 0, std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1, count / 2, count - 1};
      given.back().values = {1, 2, 3, 4, 5, 6};
      ASSERT_TRUE(world.run(given));
      ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, dtype::f32), std::to_string(size) + " ranks"));
    }
  }
}

TEST(coo, integers_are_all_in_the_result) {
  const coo_problem problem{.count = 500, .room = 400, .result_room = 500, .place = {0, 7}};
  coo_world world(problem, 2);
  ASSERT_TRUE(world.is_there());
  std::mt19937_64 draw(1);
  std::vector<user_items> given(7);
  double sum_given = 0, sum_taken = 0, weighted_given = 0, weighted_taken = 0;
  for (user_items& one : given)
    for (int i = 0; i < 400; ++i) {
      one.add(draw() % 500, static_cast<double>(draw() % 1000));
      sum_given += one.values.back();
      weighted_given += one.values.back() * static_cast<double>(one.indices.back());
    }
  ASSERT_TRUE(world.run(given));
  for (std::size_t i = 0; i < world.at(4).out_number; ++i) {
    float value = 0;
    std::memcpy(&value, &world.at(4).out_values[i * sizeof value], sizeof value);
    sum_taken += static_cast<double>(value);
    weighted_taken += static_cast<double>(value) * static_cast<double>(world.at(4).out_indices[i]);
  }
  EXPECT_EQ(sum_given, sum_taken);
  EXPECT_EQ(weighted_given, weighted_taken);
}

TEST(coo, it_moves_what_is_counted_without_moving_it) {
  for (const rank size : sizes())
    for (const dtype type : {dtype::f16, dtype::f32, dtype::f64}) {
      const coo_problem problem{.count = 1000, .room = 90, .result_room = 1000, .place = {0, size}, .type = type};
      coo_world world(problem, 1);
      ASSERT_TRUE(world.is_there());
      const auto given = drawn(item_kind::few_indices, problem, 4);
      ASSERT_TRUE(world.run(given));
      const cut regions = equal_regions(problem);
      const auto in_region = [&](std::vector<std::uint64_t> indices, rank of) {
        std::ranges::sort(indices);
        indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
        return static_cast<std::uint64_t>(std::ranges::count_if(indices, [&](std::uint64_t it) {
          return it >= regions.begin(wide(of)) && it < regions.begin(wide(of) + 1);
        }));
      };
      std::vector<std::uint64_t> sums, sent(wide(size)), received(wide(size));
      const expected_result all = expected(given, type);
      for (rank r = 0; r < size; ++r) sums.push_back(in_region(all.indices, r) * item_size(type));
      for (std::size_t distance = 1; distance < sums.size(); distance *= 2)  // sends of an allgather by dissemination
        for (std::size_t r = 0; r < sums.size(); ++r)
          for (std::size_t i = 0; i < std::min(distance, sums.size() - distance); ++i) {
            const std::uint64_t block = sums[(r + i) % sums.size()];
            sent[r] += block;
            received[(r + sums.size() - distance) % sums.size()] += block;
          }
      const std::uint64_t part = item_size(residual_of(type));
      for (rank from = 0; from < size; ++from)
        for (rank to = 0; to < size; ++to) {
          const std::uint64_t moved = from == to ? 0 : in_region(given[wide(from)].indices, to) * part;
          sent[wide(from)] += moved;
          received[wide(to)] += moved;
        }
      for (rank r = 0; r < size; ++r) {
        EXPECT_EQ(world.sum_of(r, true, &traffic::bytes_sent), sent[wide(r)]) << r;
        EXPECT_EQ(world.sum_of(r, true, &traffic::bytes_received), received[wide(r)]) << r;
        EXPECT_EQ(world.sum_of(r, false, &traffic::bytes_sent), 16 * (wide(size) - 1));
        EXPECT_EQ(world.sum_of(r, false, &traffic::bytes_received), 16 * (wide(size) - 1));
      }
    }
}

TEST(coo, what_is_wrong_is_told_to_all_and_the_next_round_is_none_the_worse) {
  for (const auto& [size, is_balanced] : sizes_and_regions()) {
    const coo_problem problem{
        .count = 100, .room = 10, .result_room = 12, .place = {0, size}, .is_balanced = is_balanced, .has_dense = true};
    coo_world world(problem, 7);
    ASSERT_TRUE(world.is_there());
    const rank last = size - 1;
    round_no round = 0;
    const std::vector<user_items> nothing(wide(size));
    const auto run_well = [&] {
      std::vector<user_items> given = nothing;
      given[wide(last)].add(99, 3), given[0].add(round % 100, 1);
      ASSERT_TRUE(world.run(given));
      ++round;
      ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, dtype::f32), "after a bad round"));
      ASSERT_EQ(world.at(0).steps->status_of(round).flaw, coo_flaw::none);
    };
    ASSERT_NO_FATAL_FAILURE(run_well());
    const std::vector<std::byte> dense = world.at(0).dense;

    std::vector<user_items> given = nothing;
    given[wide(last)].add(5, 1), given[wide(last)].add(100, 1), given[0].add(7, 1);
    ASSERT_TRUE(world.run(given));
    world.expect_bad(++round, coo_flaw::large_index, last, 0);
    EXPECT_EQ(world.at(0).dense, dense);
    ASSERT_NO_FATAL_FAILURE(run_well());

    given = nothing;
    for (std::uint64_t i = 0; i < 11; ++i) given[wide(size / 2)].add(i, 1);
    ASSERT_TRUE(world.run(given));
    world.expect_bad(++round, coo_flaw::many_items, size / 2, 0);
    ASSERT_NO_FATAL_FAILURE(run_well());

    // The number of different indices exceeds the capacity of the result. No single rank could contribute so many
    // items.
    given = nothing;
    for (std::uint64_t i = 0; i < 10; ++i)
      for (rank r = 0; r < size; ++r) given[wide(r)].add(r < 2 ? 99 - 10 * wide(r) - i : i, 1);
    const std::uint64_t items = expected(given, dtype::f32).indices.size();
    ASSERT_TRUE(world.run(given));
    ++round;
    if (size > 1) world.expect_bad(round, coo_flaw::large_result, k_no_rank, items);
    ASSERT_NO_FATAL_FAILURE(run_well());
  }
}

/// All items are in one region. The number of sums of this region exceeds the number that its owner can send.
TEST(coo, one_owner_has_no_room_for_its_sum) {
  for (const bool is_balanced : {false, true}) {
    const coo_problem problem{.count = 1000, .room = 50, .result_room = 3, .place = {0, 5}, .is_balanced = is_balanced};
    coo_world world(problem, 7);
    ASSERT_TRUE(world.is_there());
    std::vector<user_items> given(5);
    for (std::uint64_t i = 0; i < 250; ++i) given[i % 5].add(400 + i % 200, 1);
    ASSERT_TRUE(world.run(given));
    world.expect_bad(1, coo_flaw::large_result, k_no_rank, 200);
  }
}

/// If regions are balanced, no region has more items than its owner has room for, so no round fails. The test uses
/// lists of all lengths up to `room`. Some of these lists have only a few adjacent indices.
TEST(coo, balanced_owners_never_get_more_than_twice_the_room_and_a_few) {
  std::mt19937_64 draw(3);
  for (const rank size : {2, 3, 5, 6, 7, 4, 8, 16}) {
    const std::uint64_t ranks = wide(size);
    for (const std::uint64_t room : {1u, 5u, 40u, 320u}) {
      const coo_problem problem{
          .count = 4 * room + 9, .room = room, .result_room = 5000, .place = {0, size}, .is_balanced = true};
      EXPECT_LE(received_room(problem), std::max(2 * room + room / ranks + 4 * ranks, room)) << size << ", " << room;
      coo_world world(problem, room);
      ASSERT_TRUE(world.is_there());
      for (round_no round = 1; round <= 30; ++round) {
        std::vector<user_items> given(ranks);
        const std::uint64_t width = 1 + draw() % problem.count, begin = draw() % (problem.count - width + 1);
        const std::uint64_t shift = round % 2 == 0 ? 0 : width / ranks;
        for (std::size_t r = 0; r < ranks; ++r) {
          const std::uint64_t number = round % 3 == 0 ? room : draw() % (room + 1);
          for (std::uint64_t i = 0; i < number; ++i) given[r].add(begin + (i + r * shift) % width, 1);
        }
        ASSERT_TRUE(world.run(given)) << size << " ranks, room " << room << ", round " << round;
        ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, dtype::f32), std::to_string(round)));
      }
    }
  }
}

/// Rank 1 contributes one item, which another rank owns. If regions are balanced, ranks first exchange the lengths of
/// lists. Then rank 1 sends only the list with this item.
TEST(coo, empty_lists_are_not_sent_where_regions_are_balanced) {
  for (const bool is_balanced : {false, true}) {
    const coo_problem problem{.count = 100, .room = 40, .result_room = 40, .place = {0, 5}, .is_balanced = is_balanced};
    coo_world world(problem, 7);
    ASSERT_TRUE(world.is_there());
    std::vector<user_items> given(5);
    given[1].add(99, 1);
    ASSERT_TRUE(world.run(given));
    ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, dtype::f32), "one item"));
    std::uint64_t messages = 0;
    for (rank r = 0; r < 5; ++r) messages += world.sum_of(r, true, &traffic::messages_sent);
    const std::uint64_t gathering = 5 * 3;
    EXPECT_EQ(messages, gathering + (is_balanced ? 1 : 5 * 4));
  }
}

/// Nine of ten items are in one tenth of the vector. If regions are balanced, all owners receive about the same number
/// of items.
TEST(coo, balanced_owners_receive_about_the_same) {
  const coo_problem problem{.count = 100'000, .room = 1000, .result_room = 8000, .place = {0, 8}, .is_balanced = true};
  coo_world world(problem, 7);
  ASSERT_TRUE(world.is_there());
  std::mt19937_64 draw(5);
  std::vector<user_items> given(8);
  for (user_items& one : given)
    for (int i = 0; i < 1000; ++i) one.add(draw() % (i % 10 == 0 ? 100'000 : 10'000), 1);
  ASSERT_TRUE(world.run(given));
  const expected_result all = expected(given, dtype::f32);
  ASSERT_NO_FATAL_FAILURE(world.expect(all, "skewed"));
  for (rank r = 0; r < 8; ++r) {
    // An owner receives an eighth of the items of the other seven ranks, and then the sums of seven of the eight
    // regions.
    const double items = 1000.0 * 7 / 8 + static_cast<double>(all.indices.size()) * 7 / 8;
    const auto received = static_cast<double>(world.sum_of(r, true, &traffic::bytes_received)) / 8;
    EXPECT_LT(received, items * 1.1) << r;
    EXPECT_GT(received, items * 0.8) << r;
  }
}

TEST(coo, no_room_is_room_for_nothing) {
  for (const auto& [size, is_balanced] : sizes_and_regions())
    for (const std::uint64_t room : {0u, 1u})
      for (const std::uint64_t result_room : {0u, 1u}) {
        const coo_problem problem{
            .count = 3, .room = room, .result_room = result_room, .place = {0, size}, .is_balanced = is_balanced};
        coo_world world(problem, 1);
        ASSERT_TRUE(world.is_there());
        std::vector<user_items> given(wide(size));
        ASSERT_TRUE(world.run(given));
        ASSERT_NO_FATAL_FAILURE(world.expect({}, "nothing"));
        given.back().add(2, 1);
        ASSERT_TRUE(world.run(given));
        if (room == 0)
          world.expect_bad(2, coo_flaw::many_items, size - 1, 0);
        else if (result_room == 0)
          world.expect_bad(2, coo_flaw::large_result, k_no_rank, 1);
        else
          ASSERT_NO_FATAL_FAILURE(world.expect(expected(given, dtype::f32), "one"));
      }
}

TEST(coo, soak_many_rounds) {
  for (const rank size : {3, 5}) {
    const coo_problem problem{.count = 50, .room = 12, .result_room = 30, .place = {0, size}, .is_balanced = size == 5};
    coo_world world(problem, 7);
    ASSERT_TRUE(world.is_there());
    for (round_no round = 1; round <= 100'000; ++round) {
      const auto given = drawn(item_kind::scattered, problem, round);
      ASSERT_TRUE(world.run(given)) << round;
      const expected_result all = expected(given, problem.type);
      if (all.indices.size() > problem.result_room)
        world.expect_bad(round, coo_flaw::large_result, k_no_rank, all.indices.size());
      else
        ASSERT_NO_FATAL_FAILURE(world.expect(all, std::to_string(round)));
    }
  }
}

}  // namespace
}  // namespace lsched::testing
