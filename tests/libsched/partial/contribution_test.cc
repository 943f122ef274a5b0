// Tests of the buffers that an application thread and the engine's thread hand over to each other. The two threads
// race. The values are integers, so that rounding cannot hide a lost value. The sum of all offers must be the sum of
// all captured and pending values. The sum of all published results must be the sum of all collected results.
#include "libsched/partial/contribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/sampling.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_count = 8;
using values = std::array<std::uint64_t, k_count>;

std::uint64_t exchanges() { return testing::sampled() ? 100'000 : 1'000'000; }

combiner adds() {
  return {find_reduce(kernel::sum, dtype::u64), k_count, sizeof(values), {}, find_multiply(dtype::u64)};
}

/// Every round doubles a late contribution, up to 5 rounds. With u64, factors above 1 keep the arithmetic exact.
combiner ages() {
  combiner how = adds();
  how.age.factors = {1, 2, 4, 8, 16, 32};
  how.scale = [](const void* from, std::size_t count, double factor, void* to) {
    find_multiply(dtype::u64)(from, to, count, static_cast<std::uint64_t>(factor));
  };
  return how;
}

std::byte* bytes_of(values& from) { return reinterpret_cast<std::byte*>(from.data()); }

/// Returns a gradient whose elements all differ, so that tests detect swapped buffers and mixtures of gradients.
values gradient_of(std::uint64_t number) {
  values made;
  for (std::uint64_t i = 0; i < k_count; ++i) made[i] = number * (i + 1) + i;
  return made;
}

void add(values& sum, const values& more, std::uint64_t weight = 1) {
  for (std::size_t i = 0; i < k_count; ++i) sum[i] += weight * more[i];
}

values values_at(const std::byte* from) {
  values read;
  std::memcpy(&read, from, sizeof read);
  return read;
}

struct contribution_bench {
  explicit contribution_bench(combiner how = adds()) : place(std::move(how), places(), bytes_of(aged)) {}
  std::array<std::byte*, contribution::k_buffers> places() {
    std::array<std::byte*, contribution::k_buffers> all;
    std::ranges::transform(memory, all.begin(), bytes_of);
    return all;
  }
  values memory[contribution::k_buffers]{}, aged{};
  contribution place;
};

struct delivery_bench {
  explicit delivery_bench(lag_policy lag, std::uint32_t results = 1)
      : memory(lag_rule(lag, results).buffers()), place(adds(), {lag, results}, places()) {}
  std::vector<std::byte*> places() {
    std::vector<std::byte*> all;
    for (values& one : memory) all.push_back(bytes_of(one));
    return all;
  }
  void publish(round_no round, const values& result, bool null = false) {
    const std::uint64_t one = null ? 0 : 1;
    if (!null) std::memcpy(place.writing(), &result, sizeof result);
    place.publish(place.writing(), {.from = round - 1,
                                    .to = round,
                                    .contributors = one,
                                    .offers = one,
                                    .mine = one,
                                    .staleness = round % 5,
                                    .null = null});
  }
  std::vector<values> memory;
  delivery place;
};

// --- contribution, one thread -------------------------------------------------------------------------------------

TEST(contribution, offers_merge_until_they_are_captured) {
  contribution_bench it;
  EXPECT_FALSE(it.place.capture().buffer.has_value());
  for (std::uint64_t n : {1u, 2u, 3u}) {
    values gradient = gradient_of(n);
    it.place.offer(bytes_of(gradient));
    gradient.fill(0);  // the caller may reuse its memory after the offer
  }
  const auto captured = it.place.capture().buffer;
  ASSERT_TRUE(captured.has_value());
  values expected{};
  for (std::uint64_t n : {1u, 2u, 3u}) add(expected, gradient_of(n));
  EXPECT_EQ(values_at(it.place.at(*captured).data), expected);
  EXPECT_EQ(it.place.at(*captured).offers, 3u);
  EXPECT_FALSE(it.place.capture().buffer.has_value());
}

TEST(contribution, an_offer_during_a_round_leaves_the_captured_buffer_alone) {
  contribution_bench it;
  values first = gradient_of(1);
  values second = gradient_of(2);
  it.place.offer(bytes_of(first));
  const auto captured = it.place.capture().buffer;
  it.place.offer(bytes_of(second));
  it.place.offer(bytes_of(second));
  ASSERT_TRUE(captured.has_value());
  EXPECT_EQ(values_at(it.place.at(*captured).data), gradient_of(1));
  it.place.done(*captured);
  const auto next = it.place.capture().buffer;
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(it.place.at(*next).offers, 2u);
}

/// An offer, a commit of prepared parts and an image each have a weight, alone and merged with pending offers.
TEST(contribution, weights_multiply_gradients_and_are_counted) {
  contribution_bench it;
  values one = gradient_of(1), two = gradient_of(2), three = gradient_of(3), image{};
  for (int again = 0; again < 5; ++again) {  // a repetition fails if a buffer was lost
    const bool begins_with_commit = again % 2 == 0;
    if (!begins_with_commit) it.place.offer(bytes_of(one), 1, 7);
    it.place.prepare(0, {bytes_of(two), k_count});
    it.place.commit(2, 5);
    if (begins_with_commit) it.place.offer(bytes_of(one), 3, 7);
    it.place.prepare(0, {bytes_of(two), k_count});
    it.place.commit(3, 0);
    EXPECT_EQ(it.place.save(bytes_of(image)), 12u);
    it.place.load(bytes_of(image), 12, 4);
    it.place.offer(bytes_of(three), 4);
    values expected{};
    add(expected, one, 14), add(expected, two, 10), add(expected, three);
    const auto captured = it.place.capture().buffer;
    ASSERT_TRUE(captured.has_value());
    EXPECT_EQ(values_at(it.place.at(*captured).data), expected);
    EXPECT_EQ(it.place.at(*captured).offers, 25u);
    it.place.offer(bytes_of(two), 5, 3);
    it.place.give_back(*captured);
    add(expected, two, 3);
    const auto next = it.place.capture().buffer;
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(values_at(it.place.at(*next).data), expected);
    EXPECT_EQ(it.place.at(*next).offers, 28u);
    it.place.done(*next);
  }
  it.place.offer(bytes_of(one), 1, UINT64_MAX);
  it.place.offer(bytes_of(two), 1, 2);
  EXPECT_EQ(it.place.withdraw(), UINT64_MAX);
}

TEST(contribution, ages_multiply_late_gradients_once) {
  contribution_bench it(ages());
  values one = gradient_of(1), two = gradient_of(2), three = gradient_of(3), expected{};
  it.place.offer(bytes_of(one), 3);
  const auto first = it.place.capture().buffer;
  ASSERT_TRUE(first.has_value());
  for (const round_no in_time : {2u, 3u}) {
    EXPECT_EQ(it.place.factor_of(*first, in_time), 1);
    EXPECT_EQ(it.place.data_for(*first, in_time), it.place.at(*first).data) << "copied without need";
  }
  add(expected, one, 4);
  EXPECT_EQ(values_at(it.place.data_for(*first, 5)), expected);
  EXPECT_EQ(values_at(it.place.at(*first).data), one) << "the original was changed";
  it.place.offer(bytes_of(two), 5, 3);
  it.place.give_back(*first);  // the round has failed, so its factor does not count
  add(expected, two, 3);
  EXPECT_EQ(it.place.withdraw(), 4u);
  it.place.offer(bytes_of(one), 3);
  it.place.offer(bytes_of(two), 5, 3);
  it.place.prepare(0, {bytes_of(three), k_count});
  it.place.commit(6, 5);
  values merged{}, late{};
  add(merged, expected, 2), add(merged, three, 5), add(late, merged, 32);
  const auto second = it.place.capture().buffer;
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(it.place.at(*second).offers, 9u) << "an age changes no weight";
  EXPECT_EQ(it.place.at(*second).since, 3u);
  EXPECT_EQ(values_at(it.place.data_for(*second, 6)), merged);
  EXPECT_EQ(it.place.factor_of(*second, 99), 32);
  EXPECT_EQ(values_at(it.place.data_for(*second, 99)), late);
  it.place.offer(bytes_of(one), 8);
  it.place.give_back(*second);
  const auto third = it.place.capture().buffer;
  ASSERT_TRUE(third.has_value());
  values last = one;
  add(last, merged, 4);
  EXPECT_EQ(values_at(it.place.data_for(*third, 8)), last);
}

TEST(contribution, the_inverse_of_the_age_needs_no_table) {
  const age_rule none{}, inverse{.is_inverse = true}, table{.factors = {1, 0.75}};
  EXPECT_FALSE(none.exists());
  EXPECT_EQ(none.factor_of(7), 1);
  EXPECT_EQ(inverse.factor_of(0), 1);
  EXPECT_EQ(inverse.factor_of(3), 0.25);
  EXPECT_EQ(table.factor_of(0), 1);
  EXPECT_EQ(table.factor_of(UINT64_MAX), 0.75);
}

TEST(contribution, withdraw_takes_what_is_pending_and_nothing_else) {
  contribution_bench it;
  values gradient = gradient_of(1);
  EXPECT_EQ(it.place.withdraw(), 0u);
  it.place.offer(bytes_of(gradient));
  const auto captured = it.place.capture().buffer;
  it.place.offer(bytes_of(gradient));
  it.place.offer(bytes_of(gradient));
  EXPECT_EQ(it.place.withdraw(), 2u);
  EXPECT_EQ(it.place.withdraw(), 0u);
  ASSERT_TRUE(captured.has_value());
  it.place.done(*captured);
  EXPECT_FALSE(it.place.capture().buffer.has_value());
  it.place.offer(bytes_of(gradient));
  EXPECT_EQ(it.place.withdraw(), 1u);
}

TEST(contribution, a_capture_during_a_commit_takes_what_was_offered_before) {
  std::optional<std::uint32_t> captured;
  contribution* place = nullptr;
  combiner how = adds();
  how.merge = [&](const std::byte* earlier, std::byte* later) {
    captured = place->capture().buffer;
    find_reduce(kernel::sum, dtype::u64)(earlier, later, later, k_count);
  };
  contribution_bench it(how);
  place = &it.place;
  values one = gradient_of(1), two = gradient_of(2);
  for (int again = 0; again < 5; ++again) {  // a repetition fails if a buffer was lost
    it.place.offer(bytes_of(one), 2);
    it.place.prepare(0, {bytes_of(two), k_count});
    it.place.commit(3);
    ASSERT_TRUE(captured.has_value());
    EXPECT_EQ(values_at(it.place.at(*captured).data), one);
    EXPECT_EQ(it.place.at(*captured).offers, 1u);
    it.place.done(*captured);
    const auto next = it.place.capture().buffer;
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(values_at(it.place.at(*next).data), two);
    EXPECT_EQ(it.place.at(*next).since, 3u);
    it.place.done(*next);
  }
}

// --- contribution, two threads ---------------------------------------------------------------------------------------

TEST(contribution, nothing_is_lost_and_nothing_counted_twice_while_captures_race_offers) {
  contribution_bench it;
  const std::uint64_t offers = exchanges();
  std::uint64_t weights = 0;
  values offered{};
  std::atomic<bool> is_over{false};
  std::thread application([&] {
    for (std::uint64_t n = 0; n < offers; ++n) {
      values gradient = gradient_of(n);
      const std::uint64_t weight = n % 2 == 0 ? 1 : n % 7 + 1;
      it.place.offer(bytes_of(gradient), 0, weight);
      add(offered, gradient, weight);
      weights += weight;
      if (n % 64 == 63) std::this_thread::yield();
    }
    is_over.store(true);
  });
  values captured{};
  std::uint64_t captured_weights = 0;
  const auto capture_one = [&] {
    const auto buffer = it.place.capture().buffer;
    if (!buffer) return false;
    add(captured, values_at(it.place.at(*buffer).data));
    captured_weights += it.place.at(*buffer).offers;
    it.place.done(*buffer);
    return true;
  };
  while (!is_over.load())
    if (!capture_one()) std::this_thread::yield();
  application.join();
  capture_one();
  EXPECT_EQ(captured_weights, weights);
  EXPECT_EQ(captured, offered);
}

TEST(contribution, ages_are_exact_while_captures_race_offers) {
  contribution_bench it(ages());
  const std::uint64_t offers = exchanges() / 4;
  std::atomic<bool> is_over{false};
  std::thread application([&] {
    for (std::uint64_t n = 0; n < offers; ++n) {
      values gradient = gradient_of(n);
      it.place.offer(bytes_of(gradient), n, n % 3 + 1);
      if (n % 64 == 63) std::this_thread::yield();
    }
    is_over.store(true);
  });
  struct record {
    round_no round;
    std::uint64_t weights;
    values data;
  };
  std::vector<record> records;
  const auto capture_one = [&](round_no round) {
    const auto buffer = it.place.capture().buffer;
    if (!buffer) return false;
    records.push_back({round, it.place.at(*buffer).offers, values_at(it.place.data_for(*buffer, round))});
    it.place.done(*buffer);
    return true;
  };
  round_no round = 0;
  while (!is_over.load())
    if (!capture_one(++round)) std::this_thread::yield();
  application.join();
  capture_one(++round);
  const age_rule rule = ages().age;
  std::uint64_t n = 0, wrong = 0;
  for (const record& one : records) {
    values expected{};
    for (std::uint64_t weights = 0; weights < one.weights; weights += n % 3 + 1, ++n) {
      if (weights != 0) add(expected, expected);  // the factor of one round is 2
      add(expected, gradient_of(n), n % 3 + 1);
    }
    const auto factor = one.round < n ? 1 : static_cast<std::uint64_t>(rule.factor_of(one.round - (n - 1)));
    values late{};
    add(late, expected, factor);
    wrong += one.data == late ? 0u : 1u;
  }
  EXPECT_EQ(n, offers);
  EXPECT_EQ(wrong, 0u) << "of " << records.size();
}

TEST(contribution, withdrawing_races_captures_and_every_offer_is_in_one_of_them) {
  contribution_bench it;
  const std::uint64_t offers = exchanges();
  std::uint64_t withdrawn = 0;
  std::atomic<bool> is_over{false};
  std::thread application([&] {
    values gradient = gradient_of(1);
    for (std::uint64_t n = 0; n < offers; ++n) {
      it.place.offer(bytes_of(gradient));
      if (n % 3 == 0) withdrawn += it.place.withdraw();
      if (n % 64 == 63) std::this_thread::yield();
    }
    is_over.store(true);
  });
  std::uint64_t captured = 0;
  while (!is_over.load()) {
    if (const auto buffer = it.place.capture().buffer) {
      captured += it.place.at(*buffer).offers;
      values expected{};
      for (std::uint64_t i = 0; i < it.place.at(*buffer).offers; ++i) add(expected, gradient_of(1));
      if (values_at(it.place.at(*buffer).data) != expected) ADD_FAILURE() << "a withdrawn value was captured";
      it.place.done(*buffer);
    } else {
      std::this_thread::yield();
    }
  }
  application.join();
  EXPECT_EQ(captured + withdrawn + it.place.withdraw(), offers);
}

// --- delivery, one thread ------------------------------------------------------------------------------------

TEST(delivery, is_empty_until_something_is_published_and_after_it_was_collected) {
  for (const lag_policy lag : {lag_policy::latest, lag_policy::accumulate}) {
    delivery_bench it(lag);
    values result = gradient_of(99);
    EXPECT_FALSE(it.place.collect(bytes_of(result)).has_value());
    it.publish(1, gradient_of(1));
    EXPECT_EQ(result, gradient_of(99));
    EXPECT_EQ(it.place.collect(bytes_of(result))->to, 1u);
    EXPECT_EQ(result, gradient_of(1));
    EXPECT_FALSE(it.place.collect(bytes_of(result)).has_value());
    EXPECT_EQ(it.place.collected().to, 1u);
  }
}

TEST(delivery, a_null_round_keeps_an_older_result_and_touches_no_buffer) {
  for (const lag_policy lag : {lag_policy::latest, lag_policy::accumulate}) {
    delivery_bench it(lag);
    values result = gradient_of(99);
    it.publish(1, {}, true);
    const auto nothing = it.place.collect(bytes_of(result));
    ASSERT_TRUE(nothing.has_value());
    EXPECT_TRUE(nothing->null);
    EXPECT_EQ(result, gradient_of(99));
    it.publish(2, gradient_of(2));
    it.publish(3, {}, true);
    it.publish(4, {}, true);
    const auto something = it.place.collect(bytes_of(result));
    ASSERT_TRUE(something.has_value());
    EXPECT_FALSE(something->null);
    EXPECT_EQ(something->from, 1u);
    EXPECT_EQ(something->to, 4u);
    EXPECT_EQ(something->offers, 1u);
    EXPECT_EQ(result, gradient_of(2));
  }
}

TEST(delivery, latest_replaces_and_accumulate_adds) {
  for (const lag_policy lag : {lag_policy::latest, lag_policy::accumulate}) {
    delivery_bench it(lag);
    for (const round_no round : {1u, 2u, 3u}) it.publish(round, gradient_of(round));
    values result{};
    const auto got = it.place.collect(bytes_of(result));
    ASSERT_TRUE(got.has_value());
    values expected = gradient_of(3);
    if (lag == lag_policy::accumulate)
      for (const std::uint64_t n : {1u, 2u}) add(expected, gradient_of(n));
    EXPECT_EQ(result, expected);
    EXPECT_EQ(got->from, 0u);
    EXPECT_EQ(got->to, 3u);
    EXPECT_EQ(got->mine, 3u);
    EXPECT_EQ(got->offers, lag == lag_policy::accumulate ? 3u : 1u);
  }
}

TEST(delivery, a_result_may_be_dropped_unread) {
  delivery_bench it(lag_policy::accumulate);
  it.publish(1, gradient_of(1));
  EXPECT_EQ(it.place.collect(nullptr)->to, 1u);
  it.publish(2, gradient_of(2));
  values result{};
  EXPECT_EQ(it.place.collect(bytes_of(result))->from, 1u);
  EXPECT_EQ(result, gradient_of(2));
}

TEST(delivery, a_history_delivers_each_round_by_itself_and_merges_what_is_too_much_into_the_last) {
  delivery_bench it(lag_policy::history, 3);
  for (round_no first = 0; first < 40; first += 7) {
    for (round_no round = first + 1; round <= first + 7; ++round)
      it.publish(round, gradient_of(round), round == first + 2);
    values result{};
    for (const round_no round : {first + 1, first + 2}) {
      const auto got = it.place.collect(bytes_of(result));
      ASSERT_TRUE(got.has_value());
      EXPECT_EQ(got->from, round - 1);
      EXPECT_EQ(got->to, round);
      EXPECT_EQ(got->null, round == first + 2);
      EXPECT_EQ(result, gradient_of(first + 1)) << "a null round must not write";
    }
    const auto rest = it.place.collect(bytes_of(result));
    ASSERT_TRUE(rest.has_value());
    EXPECT_EQ(rest->from, first + 2);
    EXPECT_EQ(rest->to, first + 7);
    EXPECT_EQ(rest->offers, 5u);
    EXPECT_EQ(rest->staleness, 4u) << "the largest staleness of five";
    values sum{};
    for (round_no round = first + 3; round <= first + 7; ++round) add(sum, gradient_of(round));
    EXPECT_EQ(result, sum);
    EXPECT_FALSE(it.place.collect(bytes_of(result)).has_value());
  }
}

/// lsched_shrink needs the newest result (docs/reference/shrink.md).
TEST(delivery, the_newest_result_stays_as_it_was_made_until_the_next_is) {
  for (const lag_policy lag : {lag_policy::latest, lag_policy::accumulate, lag_policy::history}) {
    delivery_bench it(lag, lag == lag_policy::history ? 2 : 1);
    EXPECT_EQ(it.place.newest().data, nullptr);
    for (round_no round = 1; round <= 40; ++round) {
      it.publish(round, gradient_of(round), round % 7 == 0);
      values result{};
      if (round % 3 == 0) (void)it.place.collect(bytes_of(result));
      if (round % 5 == 0) (void)it.place.borrow();
      std::memset(it.place.writing(), 0xee, sizeof result);  // simulates the next round, which writes to another buffer
      const delivery::slot newest = it.place.newest();
      EXPECT_EQ(newest.what.to, round);
      if (round % 7 == 0) {
        EXPECT_EQ(newest.data, nullptr);
      } else {
        EXPECT_EQ(values_at(newest.data), gradient_of(round)) << round;
      }
    }
  }
}

TEST(contribution, what_was_captured_in_vain_is_merged_with_what_was_offered_since) {
  contribution_bench it;
  values one = gradient_of(1), two = gradient_of(2), both = one;
  add(both, two);
  for (int again = 0; again < 5; ++again) {  // a repetition fails if a buffer was lost
    it.place.offer(bytes_of(one), 3);
    const auto captured = it.place.capture().buffer;
    it.place.offer(bytes_of(two), 4);
    it.place.give_back(*captured);
    const auto merged = it.place.capture().buffer;
    EXPECT_EQ(values_at(it.place.at(*merged).data), both);
    EXPECT_EQ(it.place.at(*merged).offers, 2u);
    EXPECT_EQ(it.place.at(*merged).since, 3u);
    it.place.done(*merged);
  }
}

TEST(contribution, says_which_round_the_first_of_what_is_pending_called_for) {
  contribution_bench it;
  values gradient = gradient_of(1);
  it.place.offer(bytes_of(gradient), 5);
  it.place.offer(bytes_of(gradient), 6);
  const auto first = it.place.capture().buffer;
  it.place.offer(bytes_of(gradient), 7);
  EXPECT_EQ(it.place.at(*first).since, 5u);
  it.place.done(*first);
  EXPECT_EQ(it.place.at(*it.place.capture().buffer).since, 7u);
}

// --- delivery, two threads -----------------------------------------------------------------------------------

void race_collects(delivery_bench& it) {
  const round_no rounds = exchanges();
  std::atomic<bool> is_over{false};
  values published{};
  std::thread engine([&] {
    for (round_no round = 1; round <= rounds; ++round) {
      const bool null = round % 7 == 0;
      it.publish(round, gradient_of(round), null);
      if (!null) add(published, gradient_of(round));
      if (round % 64 == 63) std::this_thread::yield();
    }
    is_over.store(true);
  });
  values collected{};
  round_no last = 0;
  const auto collect_one = [&] {
    values result{};
    const auto got = it.place.collect(bytes_of(result));
    if (!got) return false;
    if (got->from != last || got->to <= got->from)
      ADD_FAILURE() << "(" << got->from << ", " << got->to << "] after " << last;
    last = got->to;
    add(collected, result);
    return true;
  };
  while (!is_over.load())
    if (!collect_one()) std::this_thread::yield();
  engine.join();
  while (collect_one()) continue;
  EXPECT_EQ(last, rounds);
  EXPECT_EQ(collected, published);
}

TEST(delivery, accumulated_results_add_up_while_collects_race_publications) {
  delivery_bench it(lag_policy::accumulate);
  race_collects(it);
}

TEST(delivery, a_history_adds_up_while_collects_race_publications) {
  for (const std::uint32_t results : {1u, 2u, 5u, lag_rule::k_most}) {
    if (testing::sampled() && results == 1) continue;
    delivery_bench it(lag_policy::history, results);
    race_collects(it);
  }
}

TEST(delivery, the_latest_result_is_whole_while_collects_race_publications) {
  delivery_bench it(lag_policy::latest);
  const round_no rounds = exchanges();
  std::atomic<bool> is_over{false};
  std::thread engine([&] {
    for (round_no round = 1; round <= rounds; ++round) {
      it.publish(round, gradient_of(round), round % 7 == 0);
      if (round % 64 == 63) std::this_thread::yield();
    }
    is_over.store(true);
  });
  round_no last = 0;
  const auto collect_one = [&] {
    values result{};
    const auto got = it.place.collect(bytes_of(result));
    if (!got) return false;
    last = got->to;
    const round_no of = got->to % 7 == 0 ? got->to - 1 : got->to;  // last round with a result, because every seventh
                                                                   // result is null
    if (got->null ? got->from + 1 != got->to || got->to % 7 != 0 : result != gradient_of(of))
      ADD_FAILURE() << "round " << got->to;
    return true;
  };
  while (!is_over.load())
    if (!collect_one()) std::this_thread::yield();
  engine.join();
  collect_one();
  EXPECT_EQ(last, rounds);
}

}  // namespace
}  // namespace lsched
