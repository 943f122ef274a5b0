// Tests of Ok-Topk rounds with all ranks in lockstep. The tests compare the rounds with a plain implementation of the
// definition. This implementation uses sorts instead of thresholds, dense sums instead of lists, and no regions.
#include "collectives/sparse/steps/oktopk_steps.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "collectives/sparse/steps/regions.h"
#include "microbench/lockstep/lockstep.h"
#include "tests/ops/lists.h"
#include "tests/support/most_traffic.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

constexpr std::array k_sizes{1, 2, 3, 5, 6, 7, 4, 8, 12};
constexpr std::array k_policies{capacity_policy::strict, capacity_policy::defer};
constexpr std::array k_selections{selection_rule::exact, selection_rule::reused};

std::size_t wide(rank it) { return static_cast<std::size_t>(it); }

// --- inputs ----------------------------------------------------------------------------------------------------------

enum class shape { uniform, skewed, one_region, one_hot, ties, zeros, not_finite, alternating, one_rank, integers };
constexpr std::array k_shapes{shape::uniform, shape::skewed,     shape::one_region,  shape::one_hot,  shape::ties,
                              shape::zeros,   shape::not_finite, shape::alternating, shape::one_rank, shape::integers};

double drawn(shape of, std::size_t i, std::size_t count, rank self, round_no round, std::mt19937_64& draw) {
  const double normal = drawn_normal(draw);
  switch (of) {
    case shape::uniform: return normal;
    case shape::skewed: return normal / static_cast<double>(1 + i);
    case shape::one_region: return i < 1 + count / 50 ? 100 + normal : normal / 1000;
    case shape::one_hot: return i == count / 2 ? 1e4 : normal / 1000;
    case shape::ties: return static_cast<double>(draw() % 3) - 1;
    case shape::zeros: return self % 2 == 0 || round == 1 ? (i % 2 == 0 ? 0.0 : -0.0) : normal;
    case shape::not_finite:
      if (draw() % 50 == 0) return std::numeric_limits<double>::infinity() * (draw() % 2 == 0 ? 1 : -1);
      return draw() % 50 == 0 ? std::nan("") : normal;
    case shape::alternating: return (i < count / 2) == (round % 2 == 0) ? 10 + normal : normal / 10;
    case shape::one_rank: return self == 0 ? 100 + normal : i % 7 == 0 ? normal : 0;
    case shape::integers: return static_cast<double>(draw() % 2001) - 1000;
  }
  return 0;
}

std::vector<elements> gradients_of(shape of, const sparse_problem& problem, round_no round, std::uint64_t seed) {
  std::mt19937_64 draw(seed * 1000 + round);
  std::vector<elements> all(wide(problem.place.size), elements(problem.count));
  for (rank r = 0; r < problem.place.size; ++r)
    for (std::size_t i = 0; i < problem.count; ++i)
      all[wide(r)][i] = bits_of(problem.type, drawn(of, i, problem.count, r, round, draw));
  return all;
}

/// The memory of one vector for each rank.
class vectors {
 public:
  vectors(dtype type, const std::vector<elements>& from) {
    for (const elements& values : from) {
      memory_.emplace_back(values.size() * size_of(type) + 1);
      for (std::size_t i = 0; i < values.size(); ++i) write_element(memory_.back().data(), i, type, values[i]);
    }
    for (auto& it : memory_) {
      read_.push_back(it.data());
      written_.push_back(it.data());
    }
  }
  std::span<const void* const> read() const { return read_; }
  std::span<void* const> written() const { return written_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const void*> read_;
  std::vector<void*> written_;
};

list content_of(dtype type, item_list from) {
  list all(from.count, entry{0, 0});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::byte* const at = from.items + i * item_size(type);
    std::memcpy(&all[i].index, at, sizeof(std::uint32_t));
    std::memcpy(&all[i].value, at + sizeof(std::uint32_t), size_of(type));
  }
  return all;
}

elements residual_of_rank(lockstep& world, const sparse_problem& of, rank r) {
  elements all(of.count);
  const auto* const from = static_cast<const std::byte*>(world.state(r).residual());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = read_element(from, i, residual_of(of.type));
  return all;
}

// --- the definition --------------------------------------------------------------------------------------------------

/// Returns a + b, rounded to the residual's type.
std::uint64_t sum_of(dtype wide_type, std::uint64_t a, double b) {
  if (wide_type == dtype::f64) return bits_of(wide_type, value_of(wide_type, a) + b);
  return bits_of(wide_type, static_cast<double>(static_cast<float>(value_of(wide_type, a)) + static_cast<float>(b)));
}

class definition {
 public:
  explicit definition(const sparse_problem& of)
      : of_(of), residuals_(wide(of.place.size), elements(of.count)), sent_(wide(of.place.size)) {}

  void accumulate(const std::vector<elements>& gradients) {
    for (std::size_t r = 0; r < residuals_.size(); ++r)
      for (std::size_t i = 0; i < of_.count; ++i)
        residuals_[r][i] = accumulated(of_.type, residuals_[r][i], of_.scale, gradients[r][i]);
  }

  list selected(rank r) const {
    list all;
    for (std::size_t i = 0; i < of_.count; ++i) {
      const std::uint64_t value = rounded(of_.type, residuals_[wide(r)][i]);
      if (is_left_out(value)) continue;
      all.push_back({static_cast<std::uint32_t>(i), value});
    }
    if (looks()) return largest_of(of_.type, all, of_.k);
    return largest_of(of_.type, at_least(local_[wide(r)], all), 4 * of_.k);
  }

  /// Computes the lists that the ranks send if the regions have these boundaries.
  void send(round_no round, std::span<const std::uint64_t> boundaries) {
    for (rank r = 0; r < of_.place.size; ++r) {
      sent_[wide(r)] = selected(r);
      next_local_[wide(r)] = kth_of(sent_[wide(r)]);
      if (of_.capacity == capacity_policy::strict) continue;
      list sent;
      for (rank owner = 0; owner < of_.place.size; ++owner) {
        list own;
        for (const entry& it : sent_[wide(r)])
          if (it.index >= boundaries[wide(owner)] && it.index < boundaries[wide(owner) + 1]) own.push_back(it);
        own = largest_of(of_.type, own, capacity_at(of_, (owner - r + of_.place.size) % of_.place.size, round));
        sent.insert(sent.end(), own.begin(), own.end());
      }
      sent_[wide(r)] = sent;
    }
  }

  list sums() const {
    const dtype type = residual_of(of_.type);
    std::map<std::uint32_t, std::uint64_t> by_index;
    for (const list& sent : sent_)
      for (const entry& it : sent) {
        std::uint64_t& sum = by_index[it.index];
        sum = sum_of(type, sum, value_of(of_.type, it.value));
      }
    list all;
    for (const auto& [index, sum] : by_index)
      if (!is_left_out(rounded(of_.type, sum))) all.push_back({index, rounded(of_.type, sum)});
    return all;
  }

  list result() const { return looks() ? largest_of(of_.type, sums(), of_.k) : at_least(global_, sums()); }

  /// Updates residuals and thresholds after a round. Returns false if the result is refused.
  bool settle(const list& result) {
    if (looks()) {
      local_ = next_local_;
      global_ = kth_of(result);
    }
    ++settled_;
    if (of_.nans == nan_policy::error && !std::ranges::all_of(result, [&](auto& it) { return is_finite(it.value); })) {
      for (elements& residual : residuals_)
        for (std::uint64_t& it : residual)
          if (!is_finite(rounded(of_.type, it))) it = 0;
      settled_ = 0;  // the next round computes new thresholds
      return false;
    }
    std::vector<bool> has_arrived(of_.count);
    for (const entry& it : result) has_arrived[it.index] = true;
    for (std::size_t r = 0; r < sent_.size(); ++r)
      for (const entry& it : sent_[r])
        if (has_arrived[it.index]) residuals_[r][it.index] = rest_of(residuals_[r][it.index], it.value);
    return true;
  }

  const elements& residual(rank r) const { return residuals_[wide(r)]; }
  const list& sent(rank r) const { return sent_[wide(r)]; }

 private:
  bool is_finite(std::uint64_t value) const { return magnitude_of(of_.type, value) < infinity_of(of_.type); }
  bool looks() const { return of_.selection == selection_rule::exact || settled_ % of_.reuse == 0; }
  std::uint64_t kth_of(const list& largest) const {
    return largest.size() == std::min(of_.k, of_.count) ? least_magnitude_of(of_.type, largest) : 0;
  }
  list at_least(std::uint64_t threshold, list all) const {
    std::erase_if(all, [&](const entry& it) { return magnitude_of(of_.type, it.value) < threshold; });
    return all;
  }
  bool is_left_out(std::uint64_t value) const {
    return magnitude_of(of_.type, value) == 0 || (of_.nans == nan_policy::ignore && is_nan(of_.type, value));
  }
  std::uint64_t rest_of(std::uint64_t residual, std::uint64_t sent) const {
    if (size_of(of_.type) >= 4) return 0;
    const float rest =
        static_cast<float>(value_of(dtype::f32, residual)) - static_cast<float>(value_of(of_.type, sent));
    return std::isfinite(rest) ? bits_of(dtype::f32, static_cast<double>(rest)) : 0;
  }

  sparse_problem of_;
  std::vector<elements> residuals_;  ///< residual of each rank
  std::vector<list> sent_;           ///< list that each rank sends
  std::vector<std::uint64_t> local_ = std::vector<std::uint64_t>(residuals_.size()), next_local_ = local_;
  std::uint64_t global_ = 0, settled_ = 0;
};

elements update_of(const sparse_problem& of, const list& result) {
  elements update(of.count);
  for (const entry& it : result)
    update[it.index] = quotient(of.type, it.value, static_cast<std::uint64_t>(of.place.size));
  return update;
}

// --- rounds, compared with the definition ----------------------------------------------------------------------------

class compared_rounds {
 public:
  compared_rounds(const sparse_problem& of, shape gradients, std::uint64_t seed)
      : of_(of),
        shape_(gradients),
        seed_(seed),
        world_(of),
        expected_(of),
        updates_(of.type, std::vector<elements>(wide(of.place.size), elements(of.count, ~std::uint64_t{0}))) {}

  void run(round_no rounds) {
    for (round_no last = round_ + rounds; round_ < last && !::testing::Test::HasFatalFailure();) {
      exchange();
      settle();
    }
  }

  void exchange() {
    ++round_;
    const std::vector<elements> gradients = gradients_of(shape_, of_, round_, seed_);
    const auto wrong = world_.exchange(vectors(of_.type, gradients).read());
    ASSERT_FALSE(wrong) << wrong->text;
    expected_.accumulate(gradients);
    expected_.send(round_, world_.boundaries());
    for (rank r = 0; r < of_.place.size; ++r) {
      ASSERT_EQ(content_of(of_.type, world_.selected(r)), expected_.selected(r));
      ASSERT_EQ(content_of(of_.type, world_.sent(r)), expected_.sent(r));
      ASSERT_EQ(residual_of_rank(world_, of_, r), expected_.residual(r)) << "of rank " << r << ", before it is settled";
      ASSERT_LE(world_.selected(r).count, of_.selection == selection_rule::exact ? of_.k : 4 * of_.k);
      most_selected_ = std::max(most_selected_, world_.selected(r).count);
    }
    ASSERT_EQ(content_of(of_.type, world_.result()), expected_.result());
  }

  void settle() {
    world_.settle(round_ % 4 == 3 ? std::span<void* const>{} : updates_.written());
    const list result = content_of(of_.type, world_.result());
    const bool is_good = expected_.settle(result);
    for (rank r = 0; r < of_.place.size; ++r) {
      ASSERT_EQ(residual_of_rank(world_, of_, r), expected_.residual(r)) << "of rank " << r;
      if (round_ % 4 == 3) continue;
      const elements update = update_of(of_, is_good ? result : list{});
      const auto* const written = static_cast<const std::byte*>(updates_.read()[wide(r)]);
      for (std::size_t i = 0; i < of_.count; ++i) ASSERT_EQ(read_element(written, i, of_.type), update[i]) << i;
    }
  }

  lockstep& world() { return world_; }
  definition& expected() { return expected_; }
  /// Returns the maximum number of items that any rank has selected in any round.
  std::uint64_t most_selected() const { return most_selected_; }

 private:
  sparse_problem of_;
  shape shape_;
  std::uint64_t seed_;
  lockstep world_;
  definition expected_;
  vectors updates_;
  round_no round_ = 0;
  std::uint64_t most_selected_ = 0;
};

std::set<std::uint64_t> ks_for(std::uint64_t count) { return {0, 1, 3, count / 100, count / 10, count, count + 5}; }

std::string text_of(const sparse_problem& of) {
  std::ostringstream out;
  out << of.place.size << " ranks, " << of.count << " elements of " << name_of(of.type) << ", k = " << of.k
      << (of.capacity == capacity_policy::defer ? ", defer" : ", strict");
  if (of.selection == selection_rule::reused) out << ", thresholds of " << of.reuse << " rounds";
  return out.str();
}

void compare(const sparse_problem& of, shape gradients, std::uint64_t seed, round_no rounds) {
  SCOPED_TRACE(::testing::Message() << text_of(of) << ", shape " << static_cast<int>(gradients) << ", seed " << seed);
  compared_rounds(of, gradients, seed).run(rounds);
}

TEST(oktopk, is_the_definition_bit_for_bit) {
  std::uint64_t seed = 0;
  for (const rank size : k_sizes)
    for (const std::uint64_t count : {0u, 1u, 2u, 7u, 64u, 1000u, 5000u})
      for (const std::uint64_t k : ks_for(count))
        for (const capacity_policy policy : k_policies)
          for (std::size_t some = 0; some < (count > 1000 ? 1 : count > 100 ? 2 : 5); ++some) {
            ++seed;
            if (seed % testing::stride(3, 20) != 0) continue;
            const sparse_problem of{
                .count = count, .k = k, .place = {0, size}, .capacity = policy, .period = 2, .scale = 0.125};
            compare(of, k_shapes[seed % k_shapes.size()], seed, 4);
            if (HasFailure()) return;
          }
}

TEST(oktopk, is_the_definition_in_every_type) {
  std::uint64_t seed = 0;
  for (const dtype type : k_floats)
    for (const rank size : {1, 3, 6, 4})
      for (const std::uint64_t count : {0u, 1u, 7u, 300u})
        for (const std::uint64_t k : ks_for(count))
          for (const capacity_policy policy : k_policies)
            for (const nan_policy nans : {nan_policy::propagate, nan_policy::ignore, nan_policy::error}) {
              const sparse_problem of{.count = count,
                                      .k = k,
                                      .place = {0, size},
                                      .type = type,
                                      .capacity = policy,
                                      .period = 3,
                                      .nans = nans};
              const shape gradients = seed % 3 == 0 ? shape::not_finite : k_shapes[seed % k_shapes.size()];
              compare(of, gradients, ++seed, 4);
              if (HasFailure()) return;
            }
}

TEST(oktopk, is_the_definition_where_thresholds_are_reused) {
  std::uint64_t seed = 0;
  for (const rank size : k_sizes)
    for (const std::uint64_t count : {0u, 1u, 2u, 7u, 64u, 1000u})
      for (const std::uint64_t k : ks_for(count))
        for (const capacity_policy policy : k_policies)
          for (const std::uint32_t reuse : {1u, 2u, 5u}) {
            ++seed;
            if (seed % testing::stride(3, 20) != 0) continue;
            const sparse_problem of{.count = count,
                                    .k = k,
                                    .place = {0, size},
                                    .capacity = policy,
                                    .period = 3,
                                    .scale = 0.125,
                                    .nans = seed / k_shapes.size() % 2 == 0 ? nan_policy::propagate : nan_policy::error,
                                    .selection = selection_rule::reused,
                                    .reuse = reuse};
            compare(of, k_shapes[seed % k_shapes.size()], seed, 7);
            if (HasFailure()) return;
          }
}

TEST(oktopk, reuses_thresholds_in_every_type) {
  std::uint64_t seed = 0;
  for (const dtype type : k_floats)
    for (const rank size : {1, 3, 6, 4})
      for (const std::uint64_t count : {1u, 7u, 300u})
        for (const std::uint64_t k : ks_for(count))
          for (const shape gradients : {shape::not_finite, shape::uniform, shape::ties, shape::zeros, shape::skewed})
            for (const nan_policy nans : {nan_policy::propagate, nan_policy::ignore}) {
              const sparse_problem of{.count = count,
                                      .k = k,
                                      .place = {0, size},
                                      .type = type,
                                      .nans = nans,
                                      .selection = selection_rule::reused,
                                      .reuse = 3};
              compare(of, gradients, ++seed, 5);
              if (HasFailure()) return;
            }
}

/// Gradients grow tenfold in the second round. The number of items above the old threshold far exceeds the capacity of
/// a list, 4 k.
TEST(oktopk, sends_four_k_where_a_threshold_selects_more) {
  for (const dtype type : k_floats)
    for (const rank size : {1, 3, 5}) {
      const sparse_problem of{
          .count = 1000, .k = 20, .place = {0, size}, .type = type, .selection = selection_rule::reused, .reuse = 4};
      compared_rounds rounds(of, shape::alternating, 1);
      rounds.run(4);
      EXPECT_EQ(rounds.most_selected(), 80u) << name_of(type);
      EXPECT_GT(rounds.world().result().count, 20u) << name_of(type);
    }
}

TEST(oktopk, with_thresholds_of_one_round_is_exact) {
  for (const rank size : k_sizes)
    for (const shape gradients : {shape::uniform, shape::ties, shape::zeros, shape::skewed}) {
      sparse_problem of{.count = 1000, .k = 50, .place = {0, size}, .period = 2};
      compared_rounds exact(of, gradients, 7);
      exact.run(5);
      of.selection = selection_rule::reused, of.reuse = 1;
      compared_rounds reused(of, gradients, 7);
      reused.run(5);
      EXPECT_EQ(content_of(of.type, reused.world().result()), content_of(of.type, exact.world().result()));
      for (rank r = 0; r < size; ++r)
        EXPECT_EQ(residual_of_rank(reused.world(), of, r), residual_of_rank(exact.world(), of, r));
    }
}

TEST(oktopk, gives_the_same_bits_whatever_the_balance_and_the_boundaries) {
  for (const rank size : {3, 6, 8})
    for (const shape gradients : {shape::uniform, shape::one_region, shape::ties}) {
      std::vector<list> results;
      for (const balance_rule balance :
           {balance_rule::cost, balance_rule::published, balance_rule::always, balance_rule::never})
        for (const boundary_rule boundaries : {boundary_rule::pooled, boundary_rule::averaged}) {
          const sparse_problem of{
              .count = 1000, .k = 50, .place = {0, size}, .boundaries = boundaries, .period = 2, .balance = balance};
          compared_rounds rounds(of, gradients, 7);
          rounds.run(5);
          results.push_back(content_of(of.type, rounds.world().result()));
          EXPECT_EQ(results.back(), results.front());
        }
    }
}

// --- properties that do not need the definition ----------------------------------------------------------------------

TEST(oktopk, sums_everything_where_k_is_everything) {
  for (const rank size : k_sizes) {
    const sparse_problem of{.count = 500, .k = 500, .place = {0, size}};
    const std::vector<elements> gradients = gradients_of(shape::uniform, of, 1, 5);
    lockstep world(of);
    ASSERT_FALSE(world.run(vectors(of.type, gradients).read()));
    const list result = content_of(of.type, world.result());
    ASSERT_EQ(result.size(), of.count);
    for (std::size_t i = 0; i < of.count; ++i) {
      float sum = 0;
      for (const elements& of_rank : gradients) sum += std::bit_cast<float>(static_cast<std::uint32_t>(of_rank[i]));
      EXPECT_EQ(result[i], (entry{static_cast<std::uint32_t>(i), std::bit_cast<std::uint32_t>(sum)}));
    }
  }
}

TEST(oktopk, of_one_rank_is_its_top_k) {
  const sparse_problem of{.count = 100, .k = 3, .capacity = capacity_policy::defer};
  elements gradient(100);
  for (std::size_t i = 0; i < 100; ++i) gradient[i] = bits_of(of.type, i % 10 == 5 ? -2.0 - double(i) : 1.0);
  lockstep world(of);
  ASSERT_FALSE(world.run(vectors(of.type, {gradient}).read()));
  const list expected{{75, gradient[75]}, {85, gradient[85]}, {95, gradient[95]}};
  EXPECT_EQ(content_of(of.type, world.result()), expected);
  EXPECT_EQ(world.volume().payload.total, 0u);
}

/// Expects that results and residuals together add up to the sum of all gradients. The gradients are integers, so all
/// sums are exact.
void expect_conserved(rank size, capacity_policy policy, selection_rule selection) {
  for (const std::uint64_t k : {1u, 3u, 30u, 200u}) {
    const sparse_problem of{
        .count = 300, .k = k, .place = {0, size}, .capacity = policy, .period = 5, .selection = selection, .reuse = 4};
    lockstep world(of);
    std::vector<double> in(of.count), out(of.count);
    std::uint64_t settled = 0;
    for (round_no round = 1; round <= 25; ++round) {
      const std::vector<elements> gradients = gradients_of(shape::integers, of, round, k);
      for (const elements& of_rank : gradients)
        for (std::size_t i = 0; i < of.count; ++i) in[i] += value_of(of.type, of_rank[i]);
      ASSERT_FALSE(world.run(vectors(of.type, gradients).read()));
      for (const entry& it : content_of(of.type, world.result())) {
        out[it.index] += value_of(of.type, it.value);
        ++settled;
      }
      std::vector<double> left(of.count);
      for (rank r = 0; r < size; ++r) {
        const elements residual = residual_of_rank(world, of, r);
        for (std::size_t i = 0; i < of.count; ++i) left[i] += value_of(dtype::f32, residual[i]);
      }
      for (std::size_t i = 0; i < of.count; ++i)
        ASSERT_EQ(in[i], out[i] + left[i]) << size << " ranks, k = " << k << ", element " << i;
    }
    EXPECT_GT(settled, 10u);
  }
}

TEST(oktopk, loses_nothing_and_counts_nothing_twice) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 8})
    for (const capacity_policy policy : k_policies)
      for (const selection_rule selection : k_selections) expect_conserved(size, policy, selection);
}

TEST(oktopk, goes_on_after_rounds_that_were_given_up) {
  for (const auto& [policy, selection] : {std::pair(capacity_policy::strict, selection_rule::exact),
                                          std::pair(capacity_policy::defer, selection_rule::exact),
                                          std::pair(capacity_policy::strict, selection_rule::reused)})
    for (const rank size : {1, 3, 6}) {
      const sparse_problem of{.count = 400,
                              .k = 20,
                              .place = {0, size},
                              .capacity = policy,
                              .period = 2,
                              .selection = selection,
                              .reuse = 2};
      compared_rounds rounds(of, shape::alternating, 3);
      const auto regions = [&] {
        const auto now = rounds.world().boundaries();
        return std::vector<std::uint64_t>(now.begin(), now.end());
      };
      rounds.run(1);
      const std::vector<std::uint64_t> settled = regions();
      rounds.exchange();
      // The second exchange computes new boundaries. The test abandons both rounds.
      rounds.exchange();
      EXPECT_EQ(regions() == settled, size == 1) << "the boundaries must change, or the test proves nothing";
      rounds.exchange();
      const auto kept = rounds.world().state(0).boundaries();  // the next round begins with `kept`
      EXPECT_EQ(std::vector<std::uint64_t>(kept.begin(), kept.end()), settled);
      EXPECT_EQ(rounds.world().state(0).rounds(), 1u);
      rounds.run(3);
      EXPECT_EQ(rounds.world().state(0).rounds(), 4u);
    }
}

TEST(oktopk, goes_on_from_an_image) {
  sparse_problem of{.count = 400, .k = 20, .place = {0, 3}, .capacity = capacity_policy::defer, .period = 2};
  lockstep one(of);
  of.rounds_before = 3;
  lockstep other(of);
  for (round_no round = 1; round <= 3; ++round)
    ASSERT_FALSE(one.run(vectors(of.type, gradients_of(shape::skewed, of, round, 1)).read()));
  for (rank r = 0; r < 3; ++r) ASSERT_FALSE(other.state(r).load(one.state(r).save()));
  const auto gradients = gradients_of(shape::skewed, of, 4, 1);
  ASSERT_FALSE(one.run(vectors(of.type, gradients).read()));
  ASSERT_FALSE(other.run(vectors(of.type, gradients).read()));
  EXPECT_EQ(content_of(of.type, other.result()), content_of(of.type, one.result()));
  for (rank r = 0; r < 3; ++r) EXPECT_EQ(residual_of_rank(other, of, r), residual_of_rank(one, of, r));
}

/// The image of the state may be saved after any round, including rounds that reuse thresholds.
TEST(oktopk, goes_on_from_an_image_with_its_thresholds) {
  sparse_problem of{
      .count = 400, .k = 20, .place = {0, 3}, .period = 5, .selection = selection_rule::reused, .reuse = 4};
  for (round_no taken = 1; taken <= 8; ++taken) {
    of.rounds_before = 0;
    lockstep one(of);
    of.rounds_before = taken;
    lockstep other(of);
    for (round_no round = 1; round <= taken + 6; ++round) {
      const auto gradients = gradients_of(shape::alternating, of, round, 1);
      ASSERT_FALSE(one.run(vectors(of.type, gradients).read()));
      if (round > taken) {
        ASSERT_FALSE(other.run(vectors(of.type, gradients).read()));
        EXPECT_EQ(content_of(of.type, other.result()), content_of(of.type, one.result())) << taken << ", " << round;
        for (rank r = 0; r < 3; ++r) EXPECT_EQ(residual_of_rank(other, of, r), residual_of_rank(one, of, r));
      }
      for (rank r = 0; round == taken && r < 3; ++r) ASSERT_FALSE(other.state(r).load(one.state(r).save()));
    }
  }
}

/// The state of a world with exact selection has no thresholds. If a world that reuses thresholds loads the image of
/// such a state, its first round computes thresholds.
TEST(oktopk, looks_for_thresholds_that_an_image_has_not) {
  sparse_problem of{.count = 400, .k = 20, .place = {0, 3}};
  lockstep exact(of);
  of.selection = selection_rule::reused, of.reuse = 3;
  lockstep reused(of), again(of);
  const auto run = [&](lockstep& world, round_no round) {
    ASSERT_FALSE(world.run(vectors(of.type, gradients_of(shape::uniform, of, round, 1)).read()));
  };
  const auto hand_on = [](lockstep& from, lockstep& to) {
    for (rank r = 0; r < 3; ++r) ASSERT_FALSE(to.state(r).load(from.state(r).save()));
  };
  run(reused, 1);
  EXPECT_EQ(reused.state(0).thresholds().left, 2u);
  hand_on(reused, exact);
  run(exact, 2);
  EXPECT_EQ(exact.state(0).thresholds(), reused_thresholds{});
  hand_on(exact, again);
  run(again, 3);
  EXPECT_EQ(again.result().count, 20u);
  EXPECT_EQ(again.state(0).thresholds().left, 2u);
}

// --- volume ----------------------------------------------------------------------------------------------------------

constexpr std::array k_adverse{shape::uniform, shape::skewed,      shape::one_region, shape::one_hot,
                               shape::ties,    shape::alternating, shape::one_rank};

void run_counted(lockstep& world, const sparse_problem& of, shape gradients, round_no rounds,
                 const std::function<void(const round_volume&)>& check) {
  for (round_no round = 1; round <= rounds; ++round) {
    ASSERT_FALSE(world.run(vectors(of.type, gradients_of(gradients, of, round, 9)).read()));
    check(world.volume());
  }
}

TEST(oktopk_volume, is_within_the_bound_for_every_input_if_items_are_deferred) {
  for (const rank size : {2, 3, 5, 6, 7, 4, 8, 12, 16, 33})
    for (const std::uint64_t k : {0u, 1u, 2u, 5u, 12u, 33u, 60u, 99u, 128u, 200u, 400u})
      for (const shape gradients : k_adverse) {
        const sparse_problem of{
            .count = 800, .k = k, .place = {0, size}, .capacity = capacity_policy::defer, .period = 3};
        const auto p = static_cast<std::uint64_t>(size), levels = static_cast<std::uint64_t>(std::bit_width(p - 1));
        const bool is_published = k % p == 0 || k * (p - 2) >= 2 * p * levels;
        lockstep world(of);
        run_counted(world, of, gradients, 4, [&](const round_volume& it) {
          SCOPED_TRACE(::testing::Message()
                       << size << " ranks, k = " << k << ", shape " << static_cast<int>(gradients));
          EXPECT_LE(it.split.most_sent, std::max<std::uint64_t>(k * (p - 1) / p, k == 1));
          EXPECT_LE(it.split.most_received, std::max<std::uint64_t>(k * (p - 1) / p, k == 1));
          EXPECT_LE(it.payload.most_sent, most_traffic(of));
          EXPECT_LE(it.payload.most_received, most_traffic(of));
          if (is_published) {
            EXPECT_LE(std::max(it.payload.most_sent, it.payload.most_received), 3 * k * (p - 1) / p);
            EXPECT_EQ(it.over_bound, 0);
          }
        });
        if (HasFailure()) return;
      }
}

/// All ranks select the same element, so the owner of this element receives an item from every rank. No choice of
/// regions can avoid this traffic.
TEST(oktopk_volume, is_beyond_the_bound_for_bad_inputs_if_they_are_not) {
  for (const rank size : {8, 12, 33}) {
    const sparse_problem of{.count = 800, .k = 2, .place = {0, size}, .period = 2};
    lockstep world(of);
    rank over = 0;
    run_counted(world, of, shape::one_hot, 4, [&](const round_volume& it) { over += it.over_bound; });
    EXPECT_GT(over, 0) << size << " ranks";
  }
}

/// All ranks select all elements, and all regions have the same size. Therefore the expected traffic is known exactly.
TEST(oktopk_volume, counts_what_messages_would_carry) {
  const sparse_problem of{.count = 40, .k = 40, .place = {0, 5}};
  lockstep world(of);
  ASSERT_FALSE(world.run(vectors(of.type, gradients_of(shape::uniform, of, 1, 1)).read()));
  const round_volume& it = world.volume();
  EXPECT_TRUE(it.looks);
  EXPECT_EQ(it.kept, 40u);
  EXPECT_EQ(it.split.most_sent, 32u);
  EXPECT_EQ(it.split.most_received, 32u);
  EXPECT_EQ(it.balance.total, 0u);
  EXPECT_EQ(it.gather.most_sent, 32u);
  EXPECT_EQ(it.gather.total, 160u);
  EXPECT_EQ(it.payload.most_sent, 64u);
  EXPECT_EQ(it.over_bound, 0);
  EXPECT_EQ(world.payload_of(3).sent, 64u);
}

/// With reused thresholds, a round that computes a threshold gathers all items of the sums, and the result has only
/// some of these items. The traffic includes all gathered items.
TEST(oktopk_volume, shows_what_published_thresholds_cost) {
  const sparse_problem of{.count = 4000, .k = 40, .place = {0, 8}, .selection = selection_rule::reused, .reuse = 4};
  lockstep world(of);
  std::vector<std::uint64_t> over(9);
  for (round_no round = 1; round <= 8; ++round) {
    ASSERT_FALSE(world.run(vectors(of.type, gradients_of(shape::uniform, of, round, 1)).read()));
    over[round] = static_cast<std::uint64_t>(world.volume().over_bound);
    const bool looks = round % 4 == 1;
    EXPECT_EQ(world.volume().kept > world.result().count, looks) << round;
    EXPECT_TRUE(!looks || world.result().count == 40) << round;
  }
  EXPECT_EQ(over[1], 8u);
  EXPECT_EQ(over[5], 8u);
}

}  // namespace
}  // namespace lsched
