// Tests of sessions. A session is one rank's use of a partial collective. All ranks run in one thread, on real engines
// over the transport inproc. The ranks call offer, collect, withdraw, flush, model_sync and leave in random order.
// Calls that have to wait are interrupted at random and resumed later.
//
// Rank 0 is the witness. Its lag rule keeps the result of every round separately (a history). Whenever rank 0 takes a
// turn, it collects all results. The oracle computes the expected results of a rank from the results of rank 0, and
// from the rank's lag rule and divisor. Contributions are integers, and the sum of all rounds must be the sum of all
// offers that were not withdrawn.
#include "libsched/session/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using testing::lockstep_world;
using integers = std::vector<std::int64_t>;

constexpr std::int64_t k_untouched = -123'456'789;
constexpr rank k_witness = 0;

integers sum_of(const integers& a, const integers& b) {
  integers sum(a);
  std::ranges::transform(a, b, sum.begin(), std::plus<>{});
  return sum;
}

integers difference_of(const integers& a, const integers& b) {
  integers difference(a);
  std::ranges::transform(a, b, difference.begin(), std::minus<>{});
  return difference;
}

integers zeros(std::uint64_t count) { return integers(count); }

/// Returns the quotient, rounded to nearest, ties to even.
std::int64_t quotient_of(std::int64_t value, std::int64_t by) {
  const std::int64_t down = value / by - (value % by < 0 ? 1 : 0);
  const std::int64_t twice = 2 * (value - down * by);
  return down + (twice > by || (twice == by && down % 2 != 0) ? 1 : 0);
}

integers quotient_of(integers values, std::uint64_t by) {
  for (auto& value : values) value = quotient_of(value, static_cast<std::int64_t>(by));
  return values;
}

/// A result that one call has returned to a rank.
struct given {
  rank to = k_no_rank;
  delivered what;
  std::optional<integers> result;  ///< the result; empty if the caller dropped the result
};

/// The record of a flush or model_sync on one rank.
struct common_record {
  collect_report report{};
  integers offered{};  ///< model_sync: sum of this rank's offers before the call, without withdrawn offers
  integers weights{};  ///< model_sync: the weights before the call
  integers mean{};     ///< model_sync: the weights after the call
};

struct rules {
  activation starts{};
  std::uint64_t count = 3;
  bool averages = false;  ///< whether some of the collective calls are model_sync
  bool leaves = false;    ///< whether some ranks leave before the end
  std::uint32_t fragments = 1;
};

/// Returns a random lag rule. The witness always keeps the results of all rounds separately.
lag_rule draw_lag(lockstep_world& world, rank r) {
  if (r == k_witness) return {lag_policy::history, lag_rule::k_most};
  return world.draw_below(2) == 0 ? lag_policy::latest : lag_policy::accumulate;
}

divisor draw_divisor(lockstep_world& world, rank r, lag_rule lag) {
  if (r == k_witness) return divisor::none;
  const auto drawn = static_cast<divisor>(world.draw_below(4));
  return drawn == divisor::contributors && lag.policy != lag_policy::latest ? divisor::offers : drawn;
}

class session_bench {
 public:
  session_bench(rank size, std::uint64_t seed, const rules& by) : world(size, seed), rules_(by) {
    const shape data{by.count, dtype::i64, kernel::sum, false};
    const auto generate = world.draw_below(2) == 0 ? partial_allreduce : partial_allreduce_tree;
    for (rank r = 0; r < size; ++r) players_.push_back(draw_player(r));
    const auto rounds = world.commit([&](rank r) {
      return commit_request{"rounds",
                            generate({r, size}, data, by.starts),
                            {},
                            {.lag = players_[index(r)].lag, .fragments = by.fragments}};
    });
    const activation full{.policy = activation_policy::full};
    const auto agreement = world.commit([&](rank r) {
      return commit_request{"agreement", partial_allreduce({r, size}, {1, dtype::u64, kernel::max, false}, full)};
    });
    const auto mean = world.commit([&](rank r) {
      return commit_request{"mean", partial_allreduce({r, size}, data, full)};
    });
    for (std::uint64_t epochs = 2 + world.draw_below(3); epochs > 0; --epochs)
      is_average_.push_back(by.averages && world.draw_below(2) == 0);
    common_.resize(is_average_.size());
    for (player& one : players_) {
      const std::size_t r = index(one.self);
      sessions_.push_back(std::make_unique<session>(
          world.at(one.self), session_instances{rounds[r], agreement[r], mean[r]}, one.by, one.buckets));
    }
  }

  /// Runs the test until every rank has made all its calls, has left, and knows that all other ranks have left. Then
  /// checks all results.
  void play() {
    for (std::uint64_t turns = 0; !std::ranges::all_of(players_, &player::is_done); ++turns) {
      if (turns == 2'000'000 || !world.net().first_fault().empty()) {
        ADD_FAILURE() << "hangs; " << describe();
        return;
      }
      world.step();
      if (world.draw_below(3) == 0) act(players_[world.draw_below(players_.size())]);
      if (::testing::Test::HasFailure()) break;
    }
    for (player& one : players_) take_all(one);
    read_witness();
    for (const given& one : given_) check(one);
    for (std::size_t epoch = 0; epoch < common_.size(); ++epoch)
      if (is_average_[epoch])
        check_mean(epoch);
      else if (epoch < first_leave_)
        check_flush(epoch);
    check_totals();
    if (!::testing::Test::HasFailure()) remove();
    if (::testing::Test::HasFailure()) ADD_FAILURE() << describe();
  }

  lockstep_world world;

 private:
  /// The offers and the results of one fragment on one rank.
  struct account {
    std::vector<integers> offers{};   ///< contributions that were not withdrawn, oldest first
    std::vector<round_no> tickets{};  ///< for each offer in `offers`: the round for which the offer called
    std::uint64_t given_offers = 0;   ///< number of this rank's offers that are included in its results
    round_no given_up_to = 0;
  };

  struct player {
    rank self = k_no_rank;
    lag_rule lag{};
    divisor by = divisor::none;
    std::vector<std::uint64_t> buckets{};
    std::optional<std::uint64_t> leaves_in{};  ///< number of turns until the rank leaves early

    std::vector<account> accounts{};  ///< one for each fragment
    round_no last_ticket = 0;
    integers forgotten{};  ///< sum of the offers before the last model_sync
    delivered last{};      ///< the latest report of this rank that has a result
    std::size_t epoch = 0;
    bool is_in_common = false;
    common_record common{};
    bool has_left = false;
    bool is_done = false;
  };

  static std::size_t index(rank r) { return static_cast<std::size_t>(r); }
  session& of(const player& one) { return *sessions_[index(one.self)]; }
  std::string describe() const { return words_for(rules_.starts) + ", " + world.describe(); }

  player draw_player(rank r) {
    player one{.self = r, .lag = draw_lag(world, r), .forgotten = zeros(rules_.count * rules_.fragments)};
    one.accounts.resize(rules_.fragments);
    one.by = draw_divisor(world, r, one.lag);
    if (world.draw_below(2) == 0) one.buckets = {rules_.count / 3, 0, rules_.count - rules_.count / 3};
    if (rules_.leaves && world.draw_below(3) == 0) one.leaves_in = 1 + world.draw_below(60);
    return one;
  }

  integers draw_vector() {
    integers drawn(rules_.count);
    for (auto& value : drawn) value = static_cast<std::int64_t>(world.draw_below(1u << 20)) - (1 << 19);
    return drawn;
  }

  std::size_t fragment_of(round_no round) const { return round == 0 ? 0 : (round - 1) % rules_.fragments; }

  /// Adds the data of a fragment to `sum`, which has the elements of all fragments.
  void add_to(integers& sum, std::size_t fragment, const integers& data) const {
    for (std::size_t i = 0; i < data.size(); ++i) sum[fragment * rules_.count + i] += data[i];
  }

  integers offered_by(const player& one) const {
    integers sum = zeros(rules_.count * rules_.fragments);
    for (std::size_t f = 0; f < one.accounts.size(); ++f)
      for (const integers& offer : one.accounts[f].offers) add_to(sum, f, offer);
    return sum;
  }

  /// Returns one pointer for each part of the player's vector. The pointer of an empty part is null.
  template <class Pointer, class Vector>
  std::vector<Pointer> pointers_to(const player& one, Vector& data) const {
    if (one.buckets.empty()) return {data.data()};
    return {data.data(), nullptr, data.data() + one.buckets[0]};
  }

  // --- turns ---------------------------------------------------------------------------------------------------------

  void act(player& one) {
    if (one.self == k_witness) take_all(one);
    if (one.has_left) return finish(one);
    if (one.leaves_in && --*one.leaves_in == 0) return leave(one);
    if (one.is_in_common) return resume(one);
    if (one.epoch == is_average_.size()) return leave(one);
    switch (world.draw_below(9)) {
      case 0:
      case 1:
      case 2: return offer(one);
      case 7: return skip(one);
      case 3: return (void)collect(one, one.last_ticket);
      case 4: return (void)collect(one, 0);
      case 5: return view(one);
      case 6: return world.draw_below(3) == 0 ? withdraw(one) : offer(one);
      default: return enter(one);
    }
  }

  void offer(player& one) {
    const integers drawn = draw_vector();
    std::span<const source_part> parts;
    ASSERT_EQ(of(one).parts_of(pointers_to<const void*>(one, drawn).data(), &parts), status::ok);
    round_no round = 0;
    bool is_posted = false;
    std::optional<std::uint32_t> fragment;
    if (world.draw_below(2) == 0) fragment = static_cast<std::uint32_t>(world.draw_below(rules_.fragments));
    ASSERT_EQ(of(one).offer({parts, 1, fragment}, &round, &is_posted), status::ok);
    EXPECT_GT(round, one.last_ticket) << "the numbers of calls must increase";
    EXPECT_EQ(is_posted, of(one).rounds().finished < round);
    account& its = one.accounts[fragment ? *fragment : fragment_of(round)];
    its.offers.push_back(drawn);
    its.tickets.push_back(round);
    one.last_ticket = round;
  }

  /// Skips rounds. The next offer must call for a round after the skipped rounds.
  void skip(player& one) {
    const round_no finished = of(one).rounds().finished;
    const round_no last = world.draw_below(2) == 0 ? k_last_round : world.draw_below(finished + 2);
    std::uint64_t skipped = 0, again = 0;
    ASSERT_EQ(of(one).skip(last, &skipped), status::ok);
    ASSERT_EQ(of(one).skip(last, &again), status::ok);
    EXPECT_EQ(again, 0u) << "a round must be skipped only once";
    if (skipped > 0) {
      EXPECT_GT(std::min(last, finished), one.last_ticket) << "a called round is skipped";
    }
    offer(one);
    EXPECT_GT(one.last_ticket, std::min(last, finished)) << "the call is for a skipped round";
  }

  /// Withdraws the pending offers, and removes them from the record.
  void withdraw(player& one) {
    std::uint64_t taken = 0, pending = 0;
    for (std::size_t f = 0; f < one.accounts.size(); ++f) {
      integers saved(rules_.count);
      const auto into = reinterpret_cast<std::byte*>(saved.data());
      const std::uint64_t of_fragment = of(one).rounds().partial->fragments[f].offers->save(into);
      account& its = one.accounts[f];
      ASSERT_LE(of_fragment, its.offers.size());
      its.offers.resize(its.offers.size() - of_fragment);
      its.tickets.resize(its.offers.size());
      pending += of_fragment;
    }
    ASSERT_EQ(of(one).withdraw(&taken), status::ok);
    EXPECT_EQ(taken, pending);
  }

  /// Collects a result into a vector or into buckets, or drops the result. Returns false if there is no new result, or
  /// if the round has not ended.
  bool collect(player& one, round_no round) {
    integers result(rules_.count, k_untouched);
    std::span<const target_part> parts;
    const bool is_dropped = one.self != k_witness && world.draw_below(8) == 0;
    EXPECT_EQ(of(one).parts_of(pointers_to<void*>(one, result).data(), &parts), status::ok);
    collect_report report;
    const bool is_over = of(one).rounds().finished >= round;
    const call_progress now = of(one).collect(round, is_dropped ? std::span<const target_part>() : parts, &report);
    EXPECT_EQ(now.answer, is_over ? status::ok : status::pending);
    if (!is_over) {
      EXPECT_EQ(now.awaited, &of(one).rounds());
      EXPECT_EQ(now.round, round);
      return false;
    }
    return take(one, report, is_dropped ? std::nullopt : std::optional(result));
  }

  void view(player& one) {
    const std::byte* where = nullptr;
    collect_report report;
    ASSERT_EQ(of(one).collect_view(0, &where, &report).answer, status::ok);
    integers result(rules_.count, k_untouched);
    ASSERT_EQ(where == nullptr, report.what.null);
    if (where != nullptr && rules_.count != 0) std::memcpy(result.data(), where, rules_.count * sizeof(std::int64_t));
    take(one, report, result);
  }

  void take_all(player& one) {
    while (collect(one, 0)) continue;
  }

  /// Checks a report and records the result. Returns false if the report has no new result.
  bool take(player& one, const collect_report& report, std::optional<integers> result) {
    EXPECT_GE(report.round, report.what.to);
    const bool may_have_dropped = one.is_in_common && is_average_[one.epoch];
    account& its = one.accounts[fragment_of(report.what.to)];
    EXPECT_EQ(report.fragment, fragment_of(report.what.to));
    if (may_have_dropped) its.given_up_to = std::max(its.given_up_to, report.what.from);
    if (report.what.null && result) {
      EXPECT_EQ(*result, integers(rules_.count, k_untouched)) << "a null result was written";
    }
    if (report.what.from == report.what.to) {
      EXPECT_TRUE(report.what.null);
      EXPECT_EQ(report.what.mine + report.what.offers, 0u);
      if (report.what.to == one.last.to && one.last.to != 0 && !may_have_dropped) {
        EXPECT_EQ(report.what.contributors, one.last.contributors)
            << "the last round is reported otherwise than before";
        EXPECT_EQ(report.what.last_offers, one.last.last_offers);
        EXPECT_EQ(report.what.ranks, one.last.ranks);
      }
      // `to` is below given_up_to if a collect has already returned the result of this flush.
      EXPECT_LE(report.what.to, its.given_up_to);
      return false;
    }
    EXPECT_EQ(report.what.from, its.given_up_to) << "rank " << one.self << ": a round is reported twice or left out";
    its.given_up_to = report.what.to;
    if (one.self == k_witness) {
      EXPECT_GT(report.what.to, one.last.to) << "results are not in the order of their rounds";
    }
    one.last = report.what;
    if (one.self == k_witness && !rules_.averages) {
      EXPECT_EQ(report.what.staleness, staleness_of(its, report.what));
    }
    its.given_offers += report.what.mine;
    check_order(its, report.what, one.self);
    given_.push_back({one.self, report.what, std::move(result)});
    return true;
  }

  // --- collective calls: flush and model_sync --------------------------------------------------------------

  void enter(player& one) {
    one.is_in_common = true;
    one.common = {.offered = difference_of(offered_by(one), one.forgotten), .weights = draw_vector()};
    one.common.mean = one.common.weights;
    resume(one);
  }

  void resume(player& one) {
    switch (world.draw_below(6)) {
      case 0: return refuse(one);
      case 1: return (void)collect(one, 0);
      default: break;
    }
    const bool is_average = is_average_[one.epoch];
    integers result(rules_.count, k_untouched);
    const target_part whole{reinterpret_cast<std::byte*>(result.data()), rules_.count};
    collect_report& report = one.common.report;
    const call_progress now =
        is_average ? of(one).model_sync(one.common.mean.data(), &report) : of(one).flush(std::span(&whole, 1), &report);
    if (now.answer == status::pending) {
      ASSERT_NE(now.awaited, nullptr);
      ASSERT_LT(now.awaited->finished, now.round);
      EXPECT_EQ(result, integers(rules_.count, k_untouched));
      if (is_average) {
        EXPECT_EQ(one.common.mean, one.common.weights);
      }
      return;
    }
    ASSERT_EQ(now.answer, status::ok) << now.reason;
    one.is_in_common = false;
    if (is_average) {
      one.accounts.front().given_up_to = report.what.to;
      one.forgotten = offered_by(one);
    } else {
      take(one, report, result);
    }
    common_[one.epoch++].push_back(one.common);
    std::uint64_t pending = 1;
    ASSERT_EQ(of(one).withdraw(&pending), status::ok);
    EXPECT_EQ(pending, 0u) << "rank " << one.self << " has a pending offer";
  }

  /// Makes calls that must be refused while a flush or model_sync is pending.
  void refuse(player& one) {
    round_no round = 0;
    bool is_posted = false;
    std::uint64_t taken = 0;
    collect_report report;
    const std::byte* where = nullptr;
    if (!of(one).is_in_common_call()) return;  // the collective call has not begun
    EXPECT_EQ(of(one).offer({}, &round, &is_posted), status::state);
    EXPECT_EQ(of(one).skip(k_last_round, &taken), status::state);
    EXPECT_EQ(of(one).withdraw(&taken), status::state);
    EXPECT_EQ(of(one).collect_view(0, &where, &report).answer, status::state);
    integers weights = zeros(rules_.count);
    EXPECT_EQ(
        (is_average_[one.epoch] ? of(one).flush({}, &report) : of(one).model_sync(weights.data(), &report)).answer,
        status::state);
  }

  void leave(player& one) {
    if (one.epoch < is_average_.size()) first_leave_ = std::min(first_leave_, one.epoch);
    of(one).leave();
    one.has_left = true;
    round_no round = 0;
    bool is_posted = false;
    collect_report report;
    EXPECT_EQ(of(one).offer({}, &round, &is_posted), status::state);
    EXPECT_EQ(of(one).flush({}, &report).answer, status::state);
  }

  void finish(player& one) {
    if (world.draw_below(4) == 0) collect(one, 0);
    const call_progress now = of(one).drain();
    if (now.answer != status::pending) {
      EXPECT_EQ(now.answer, status::ok);
      one.is_done = true;
    }
  }

  void remove() {
    for (std::size_t which = 0; which < 3; ++which) {
      std::vector<instance*> gone;
      for (const auto& one : sessions_) gone.push_back(*one->instances()[which]);
      world.remove(gone);
    }
    EXPECT_EQ(world.net().edges(), 0u);
  }

  // --- the oracle ----------------------------------------------------------------------------------------------------

  /// Returns the staleness of a rank's offers in the result of one round. The staleness is the number of rounds for
  /// which the oldest included offer has waited.
  static round_no staleness_of(const account& its, const delivered& what) {
    if (what.mine == 0 || its.given_offers >= its.tickets.size()) return 0;
    const round_no called = its.tickets[its.given_offers];
    return called < what.to ? what.to - called : 0;
  }

  /// If every round waits for the calls of all ranks, an offer must not be late. The offer must be in the result of the
  /// round for which it called, or of an earlier round.
  void check_order(const account& its, const delivered& what, rank r) const {
    if (rules_.starts.policy != activation_policy::full || rules_.averages) return;
    const auto called = std::ranges::upper_bound(its.tickets, what.to) - its.tickets.begin();
    EXPECT_GE(its.given_offers, static_cast<std::uint64_t>(called)) << "rank " << r << ", round " << what.to;
  }

  void read_witness() {
    for (const given& one : given_) {
      if (one.to != k_witness) continue;
      ASSERT_EQ(one.what.from, one.what.to - std::min<round_no>(one.what.to, rules_.fragments))
          << "a history of 60 has overflowed";
      rounds_[one.what.to] = {one.to, one.what, one.what.null ? zeros(rules_.count) : *one.result};
    }
  }

  /// Returns the expected result of rounds (from, to]. Returns nothing if the witness lacks the result of one of these
  /// rounds.
  std::optional<given> expected_of(const given& got) const {
    given all{got.to, {.from = got.what.from, .to = got.what.to}, zeros(rules_.count)};
    const bool keeps_all = players_[index(got.to)].lag.policy != lag_policy::latest;
    for (round_no round = got.what.from + 1; round <= got.what.to; ++round) {
      if (fragment_of(round) != fragment_of(got.what.to)) continue;
      const auto found = rounds_.find(round);
      if (found == rounds_.end()) return std::nullopt;
      const delivered& what = found->second.what;
      all.what.contributors = what.contributors;
      all.what.last_offers = what.last_offers;
      if (what.null) continue;
      all.what.null = false;
      all.what.offers = what.offers + (keeps_all ? all.what.offers : 0);
      all.what.in_result = what.contributors;
      all.result = keeps_all ? sum_of(*all.result, *found->second.result) : found->second.result;
    }
    return all;
  }

  std::uint64_t divisor_for(const given& all) const {
    switch (players_[index(all.to)].by) {
      case divisor::none: break;
      case divisor::ranks: return players_.size();
      case divisor::contributors: return all.what.in_result;
      case divisor::offers: return all.what.offers;
    }
    return 1;
  }

  void check(const given& got) const {
    const auto all = expected_of(got);
    if (!all) {
      EXPECT_TRUE(rules_.averages) << "the model has no round of (" << got.what.from << ", " << got.what.to << "]";
      return;
    }
    const ::testing::ScopedTrace trace(
        __FILE__, __LINE__, "rank " + std::to_string(got.to) + ", rounds up to " + std::to_string(got.what.to));
    EXPECT_EQ(got.what.contributors, all->what.contributors);
    EXPECT_EQ(got.what.last_offers, all->what.last_offers);
    EXPECT_EQ(got.what.offers, all->what.offers);
    EXPECT_EQ(got.what.null, all->what.null);
    if (got.result && !got.what.null) {
      EXPECT_EQ(*got.result, quotient_of(*all->result, divisor_for(*all)));
    }
  }

  /// Returns the sum of the rounds after the last model_sync, up to round `last`.
  integers sum_up_to(round_no last) const {
    integers sum = zeros(rules_.count * rules_.fragments);
    for (auto one = rounds_.upper_bound(synchronised_); one != rounds_.end() && one->first <= last; ++one)
      add_to(sum, fragment_of(one->first), *one->second.result);
    return sum;
  }

  void check_flush(std::size_t epoch) const {
    ASSERT_EQ(common_[epoch].size(), players_.size());
    integers offered = zeros(rules_.count * rules_.fragments);
    for (const common_record& one : common_[epoch]) {
      offered = sum_of(offered, one.offered);
      EXPECT_EQ(one.report.round, common_[epoch].front().report.round) << "ranks are at different rounds after a flush";
    }
    EXPECT_EQ(sum_up_to(common_[epoch].front().report.round), offered) << "flush " << epoch << " has left an offer";
  }

  /// Checks the mean of a model_sync. If a rank has left meanwhile, the mean may contain weights that the test does not
  /// know. The test does not check such a mean.
  void check_mean(std::size_t epoch) {
    if (common_[epoch].empty()) return;  // all ranks have left before this epoch
    if (epoch < first_leave_) {
      ASSERT_EQ(common_[epoch].size(), players_.size());
    }
    integers sum = zeros(rules_.count);
    for (const common_record& one : common_[epoch]) sum = sum_of(sum, one.weights);
    for (const common_record& one : common_[epoch]) {
      EXPECT_EQ(one.mean, common_[epoch].front().mean) << "ranks have different weights";
      EXPECT_EQ(one.report.what.contributors, common_[epoch].front().report.what.contributors);
      EXPECT_TRUE(one.report.what.null);
    }
    const std::uint64_t contributors = common_[epoch].front().report.what.contributors;
    EXPECT_GE(contributors, common_[epoch].size());
    EXPECT_LE(contributors, epoch < first_leave_ ? common_[epoch].size() : players_.size());
    if (contributors == common_[epoch].size()) {
      EXPECT_EQ(common_[epoch].front().mean, quotient_of(sum, contributors));
    }
    if (epoch >= first_leave_) return;
    // The rank on which the call ended first has collected exactly the rounds up to the common round. On the other
    // ranks, the reports may include later rounds.
    const auto earlier = [](const common_record& a, const common_record& b) {
      return a.report.what.to < b.report.what.to;
    };
    synchronised_ = std::ranges::min_element(common_[epoch], earlier)->report.what.to;
  }

  /// Checks that no offer after the last model_sync was lost or counted twice. Checks nothing if a rank has left before
  /// or during a model_sync, because later results may include pending offers of that rank.
  void check_totals() const {
    for (std::size_t epoch = first_leave_; epoch < is_average_.size(); ++epoch)
      if (is_average_[epoch]) return;
    integers offered = zeros(rules_.count * rules_.fragments);
    for (const player& one : players_) {
      offered = sum_of(offered, difference_of(offered_by(one), one.forgotten));
      if (synchronised_ != 0) continue;
      for (const account& its : one.accounts) EXPECT_EQ(its.given_offers, its.offers.size()) << "rank " << one.self;
    }
    EXPECT_EQ(sum_up_to(k_last_round), offered);
  }

  const rules rules_;
  std::vector<bool> is_average_;  ///< for each epoch: true if its collective call is model_sync, false if it is flush
  std::vector<player> players_;
  std::vector<std::unique_ptr<session>> sessions_;
  std::vector<given> given_;
  std::vector<std::vector<common_record>> common_;  ///< for each epoch: records of the ranks that have finished the
                                                    ///< epoch
  std::size_t first_leave_ = std::numeric_limits<std::size_t>::max();  ///< epoch in which the first rank has left early
  std::map<round_no, given> rounds_;  ///< results that the witness has collected, by round
  round_no synchronised_ = 0;         ///< round of the last model_sync
};

activation draw_activation(rank size, std::uint64_t seed) {
  const auto ranks = static_cast<std::uint32_t>(size), half = (ranks + 1) / 2;
  const std::vector<activation> all{
      {.policy = activation_policy::full},
      {.policy = activation_policy::solo},
      {.policy = activation_policy::majority, .seed = seed},
      {.policy = activation_policy::first_of, .seed = seed, .number = (ranks + 2) / 3},
      {.policy = activation_policy::all_of, .seed = seed, .number = half},
      {.policy = activation_policy::quorum, .number = half, .full_every = 3},
      {.policy = activation_policy::solo, .full_every = 2},
      {.policy = activation_policy::quorum, .number = 1, .grace_us = 1},
      {.policy = activation_policy::quorum, .number = half, .grace_us = 1'000'000'000},
      {.policy = activation_policy::quorum, .number = half, .full_every = 3, .grace_us = 20},
      {.policy = activation_policy::deadline, .number = 1},
      {.policy = activation_policy::deadline, .number = 1'000'000'000},
      {.policy = activation_policy::deadline, .number = 20, .full_every = 3},
      {.policy = activation_policy::deadline, .number = k_auto_deadline}};
  return all[seed % all.size()];
}

void play_worlds(std::uint64_t first_seed, std::uint64_t seeds) {
  constexpr rank sizes[] = {3, 5, 6, 7, 2, 4, 1};
  constexpr std::uint64_t counts[] = {4, 1, 0, 9};
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    const rank size = sizes[mix(seed) % std::size(sizes)];
    const std::uint64_t lot = mix(mix(seed));
    const std::uint32_t fragments = std::array{1u, 1u, 2u, 3u, 5u}[lot / 16 % 5];
    const rules by{.starts = draw_activation(size, seed),
                   .count = counts[lot % std::size(counts)],
                   .averages = fragments == 1 && lot / 4 % 2 == 0,
                   .leaves = lot / 8 % 2 == 0,
                   .fragments = fragments};
    session_bench(size, seed, by).play();
    if (::testing::Test::HasFailure()) return;
  }
}

/// In this test, only the offer passes the instance to the engine. The offer alone must start the round.
TEST(session, an_offer_starts_a_round_where_one_call_suffices) {
  for (const rank size : {3, 5, 6, 7, 2, 4, 1}) {
    lockstep_world world(size, 1);
    const auto rounds = world.commit([&](rank r) {
      const shape data{1, dtype::i64, kernel::sum, false};
      return commit_request{"rounds", partial_allreduce({r, size}, data, {.policy = activation_policy::solo})};
    });
    const auto caller = static_cast<std::size_t>(size - 1);
    session one(world.at(size - 1), {.rounds = rounds[caller]}, divisor::none);
    world.settle();
    const std::int64_t given = 7;
    const source_part whole{reinterpret_cast<const std::byte*>(&given), 1};
    round_no round = 0;
    bool is_posted = false;
    ASSERT_EQ(one.offer(std::span(&whole, 1), &round, &is_posted), status::ok);
    ASSERT_TRUE(world.run_until([&] { return rounds[caller]->finished == 1; }, 100'000));
    const std::byte* result = nullptr;
    collect_report report;
    ASSERT_EQ(one.collect_view(round, &result, &report).answer, status::ok);
    EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(result), given);
  }
}

/// A grace begins with the K-th call of a round, and starts no other round. Each round has its own grace.
TEST(session, a_grace_starts_its_own_round) {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds grace{5};
  for (const rank size : {3, 5, 6, 7}) {
    lockstep_world world(size, 1);
    const activation starts{.policy = activation_policy::quorum, .number = 2, .grace_us = 5000};
    const auto rounds = world.commit([&](rank r) {
      return commit_request{"rounds", partial_allreduce({r, size}, {1, dtype::i64, kernel::sum, false}, starts)};
    });
    const auto call = [&](rank r, round_no round) {
      instance& it = *rounds[static_cast<std::size_t>(r)];
      it.called.store(round);
      world.at(r).post(it);
      return steady_clock::now();
    };
    const auto is_over = [&](round_no round) {
      return std::ranges::all_of(rounds, [&](const instance* it) { return it->finished.load() >= round; });
    };
    const auto expect_no_start = [&](round_no round) {
      for (const auto end = steady_clock::now() + 2 * grace; steady_clock::now() < end;) world.step();
      for (const instance* it : rounds) EXPECT_LT(it->partial->gated.load(), round) << size << " ranks";
    };
    for (rank r = 0; r < size; ++r) call(r, 1);
    ASSERT_TRUE(world.run_until([&] { return is_over(1); }));
    expect_no_start(2);
    call(size - 1, 2);
    expect_no_start(2);
    for (round_no round = 2; round <= 3; ++round) {
      if (round == 3) call(size - 1, 3);
      const auto begin = call(1, round);
      ASSERT_TRUE(world.run_until([&] { return is_over(round); }, 100'000'000)) << size << " ranks, round " << round;
      EXPECT_GE(steady_clock::now() - begin, grace);
    }
    expect_no_start(4);
  }
}

/// If an instance fails, a call that waits for the instance ends and names the instance.
TEST(session, a_failed_instance_ends_the_calls_that_wait_for_it) {
  for (const rank size : {3, 5, 2}) {
    lockstep_world world(size, 1);
    const activation full{.policy = activation_policy::full};
    const auto rounds = world.commit([&](rank r) {
      return commit_request{"rounds", partial_allreduce({r, size}, {1, dtype::i64, kernel::sum, false}, full)};
    });
    const auto agreement = world.commit([&](rank r) {
      return commit_request{"agreement", partial_allreduce({r, size}, {1, dtype::u64, kernel::max, false}, full)};
    });
    session one(world.at(0), {.rounds = rounds[0], .agreement = agreement[0]}, divisor::none);
    collect_report report;
    ASSERT_EQ(one.flush({}, &report).answer, status::pending);
    ASSERT_EQ(one.drain().answer, status::pending);
    world.at(0).fail_all(status::peer, 1);
    const call_progress now = one.flush({}, &report);
    EXPECT_EQ(now.answer, status::peer);
    EXPECT_EQ(now.awaited, agreement[0]);
    EXPECT_EQ(one.drain().answer, status::ok);
  }
}

TEST(session, offers_collects_and_common_calls_in_any_order_lose_nothing_and_count_nothing_twice) {
  play_worlds(1, testing::sampled() ? 60 : 500);
}

TEST(session, soak_any_order_of_calls) { play_worlds(1'000'000, 20'000); }

}  // namespace
}  // namespace lsched
