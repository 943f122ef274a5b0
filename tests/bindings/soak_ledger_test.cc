// Tests of the ledger by which `lsched soak` checks results. The ledger must accept a correct run, and report every
// kind of error.
#include "microbench/soak/soak_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace lsched::cli {
namespace {

constexpr std::uint64_t k_count = 7;

/// The ledgers of three ranks, and the result that a partial allreduce would deliver to the ledgers.
struct books {
  explicit books(bool is_full = false) : books(is_full ? "full" : "solo", UINT64_MAX) {}
  books(const char* policy, std::uint64_t together) {
    for (rank r = 0; r < 3; ++r)
      ranks.emplace_back(world{.self = r, .size = 3}, k_count, 5, *read_activation(policy), together, 1,
                         [this](std::uint64_t, const std::string& what) { complaints += what + "\n"; });
  }

  void offer(rank from) { add(pending, ranks[static_cast<std::size_t>(from)].contribute()); }

  static void add(std::vector<std::uint64_t>& sum, const std::vector<std::uint64_t>& more) {
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += more[j];
  }

  /// Returns the report of rank 0 for a round with `offers` offers, `mine` of them by rank 0.
  lsched_report next_report(std::uint64_t offers, std::uint64_t mine) {
    lsched_report report{};
    report.struct_size = sizeof report;
    report.from = ranks[0].last_round();
    report.to = report.from + 1;
    report.last.contributors = std::min<std::uint64_t>(offers, 3);
    report.offers = report.last.offers = offers;
    report.mine = mine;
    report.last.ranks = 3;
    report.has_result = offers != 0 ? 1 : 0;
    return report;
  }

  /// Delivers the result `pending` to the ledger of rank 0, with a report that the test may have changed.
  void deliver(lsched_report report, std::uint64_t round = 1) {
    std::uint64_t* result = ranks[0].result();
    if (report.has_result != 0) std::copy(pending.begin(), pending.end(), result);
    ranks[0].check(report, round);
  }

  std::string complaints;
  std::vector<soak_ledger> ranks;
  std::vector<std::uint64_t> pending = std::vector<std::uint64_t>(k_count);
};

TEST(Ledger, objects_to_rounds_of_too_few_and_to_offers_that_are_too_old) {
  const auto complaints_about = [](const char* policy, std::uint64_t together, std::uint64_t offers,
                                   std::uint64_t staleness) {
    books it(policy, together);
    for (rank r = 0; r < static_cast<rank>(offers); ++r) it.offer(r);
    lsched_report report = it.next_report(offers, 1);
    report.staleness = staleness;
    it.deliver(report);
    return it.complaints;
  };
  EXPECT_EQ(complaints_about("quorum(2)", 9, 2, 0), "");
  EXPECT_EQ(complaints_about("quorum(3)", 0, 2, 7), "") << "a rank may have left";
  EXPECT_EQ(complaints_about("quorum(3)", 9, 2, 0), "fewer contributors than it takes to start a round (2, not 3)\n");
  EXPECT_EQ(complaints_about("solo+every(1)", 9, 2, 0),
            "fewer contributors than it takes to start a round (2, not 3)\n");
  EXPECT_EQ(complaints_about("solo+every(5)", 9, 1, 4), "");
  EXPECT_EQ(complaints_about("solo+every(5)", 9, 1, 5), "an offer is older than the policy allows (5, not 4)\n");
}

TEST(Ledger, has_nothing_to_say_about_a_correct_run) {
  books it;
  it.offer(0);
  it.offer(2);
  it.offer(2);
  it.deliver(it.next_report(3, 1));
  lsched_report empty = it.next_report(0, 0);
  empty.to = empty.from;
  it.deliver(empty, 0);
  it.ranks[0].check_mine();
  std::vector<std::uint64_t> of_world(k_count);
  for (const soak_ledger& rank : it.ranks) books::add(of_world, rank.offered());
  it.ranks[0].check_totals(of_world);
  EXPECT_EQ(it.complaints, "");
  EXPECT_EQ(it.ranks[0].violations(), 0u);
  EXPECT_EQ(it.ranks[0].mean_contributors(), 3.0);
}

/// A planted error: a change of the report or of the result of a correct round.
struct sabotage {
  const char* name;
  std::function<void(books&, lsched_report&)> act;
};

std::vector<sabotage> ways_to_be_wrong() {
  return {
      {"an offer counted twice", [](books&, lsched_report& r) { ++r.offers; }},
      {"an offer lost", [](books& b, lsched_report&) { --b.pending[0]; }},
      {"a contributor too many", [](books&, lsched_report& r) { r.last.contributors = 4; }},
      {"more mine than all", [](books&, lsched_report& r) { r.mine = 3; }},
      {"more mine than made", [](books&, lsched_report& r) { r.mine = 2; }},
      {"a round left out", [](books&, lsched_report& r) { ++r.from, ++r.to; }},
      {"an interval backwards", [](books&, lsched_report& r) { r.to = r.from - 1; }},
      {"another world", [](books&, lsched_report& r) { r.last.ranks = 4; }},
      {"a rank that does not exist", [](books& b, lsched_report&) { b.pending[1] += 2; }},
      {"a flipped bit of the hash", [](books& b, lsched_report&) { b.pending[2] ^= 1u << 20; }},
      {"a flipped bit at the end", [](books& b, lsched_report&) { b.pending.back() ^= std::uint64_t{1} << 63; }},
      {"two elements exchanged", [](books& b, lsched_report&) { std::swap(b.pending[4], b.pending[5]); }},
      {"a stale element", [](books& b, lsched_report&) { b.pending[6] = 0; }},
      {"a result that is denied", [](books&, lsched_report& r) { r.has_result = 0; }},
      {"fewer offers than contributors", [](books&, lsched_report& r) { r.last.contributors = 3; }},
  };
}

TEST(Ledger, objects_to_every_sabotage) {
  for (const sabotage& way : ways_to_be_wrong()) {
    books it;
    it.offer(0);
    it.deliver(it.next_report(1, 1));
    ASSERT_EQ(it.complaints, "");
    std::fill(it.pending.begin(), it.pending.end(), 0);
    it.offer(0);
    it.offer(1);
    lsched_report report = it.next_report(2, 1);
    way.act(it, report);
    it.deliver(report);
    EXPECT_NE(it.ranks[0].violations(), 0u) << way.name;
  }
}

TEST(Ledger, objects_to_a_result_before_its_round) {
  books it;
  it.offer(0);
  it.deliver(it.next_report(1, 1), 2);
  EXPECT_NE(it.complaints.find("before the ticket's round was over"), std::string::npos) << it.complaints;
}

TEST(Ledger, objects_to_a_buffer_touched_without_a_result) {
  books it;
  lsched_report empty = it.next_report(0, 0);
  empty.to = empty.from;
  it.ranks[0].result()[0] = 1;
  it.ranks[0].check(empty, 0);
  EXPECT_EQ(it.ranks[0].violations(), 1u) << it.complaints;
}

TEST(Ledger, knows_every_element_of_a_full_round) {
  books it(true);
  for (rank r = 0; r < 3; ++r) it.offer(r);
  it.deliver(it.next_report(3, 1));
  EXPECT_EQ(it.complaints, "");

  books wrong(true);
  for (const rank r : {0, 1, 1}) wrong.offer(r);  // rank 1 offers twice, and rank 2 makes no offer
  wrong.deliver(wrong.next_report(3, 1));
  EXPECT_NE(wrong.complaints.find("policy full"), std::string::npos) << wrong.complaints;
}

TEST(Ledger, misses_what_never_came_back) {
  books it;
  it.offer(0);
  it.offer(1);
  it.ranks[0].check_mine();
  EXPECT_EQ(it.ranks[0].violations(), 1u);
  it.ranks[0].check_totals(it.pending);
  EXPECT_EQ(it.ranks[0].violations(), 2u);
}

}  // namespace
}  // namespace lsched::cli
