// Tests of SparseLoCo with all ranks in lockstep, against a plain reference that shares no code with the library.
#include <gtest/gtest.h>

#include "collectives/sparse/steps/sparseloco_steps.h"
#include "tests/collectives/sparse/baseline_cases.h"
#include "tests/ops/chunk_reader.h"

namespace lsched {
namespace {

constexpr std::size_t k_width = 4096;  ///< elements of a chunk

/// The shares of a chunk in a vector: k/n of its elements, rounded, but at least one.
std::size_t slots_of(const sparse_problem& problem, std::size_t elements) {
  const auto k = static_cast<double>(std::min(problem.k, problem.count));
  if (k == 0) return 0;
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(static_cast<double>(elements) * k / static_cast<double>(problem.count) + 0.5));
}

struct loco_rank {
  loco_rank(const baseline_case& what, rank self)
      : steps(problem_of(what, self)),
        residual(residual_of(what.problem.type), elements(what.problem.count, 0)),
        update(what.problem.type, elements(what.problem.count, 0)),
        sent(steps.message_bytes(), 64) {}
  sparseloco steps;
  dense_in_memory residual, update;
  fenced_bytes sent;
};

/// Returns the elements of a whole message, by a reader of single bits.
list read_message(const baseline_case& what, const std::byte* message) {
  const dtype wide = residual_of(what.problem.type);
  list all;
  const auto* from = reinterpret_cast<const std::uint8_t*>(message);
  for (std::size_t begin = 0; begin < what.problem.count; begin += k_width) {
    const std::size_t slots = slots_of(what.problem, std::min(k_width, what.problem.count - begin));
    if (slots == 0) continue;
    for (const entry& it : read_chunk(wide, from, slots))
      all.push_back({it.index + static_cast<std::uint32_t>(begin), it.value});
    from += 2 * size_of(wide) / 2 + (2 * slots + 7) / 8 + (12 * slots + 7) / 8;
  }
  return all;
}

/// Expects that a message has the largest elements of each chunk, except those below 2^-15 of the largest.
void expect_largest(const baseline_case& what, const elements& residual, const list& sent) {
  const dtype type = what.problem.type, wide = residual_of(type);
  for (std::size_t begin = 0; begin < residual.size(); begin += k_width) {
    const std::size_t end = std::min(residual.size(), begin + k_width);
    const elements chunk(residual.begin() + static_cast<std::ptrdiff_t>(begin),
                         residual.begin() + static_cast<std::ptrdiff_t>(end));
    std::set<std::uint32_t> wanted, found;
    double greatest = 0;
    const list best = largest_of(type, sendable(what, chunk), slots_of(what.problem, end - begin));
    const auto size_at = [&](const entry& it) { return std::abs(value_of(wide, chunk[it.index])); };
    for (const entry& it : best)
      if (std::isfinite(size_at(it))) greatest = std::max(greatest, size_at(it));
    for (const entry& it : best)
      if (!(size_at(it) < greatest * 0x1p-15)) wanted.insert(it.index);
    for (const entry& it : sent)
      if (it.index >= begin && it.index < end) found.insert(it.index - static_cast<std::uint32_t>(begin));
    // The level of subnormal elements can be zero, so they are not sent.
    ASSERT_TRUE(std::ranges::includes(wanted, found));
    ASSERT_TRUE(found == wanted || greatest < 1e-36) << "chunk at " << begin;
  }
}

/// Returns the sum of lists whose values have the residual's type, added in rank order and rounded once.
list sum_of_wide(dtype type, const std::vector<list>& lists) {
  const list sums = sum_in_order(residual_of(type), lists);
  list made;
  for (const entry& it : sums)
    if (magnitude_of(type, rounded(type, it.value)) != 0) made.push_back({it.index, rounded(type, it.value)});
  return made;
}

void settle_rank(const baseline_case& what, loco_rank& mine, const std::vector<std::byte>& messages, const list& sent,
                 const list& sum) {
  const dtype type = what.problem.type, wide = residual_of(type);
  elements rest = mine.residual.content();
  mine.steps.settle(messages.data(), mine.residual.data(), mine.update.data());
  if (is_refused(what, sum)) {
    drop_not_finite(type, rest);
  } else {
    for (const entry& it : sent) {
      const double left = value_of(wide, rest[it.index]) - value_of(wide, it.value);
      rest[it.index] = std::isfinite(left) ? bits_of(wide, left) : 0;
    }
  }
  ASSERT_EQ(mine.residual.content(), rest);
  ASSERT_EQ(mine.update.content(), update_of(what, sum));
  ASSERT_EQ(mine.steps.non_finite_element().has_value(), is_refused(what, sum));
  ASSERT_TRUE(mine.residual.is_intact() && mine.update.is_intact() && mine.sent.is_intact());
}

void run_loco(const baseline_case& what) {
  std::deque<loco_rank> ranks;
  for (rank r = 0; r < what.problem.place.size; ++r) ranks.emplace_back(what, r);
  for (round_no round = 1; round <= k_baseline_rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<std::byte> messages;
    std::vector<list> lists;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      loco_rank& mine = ranks[r];
      elements residual = mine.residual.content();
      const elements gradient = gradient_of(what, static_cast<rank>(r), round);
      accumulate(what, residual, gradient);
      mine.steps.select(mine.residual.data(), dense_in_memory(what.problem.type, gradient).data(), mine.sent.data());
      ASSERT_EQ(mine.residual.content(), residual) << "a round that fails loses nothing";
      lists.push_back(read_message(what, mine.sent.data()));
      expect_largest(what, residual, lists.back());
      messages.insert(messages.end(), mine.sent.data(), mine.sent.data() + mine.steps.message_bytes());
    }
    const list sum = sum_of_wide(what.problem.type, lists);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      settle_rank(what, ranks[r], messages, lists[r], sum);
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "rank " << r;
    }
  }
}

TEST(SparseLoCo, sums_the_messages_of_all_ranks_in_rank_order) { for_each_baseline_case(run_loco); }

TEST(SparseLoCo, vectors_of_several_chunks_too) {
  std::size_t number = 0;
  for (const dtype type : k_floats)
    for (const std::uint64_t count : {4095u, 4097u, 8192u, 10'000u})
      for (const std::uint64_t k : std::set<std::uint64_t>{1, count / 64, count}) {
        ++number;
        if (testing::sampled() && number % 3 != 0) continue;
        const baseline_case it{.problem = {.count = count,
                                           .k = k,
                                           .place = {.self = 0, .size = number % 2 == 0 ? 3 : 5},
                                           .type = type,
                                           .scale = number % 3 == 0 ? 0.1 : 1,
                                           .nans = static_cast<nan_policy>(number % 5 % 3)},
                               .input = number % k_baseline_inputs};
        SCOPED_TRACE(::testing::Message() << it);
        run_loco(it);
        if (HasFatalFailure()) return;
      }
}

/// Levels have few digits, so most sums are exact in any order. This sum is not: 1 is lost beside 2^24.
TEST(SparseLoCo, adds_in_rank_order) {
  const baseline_case what{.problem = {.count = 1, .k = 1, .place = {0, 3}}, .input = 0};
  std::vector<std::byte> messages;
  loco_rank mine(what, 0);
  for (const double value : {1.0, 0x1p24, -0x1p24}) {
    const dense_in_memory residual(dtype::f32, {bits_of(dtype::f32, value)});
    mine.steps.select(residual.data(), nullptr, mine.sent.data());
    messages.insert(messages.end(), mine.sent.data(), mine.sent.data() + mine.steps.message_bytes());
  }
  EXPECT_EQ(mine.steps.sum_of(messages.data()).count, 0U);
}

TEST(SparseLoCo, the_size_of_a_message_follows_from_the_problem) {
  const auto bytes = [](std::uint64_t count, std::uint64_t k, dtype type = dtype::f32) {
    return chunk_plan({.count = count, .k = k, .type = type}).message_bytes();
  };
  EXPECT_EQ(bytes(1 << 20, 1 << 14), 256U * 116);
  EXPECT_EQ(bytes(1 << 20, 1 << 14, dtype::bf16), 256U * 116);
  EXPECT_EQ(bytes(1 << 20, 1 << 14, dtype::f64), 256U * 120);
  EXPECT_EQ(bytes(100'000, 100'000 / 64), 24U * 116 + 4 + 7 + 39) << "26 of the last 1696 elements";
  EXPECT_EQ(bytes(4097, 64), 116U + 4 + 1 + 2) << "at least one element of each chunk";
  EXPECT_EQ(bytes(0, 10), 1U);
  EXPECT_EQ(bytes(10, 0), 1U);
  EXPECT_EQ(bytes(std::uint64_t{1} << 32, std::uint64_t{1} << 26), (std::uint64_t{1} << 20) * 116);
}

/// In every round, the sum of all gradients and old residuals is the sum of all messages and new residuals. Numbers are
/// counted in units of 2^-24.
TEST(SparseLoCo, integers_are_conserved) {
  const auto units = [](double value) {
    const double scaled = std::ldexp(value, 24);
    EXPECT_EQ(scaled, std::trunc(scaled)) << value << " is not a multiple of the unit";
    return static_cast<std::int64_t>(scaled);
  };
  for (const dtype type : {dtype::f32, dtype::f64})
    for (const rank size : {3, 5, 6, 7, 4, 8, 32}) {
      if (testing::sampled() && size == 32) continue;
      const baseline_case what{.problem = {.count = 5000, .k = 5000 / 64, .place = {0, size}, .type = type},
                               .input = 0};
      std::deque<loco_rank> ranks;
      for (rank r = 0; r < size; ++r) ranks.emplace_back(what, r);
      std::mt19937_64 draw(static_cast<std::uint64_t>(size));
      std::int64_t before = 0, kept = 0;
      for (int round = 0; round < 12; ++round) {
        std::int64_t given = 0, sent = 0;
        before = kept, kept = 0;
        std::vector<std::byte> messages;
        for (loco_rank& mine : ranks) {
          elements gradient(what.problem.count);
          for (std::uint64_t& it : gradient) {
            const double integer = std::trunc(100 * drawn_normal(draw));
            given += units(integer);
            it = bits_of(type, integer);
          }
          mine.steps.select(mine.residual.data(), dense_in_memory(type, gradient).data(), mine.sent.data());
          for (const entry& it : read_message(what, mine.sent.data())) sent += units(value_of(type, it.value));
          messages.insert(messages.end(), mine.sent.data(), mine.sent.data() + mine.steps.message_bytes());
        }
        for (loco_rank& mine : ranks) {
          mine.steps.settle(messages.data(), mine.residual.data(), nullptr);
          for (const std::uint64_t it : mine.residual.content()) kept += units(value_of(type, it));
        }
        ASSERT_EQ(given + before, sent + kept) << name_of(type) << ", " << size << " ranks, round " << round;
        ASSERT_NE(kept, 0);
      }
    }
}

}  // namespace
}  // namespace lsched
