// Published implementations of sparse allreduces have rules that lose, repeat or misplace gradients. This file replays
// each such rule in plain arithmetic. An invariant of docs/inside/sparse_audit.md must detect each rule. That page
// lists the invariants (I2 and so on), the rules, and the implementations (V, L and B).
//
// A replay is a sparse allreduce as the paper defines it, but with one rule replaced. Gradients are f32 numbers with
// integer values, so all sums are exact, and a gradient that is lost changes the sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "microbench/lockstep/gradient_source.h"

namespace lsched {
namespace {

enum class published_rule {
  none,              ///< the algorithm of the paper, without a replaced rule
  above_kth,         ///< selects |v| > the k-th magnitude, instead of k elements (V, L, B)
  threshold_reused,  ///< selects by the k-th magnitude of round 1 in all rounds (the paper's text)
  nan_threshold,     ///< uses a k-th magnitude that may be NaN, which no value exceeds (V, L, B)
  float_indices,     ///< sends indices as f32 (V, L)
  owner_first,       ///< the owner of a region adds its own values first, then r-1, r-2, … (V, L, B)
  unsorted_search,   ///< searches sent indices by bisection in a list that is sorted by magnitude (L, B)
  all_k_zeroed,      ///< TopkDSA: clears k elements of the residual, but sends only elements above the k-th (V, L, B)
  tree_leak,         ///< gTopk: treats an item as arrived if the result has its index, even if the item's value was
                     ///< dropped
  rate_outside,      ///< applies the learning rate to the result instead of to the gradient (V, L, B)
};

struct audit_options {
  published_rule rule = published_rule::none;
  std::size_t ranks = 8;
  std::size_t count = 2000;
  std::size_t k = 50;
  bool has_integers = true;
  gradient_kind kind = gradient_kind::layered;
};

using vector = std::vector<float>;
using sparse_vector = std::map<std::uint32_t, float>;

/// The values of a round that the invariants check, in units of the update.
struct audited_round {
  std::vector<std::vector<double>> before;  ///< residual + rate * gradient of each rank
  std::vector<std::vector<double>> after;   ///< residual of each rank after the round
  std::vector<sparse_vector> sent;
  sparse_vector result;
  double rate = 1;
};

// ---- invariants: each function returns 0 if its invariant holds

/// I2: returns the number of result items that differ from the sum of the sent values in rank order.
double wrong_bits(const audited_round& round) {
  double wrong = 0;
  for (const auto& [index, value] : round.result) {
    float sum = 0;
    for (const sparse_vector& from : round.sent)
      if (from.contains(index)) sum += from.at(index);
    wrong += sum != value;
  }
  return wrong;
}

/// I3: returns the total magnitude that is lost (in neither result nor residuals) or repeated (in both).
double lost_or_repeated(const audited_round& round) {
  double sum = 0;
  for (std::size_t i = 0; i < round.before.front().size(); ++i) {
    double missing = 0;
    for (const auto& it : round.before) missing += it[i];
    for (const auto& it : round.after) missing -= it[i];
    const auto at = round.result.find(static_cast<std::uint32_t>(i));
    if (at != round.result.end()) missing -= round.rate * static_cast<double>(at->second);
    sum += std::fabs(missing);
  }
  return sum;
}

/// I4, for a single rank: returns the number of the k largest elements that are not in the result. NaN counts as larger
/// than all other values.
double not_the_largest(const audited_round& round, std::size_t k) {
  const auto& all = round.before.front();
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto magnitude = [&](std::size_t i) {
    return std::isnan(all[i]) ? std::numeric_limits<double>::infinity() : std::fabs(all[i]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return magnitude(a) > magnitude(b); });
  order.resize(std::min(k, order.size()));
  std::erase_if(order, [&](std::size_t i) { return all[i] == 0; });
  return static_cast<double>(std::count_if(order.begin(), order.end(), [&](std::size_t i) {
    return !round.result.contains(static_cast<std::uint32_t>(i));
  }));
}

/// I5: returns by how many items the longest list exceeds k.
double beyond_k(const audited_round& round, std::size_t k) {
  std::size_t most = 0;
  for (const sparse_vector& it : round.sent) most = std::max(most, it.size());
  return most > k ? static_cast<double>(most - k) : 0;
}

double magnitude_sent(const audited_round& round) {
  double sum = 0;
  for (const sparse_vector& from : round.sent)
    for (const auto& [index, value] : from) sum += std::fabs(static_cast<double>(value));
  return sum * round.rate;
}

// ---- the replay

/// Returns the indices ordered by descending magnitude, and by index if magnitudes are equal. NaN values come first,
/// and zeros are omitted.
std::vector<std::uint32_t> by_magnitude(const sparse_vector& of) {
  std::vector<std::uint32_t> order;
  for (const auto& [index, value] : of)
    if (value != 0) order.push_back(index);
  const auto magnitude = [&](std::uint32_t index) {
    return std::isnan(of.at(index)) ? std::numeric_limits<float>::infinity() : std::fabs(of.at(index));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return magnitude(a) > magnitude(b); });
  return order;
}

sparse_vector largest_of(const sparse_vector& of, std::size_t k) {
  sparse_vector kept;
  for (const std::uint32_t index : by_magnitude(of)) {
    if (kept.size() == k) break;
    kept[index] = of.at(index);
  }
  return kept;
}

/// Searches for ascending keys in `sorted` by bisection, like numpy.searchsorted. In the replayed mistake `sorted` is
/// not sorted by index. Each bisection begins where the previous bisection ended.
std::vector<std::uint32_t> found_by_bisection(const sparse_vector& keys, const std::vector<std::uint32_t>& sorted) {
  std::vector<std::uint32_t> found;
  std::size_t low = 0;
  for (const auto& [key, value] : keys) {
    std::size_t high = sorted.size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (sorted[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (sorted[low == sorted.size() ? 0 : low] == key) found.push_back(key);
  }
  return found;
}

class replay {
 public:
  explicit replay(const audit_options& options)
      : options_(options),
        source_({.kind = options.kind,
                 .count = options.count,
                 .ranks = static_cast<rank>(options.ranks),
                 .has_integers = options.has_integers}),
        residuals_(options.ranks, vector(options.count, 0)) {}

  /// Runs the next round. The learning rate must be a power of two.
  audited_round run(float rate = 1) {
    ++round_;
    audited_round now{.rate = is(published_rule::rate_outside) ? static_cast<double>(rate) : 1};
    for (std::size_t r = 0; r < options_.ranks; ++r) accumulate(r, rate, now);
    for (std::size_t r = 0; r < options_.ranks; ++r) now.sent.push_back(select(r));
    now.result = is(published_rule::tree_leak) ? tree_sum(now.sent, 0, options_.ranks) : sum(now.sent);
    if (!is(published_rule::all_k_zeroed)) now.result = largest_of(now.result, options_.k);
    for (std::size_t r = 0; r < options_.ranks; ++r) clear(r, now);
    for (const vector& it : residuals_) {
      now.after.emplace_back(it.begin(), it.end());
      for (double& value : now.after.back()) value *= now.rate;
    }
    last_rate_ = rate;
    return now;
  }

  /// Sets an element of one rank's residual to NaN, with effect from the next round on.
  void poison(std::size_t r, std::size_t element) { residuals_[r][element] = std::numeric_limits<float>::quiet_NaN(); }

 private:
  bool is(published_rule rule) const { return options_.rule == rule; }

  void accumulate(std::size_t r, float rate, audited_round& now) {
    const bool is_outside = is(published_rule::rate_outside);
    vector gradient(options_.count);
    source_.draw(static_cast<rank>(r), round_, gradient);
    now.before.emplace_back();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double held = static_cast<double>(residuals_[r][i]) * static_cast<double>(is_outside ? last_rate_ : 1);
      now.before.back().push_back(held + static_cast<double>(rate * gradient[i]));
      residuals_[r][i] += is_outside ? gradient[i] : rate * gradient[i];
    }
  }

  sparse_vector all_of(std::size_t r) const {
    sparse_vector all;
    for (std::size_t i = 0; i < options_.count; ++i) all[static_cast<std::uint32_t>(i)] = residuals_[r][i];
    return all;
  }

  sparse_vector select(std::size_t r) {
    sparse_vector all = all_of(r);
    const sparse_vector k_largest = largest_of(all, options_.k);
    if (k_largest.empty()) return {};
    float kth = std::numeric_limits<float>::infinity();
    for (const auto& [index, value] : k_largest)
      if (!(std::fabs(value) >= kth)) kth = std::fabs(value);
    if (is(published_rule::threshold_reused)) {
      if (round_ == 1) first_thresholds_.push_back(kth);
      std::erase_if(all, [&](const auto& it) { return std::fabs(it.second) < first_thresholds_[r]; });
      return all;
    }
    const bool is_above_kth = is(published_rule::above_kth) || is(published_rule::all_k_zeroed);
    if (!is_above_kth && !is(published_rule::nan_threshold)) return k_largest;
    if (is(published_rule::nan_threshold) && !has_k_nan(k_largest)) return k_largest;
    std::erase_if(all, [&](const auto& it) { return !(std::fabs(it.second) > kth); });
    return all;
  }

  bool has_k_nan(const sparse_vector& largest) const {
    return std::all_of(largest.begin(), largest.end(), [](const auto& it) { return std::isnan(it.second); });
  }

  /// Returns an index as the receiver gets it. The replay adds 2^24 before the conversion, because f32 cannot represent
  /// odd numbers above 2^24.
  std::uint32_t received(std::uint32_t index) const {
    constexpr std::uint32_t behind = 1U << 24;
    return is(published_rule::float_indices) ? static_cast<std::uint32_t>(static_cast<float>(behind + index)) - behind
                                             : index;
  }

  sparse_vector sum(const std::vector<sparse_vector>& lists) const {
    sparse_vector sums;
    for (std::size_t owner = 0; owner < options_.ranks; ++owner)
      for (std::size_t turn = 0; turn < options_.ranks; ++turn) {
        const std::size_t from =
            is(published_rule::owner_first) ? (owner + options_.ranks - turn) % options_.ranks : turn;
        for (const auto& [index, value] : lists[from])
          if (index * options_.ranks / options_.count == owner && received(index) < options_.count)
            sums[received(index)] += value;
      }
    std::erase_if(sums, [](const auto& it) { return it.second == 0; });
    return sums;
  }

  /// Sums the lists with indices from `begin` to `end` - 1 along a tree. The function sums each half recursively. It
  /// returns the k largest items of the sum of both halves.
  sparse_vector tree_sum(const std::vector<sparse_vector>& lists, std::size_t begin, std::size_t end) const {
    if (end - begin == 1) return lists[begin];
    sparse_vector sums = tree_sum(lists, begin, begin + (end - begin + 1) / 2);
    for (const auto& [index, value] : tree_sum(lists, begin + (end - begin + 1) / 2, end)) sums[index] += value;
    return largest_of(sums, options_.k);
  }

  void clear(std::size_t r, const audited_round& now) {
    std::vector<std::uint32_t> gone;
    if (is(published_rule::unsorted_search)) {
      gone = found_by_bisection(now.sent[r], by_magnitude(now.result));
    } else if (is(published_rule::all_k_zeroed)) {
      for (const auto& [index, value] : largest_of(all_of(r), options_.k)) gone.push_back(index);
    } else {
      for (const auto& [index, value] : now.sent[r])
        if (now.result.contains(index)) gone.push_back(index);
    }
    for (const std::uint32_t index : gone) residuals_[r][index] = 0;
  }

  audit_options options_;
  gradient_source source_;
  std::vector<vector> residuals_;
  round_no round_ = 0;
  float last_rate_ = 1;
  std::vector<float> first_thresholds_;  ///< thresholds of all ranks in the first round
};

/// An amount relative to the magnitude that was sent, as a mean over rounds. record() writes the mean to the XML and
/// JSON output of the test.
class share_of_sent {
 public:
  void add(double amount, const audited_round& round) { sum_ += amount / magnitude_sent(round), ++rounds_; }
  double mean() const { return sum_ / rounds_; }
  void record() const { ::testing::Test::RecordProperty("percent_of_sent", std::to_string(100 * mean())); }

 private:
  double sum_ = 0;
  double rounds_ = 0;
};

constexpr std::size_t k_rounds = 8;

/// Runs rounds, and returns the magnitude that is lost, relative to the magnitude that is sent. Expects a loss in every
/// round.
share_of_sent lost_by(const audit_options& options) {
  share_of_sent lost;
  replay world(options);
  for (std::size_t round = 1; round <= k_rounds; ++round) {
    const audited_round now = world.run();
    const double amount = lost_or_repeated(now);
    EXPECT_GT(amount, 0) << "round " << round;
    lost.add(amount, now);
  }
  lost.record();
  return lost;
}

// ---- all invariants hold for the paper's algorithm

TEST(SparseAudit, finds_nothing_in_the_paper) {
  for (const std::size_t ranks : {1U, 2U, 3U, 5U, 6U, 7U, 4U, 8U})
    for (const gradient_kind kind : k_all_gradient_kinds) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::string(name_of(kind)));
      const audit_options options{.ranks = ranks, .count = 1000, .k = 30, .kind = kind};
      replay world(options);
      for (std::size_t round = 1; round <= k_rounds; ++round) {
        const audited_round now = world.run(round % 2 == 0 ? 1.0F : 0.5F);
        ASSERT_EQ(wrong_bits(now), 0);
        ASSERT_EQ(lost_or_repeated(now), 0);
        ASSERT_EQ(beyond_k(now, options.k), 0);
        if (ranks == 1) {
          ASSERT_EQ(not_the_largest(now, options.k), 0);
        }
      }
    }
}

// ---- one rule in each test

TEST(SparseAudit, I4_sees_the_kth_value_dropped) {
  for (const gradient_kind kind : {gradient_kind::layered, gradient_kind::ties}) {
    const audit_options options{.rule = published_rule::above_kth, .ranks = 1, .kind = kind};
    const audited_round now = replay(options).run();
    EXPECT_EQ(lost_or_repeated(now), 0);  // the value stays in the residual
    const double dropped = not_the_largest(now, options.k);
    EXPECT_EQ(dropped, kind == gradient_kind::ties ? options.k : 1);
    RecordProperty(std::string("items_") + std::string(name_of(kind)), static_cast<int>(dropped));
  }
  const audited_round single = replay({.rule = published_rule::above_kth, .ranks = 1, .k = 1}).run();
  EXPECT_TRUE(single.sent[0].empty());
}

TEST(SparseAudit, I5_sees_a_threshold_reused) {
  const audit_options options{.rule = published_rule::threshold_reused};
  replay world(options);
  double most = 0;
  for (std::size_t round = 1; round <= k_rounds; ++round) {
    const double beyond = beyond_k(world.run(), options.k);
    EXPECT_EQ(beyond > 0, round > 1) << round;
    most = std::max(most, beyond);
  }
  RecordProperty("percent_beyond_k", std::to_string(100 * most / static_cast<double>(options.k)));
}

TEST(SparseAudit, I4_sees_a_threshold_that_is_not_a_number) {
  const audit_options options{.rule = published_rule::nan_threshold, .ranks = 1, .count = 100, .k = 2};
  replay world(options);
  EXPECT_EQ(not_the_largest(world.run(), options.k), 0);
  world.poison(0, 3);
  world.poison(0, 17);
  for (std::size_t round = 2; round <= k_rounds; ++round) {
    const audited_round now = world.run();
    EXPECT_EQ(not_the_largest(now, options.k), 2) << "the rank never sends again: round " << round;
    EXPECT_TRUE(now.sent[0].empty());
  }
}

TEST(SparseAudit, I3_sees_indices_as_floats) {
  EXPECT_GT(lost_by({.rule = published_rule::float_indices}).mean(), 0.1);
}

TEST(SparseAudit, I2_sees_the_owner_add_its_own_first) {
  const audit_options options{.rule = published_rule::owner_first, .has_integers = false};
  replay world(options);
  double wrong = 0, items = 0;
  for (std::size_t round = 1; round <= k_rounds; ++round) {
    const audited_round now = world.run();
    EXPECT_GT(wrong_bits(now), 0) << round;
    wrong += wrong_bits(now), items += static_cast<double>(now.result.size());
  }
  RecordProperty("percent_of_items", std::to_string(100 * wrong / items));
}

TEST(SparseAudit, I3_sees_bisection_in_a_list_by_magnitude) {
  EXPECT_GT(lost_by({.rule = published_rule::unsorted_search}).mean(), 0.1);
}

TEST(SparseAudit, I3_sees_k_elements_cleared_and_fewer_sent) {
  EXPECT_GT(lost_by({.rule = published_rule::all_k_zeroed}).mean(), 0.001);
  const audited_round tied = replay({.rule = published_rule::all_k_zeroed, .kind = gradient_kind::ties}).run();
  EXPECT_EQ(magnitude_sent(tied), 0);
  EXPECT_GT(lost_or_repeated(tied), 0) << "k elements of each rank are lost";
}

TEST(SparseAudit, I3_sees_the_leak_of_the_tree) {
  EXPECT_GT(lost_by({.rule = published_rule::tree_leak}).mean(), 0.001);
}

TEST(SparseAudit, I3_sees_the_learning_rate_outside_of_the_residual) {
  replay world({.rule = published_rule::rate_outside});
  share_of_sent lost;
  for (std::size_t round = 1; round <= k_rounds; ++round) {
    const bool changes = round == 5;
    const audited_round now = world.run(round < 5 ? 1.0F : 0.5F);
    EXPECT_EQ(lost_or_repeated(now) > 0, changes) << round;
    if (changes) lost.add(lost_or_repeated(now), now);
  }
  lost.record();
}

// ---- sums of positions in 32 bits

/// Returns boundaries that are the averages of all ranks' quantiles. The quantiles are summed in the type Sum. The
/// items of each rank are evenly spread.
template <class Sum>
std::vector<std::int64_t> boundaries(std::uint64_t count, std::uint64_t ranks) {
  std::vector<std::int64_t> made;
  for (std::uint64_t i = 1; i < ranks; ++i) {
    Sum sum = 0;
    for (std::uint64_t r = 0; r < ranks; ++r)  // overflows wrap around, as in the audited code
      sum = static_cast<Sum>(static_cast<std::uint64_t>(sum) + count * i / ranks + r);
    made.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(sum) / static_cast<double>(ranks))));
  }
  return made;
}

/// Returns the maximum number of words that the owner of a region receives if each rank sends k evenly spread items to
/// the owners. The owner of an item is the first rank whose region ends after the item.
double words_received(const std::vector<std::int64_t>& boundaries, std::uint64_t count, std::uint64_t k) {
  std::vector<double> words(boundaries.size() + 1);
  for (std::uint64_t i = 0; i < k; ++i) {
    const auto index = static_cast<std::int64_t>(count * i / k);
    const auto end = std::find_if(boundaries.begin(), boundaries.end(), [&](std::int64_t it) { return index < it; });
    words[static_cast<std::size_t>(end - boundaries.begin())] += 2 * static_cast<double>(boundaries.size());
  }
  return *std::max_element(words.begin(), words.end());
}

TEST(SparseAudit, I7_sees_positions_added_in_32_bits) {
  constexpr std::uint64_t count = 27600000, k = 100000;  // size of the LSTM in the paper
  for (const std::uint64_t ranks : {77U, 78U, 100U, 128U, 256U}) {
    const double bound = 6.0 * k * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    EXPECT_LE(words_received(boundaries<std::int64_t>(count, ranks), count, k), bound) << ranks;
    const double words = words_received(boundaries<std::int32_t>(count, ranks), count, k);
    const bool wraps = (ranks - 1) * count >= std::uint64_t{1} << 31;
    EXPECT_EQ(words > bound, wraps) << ranks;
    RecordProperty("times_k_on_" + std::to_string(ranks), std::to_string(words / k));
  }
}

}  // namespace
}  // namespace lsched
