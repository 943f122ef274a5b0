// Tests of worlds over several hosts in a network partition, which heals later (docs/reference/shrink.md). The hosts
// are network name spaces, so the tests are skipped unless root runs them. Several jobs run at the same time, because
// jobs wait most of the time. LSCHED_TEST_HOST_TRIALS sets the number of jobs.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_ranks.h"
#include "tests/support/host_ranks.h"
#include "tests/support/shared_object.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using rank_set = std::uint32_t;

constexpr rank k_most_ranks = 8;

/// The results of a rank.
struct rank_record {
  std::atomic<std::uint64_t> rounds;      ///< number of rounds in all worlds
  std::atomic<rank_set> members;          ///< ranks of the last round's world, in the numbering of the first world
  std::atomic<std::uint64_t> losses;      ///< number of rounds that have ended with PEER
  std::atomic<std::uint64_t> refusals;    ///< number of calls of lsched_shrink that have returned PEER
  std::atomic<bool> has_changed_outcome;  ///< a call of lsched_shrink has succeeded after a refusal
};
struct common_records {
  std::array<rank_record, k_most_ranks> ranks;
  std::atomic<bool> is_over;
};

rank_set members_of(const lsched_world* world, const lsched_world* first) {
  rank_set members = 0;
  for (rank r = 0; r < lsched_size(world); ++r) members |= 1u << lsched_rank_in(world, r, first);
  return members;
}

/// A rank that sums in rounds, and shrinks its world after each loss. The first world stays open.
class summing_rank {
 public:
  summing_rank(lsched_world* first, const char* algorithm, common_records& all)
      : first_(first),
        world_(first),
        algorithm_(algorithm),
        all_(all),
        mine_(all.ranks[static_cast<std::size_t>(lsched_rank(first))]) {}

  /// Returns 0, or the number of the call that has failed.
  int live() {
    for (lsched_status how = create(); !all_.is_over; how = go_on(how)) {
      if (how == LSCHED_OK) how = sum();
      if (how != LSCHED_OK && how != LSCHED_ERR_PEER) return all_.is_over ? 0 : complain(how);
      (void)poll(nullptr, 0, 2);
    }
    return 0;
  }

 private:
  int complain(lsched_status how) const {
    std::fprintf(stderr, "rank %d: %s: %s\n", lsched_rank(first_), lsched_status_name(how), why_.text);
    return 1;
  }

  lsched_status create() {
    members_ = members_of(world_, first_);
    input_ = std::int64_t{1} << lsched_rank(first_);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = &input_,
                                      .output = &output_,
                                      .count = 1,
                                      .dtype = LSCHED_I64,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = algorithm_};
    return lsched_collective_create(world_, &desc, &schedule_, &why_);
  }

  lsched_status sum() {
    const lsched_status how = lsched_run(schedule_, k_limit_ns, &why_);
    if (how != LSCHED_OK) return how;
    if (output_ != members_) return std::fprintf(stderr, "wrong sum\n"), LSCHED_ERR_INTERNAL;
    mine_.members = members_;
    ++mine_.rounds;
    return how;
  }

  /// After a loss, shrinks the world. Returns PEER if only the other side may go on, or if a further rank is lost.
  lsched_status go_on(lsched_status how) {
    if (how == LSCHED_OK) return how;
    ++mine_.losses;
    lsched_world* survivors = nullptr;
    how = lsched_shrink(world_, k_limit_ns, &survivors, &why_);
    if (how == LSCHED_ERR_PEER) {
      ++mine_.refusals;
      (void)poll(nullptr, 0, 100);
    }
    if (how != LSCHED_OK) return how;
    if (mine_.refusals != 0) mine_.has_changed_outcome = true;
    world_ = survivors;
    return create();
  }

  lsched_world* const first_;
  lsched_world* world_;
  const char* const algorithm_;
  common_records& all_;
  rank_record& mine_;
  lsched_schedule* schedule_ = nullptr;
  rank_set members_ = 0;
  std::int64_t input_ = 0, output_ = 0;
  diagnostic why_;
};

/// With `link`, the link of the host is down. With `rules`, packets between the host and all others are dropped. With
/// `pair`, packets between the host and the next host are dropped. A third host, if there is one, can reach both.
enum class cut_kind { link, rules, pair };

struct cut {
  host_layout how;
  int host;
  cut_kind kind;
  std::chrono::milliseconds length;
  const char* algorithm = nullptr;  ///< algorithm of the allreduce, or null if the library chooses

  std::string text() const {
    constexpr const char* k_kinds[]{"cut by its link", "cut by rules", "cut from the next host"};
    return std::to_string(how.ranks) + " ranks on " + std::to_string(how.hosts()) + " hosts, host " +
           std::to_string(host) + " " + k_kinds[static_cast<int>(kind)] + " for " + std::to_string(length.count()) +
           " ms, allreduce " + (algorithm == nullptr ? "auto" : algorithm);
  }
  bool has_two_sides() const { return kind != cut_kind::pair || how.hosts() == 2; }
  rank_set all() const { return (1u << how.ranks) - 1; }
  /// The side that may go on.
  rank_set larger_side() const {
    rank_set on_host = 0;
    for (rank r = 0; r < how.ranks; ++r)
      if (how.host_of(r) == host) on_host |= 1u << r;
    const int here = std::popcount(on_host), there = how.ranks - here;
    return here > there || (here == there && (on_host & 1) != 0) ? on_host : all() & ~on_host;
  }
};

/// A job in a network partition.
class cut_job {
 public:
  explicit cut_job(const cut& what) : what_(what), net_(what.how.hosts()), store_(what.how.ranks) {
    if (!net_.exist()) return;
    children_ = std::make_unique<child_ranks>(what.how.ranks, [this](rank self) {
      lsched_world* const world = open_on_host(net_, what_.how, self, store_);
      return world == nullptr ? 9 : summing_rank(world, what_.algorithm, *all_).live();
    });
  }

  const cut& what() const { return what_; }
  bool have_all_rounds(std::uint64_t more) const {
    for (std::size_t r = 0; r < ranks(); ++r)
      if (all_->ranks[r].refusals == 0 && all_->ranks[r].rounds < before_[r] + more) return false;
    return true;
  }
  void note_rounds() {
    for (std::size_t r = 0; r < ranks(); ++r) before_[r] = all_->ranks[r].rounds;
  }

  void begin_cut() { set(true); }
  void end_cut() { set(false); }

  /// Returns the set of the ranks that go on.
  rank_set going() const {
    rank_set going = 0;
    for (std::size_t r = 0; r < ranks(); ++r)
      if (all_->ranks[r].refusals == 0) going |= 1u << r;
    return going;
  }

  /// Returns the violations of all ranks. Examples are a world that must not go on, and a loss in a short network
  /// partition.
  std::string find_fault() const {
    std::string fault;
    const rank_set going = this->going();
    for (std::size_t r = 0; r < ranks(); ++r) {
      const rank_record& one = all_->ranks[r];
      const std::string who = "rank " + std::to_string(r);
      if (one.has_changed_outcome) fault += who + " has gone on after a refusal; ";
      if ((going >> r & 1) != 0 && one.members != going)
        fault += who + " is in world " + std::to_string(one.members) + ", not " + std::to_string(going) + "; ";
      if (what_.length <= 2s && one.losses != 0) fault += who + " has a loss; ";
    }
    if (!what_.has_two_sides()) return fault;  // if the third host loses both other hosts, all ranks may get PEER
    if (going != what_.larger_side() && (going != what_.all() || what_.length > 5s))
      fault += "the ranks that go on are " + std::to_string(going);
    return fault;
  }

  std::string end() {
    all_->is_over = true;
    return children_->wait();
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(what_.how.ranks); }

  void set(bool is_cut) const {
    if (what_.kind == cut_kind::link) return is_cut ? net_.cut(what_.host) : net_.heal(what_.host);
    const int next = (what_.host + 1) % what_.how.hosts();
    for (int other = 0; other < what_.how.hosts(); ++other)
      if (other != what_.host && (what_.kind == cut_kind::rules || other == next))
        is_cut ? net_.block(what_.host, other) : net_.allow(what_.host, other);
  }

  const cut what_;
  const network_hosts net_;
  const tcp_store store_;
  shared_object<common_records> all_;
  std::array<std::uint64_t, k_most_ranks> before_{};
  std::unique_ptr<child_ranks> children_;
};

/// Cuts the networks of all jobs at the same time.
void run_cuts(const std::vector<cut>& cuts) {
  std::vector<std::unique_ptr<cut_job>> jobs;
  for (const cut& what : cuts) jobs.push_back(std::make_unique<cut_job>(what));
  const auto wait_for_rounds = [&](std::uint64_t more) {
    const auto has_rounds = [more](const auto& job) { return job->have_all_rounds(more); };
    return wait_until([&] { return poll(nullptr, 0, 5), std::ranges::all_of(jobs, has_rounds); }, 60s);
  };
  ASSERT_TRUE(wait_for_rounds(3)) << "a job does not start";
  const auto begin = clock::now();
  for (const auto& job : jobs) job->begin_cut();
  std::ranges::sort(jobs, {}, [](const auto& job) { return job->what().length; });
  for (const auto& job : jobs) {
    (void)wait_until([&] { return poll(nullptr, 0, 5), clock::now() >= begin + job->what().length; }, 20s);
    job->end_cut();
  }
  // After a network partition of 4 s, TCP repeats the lost bytes within another 4 s.
  (void)wait_until([&] { return poll(nullptr, 0, 20), false; }, 6s);
  for (const auto& job : jobs) job->note_rounds();
  EXPECT_TRUE(wait_for_rounds(20)) << "a job hangs";
  for (const auto& job : jobs) {
    EXPECT_EQ(job->find_fault(), "") << job->what().text();
    EXPECT_EQ(job->end(), "") << job->what().text();
  }
}

TEST(hosts, behind_a_cut_go_on_on_one_side_only) {
  if (!network_hosts(1).exist()) GTEST_SKIP() << "only root can make hosts";
  const host_layout layouts[]{{5, 2}, {3, 2}, {7, 3}, {4, 2}, {3, 1}, {5, 3}, {7, 4}, {6, 3}};
  constexpr cut_kind k_kinds[]{cut_kind::link, cut_kind::rules, cut_kind::pair};
  constexpr std::chrono::milliseconds k_lengths[]{6000ms, 2000ms, 3000ms, 4000ms, 3500ms};
  const int number = requested_host_trials() == 0 ? 5 : requested_host_trials();
  constexpr int k_at_once = 5;
  for (int k = 0; k < number; k += k_at_once) {
    std::vector<cut> cuts;
    for (int i = k; i < std::min(number, k + k_at_once); ++i) {
      const host_layout& how = layouts[i % 8];
      // In a ring, each rank sends only to the next rank, and receives only from the previous rank.
      cuts.push_back({how, i / 2 % how.hosts(), k_kinds[i % 3], k_lengths[i % 5], i % 4 < 2 ? "ring" : nullptr});
    }
    run_cuts(cuts);
  }
}

}  // namespace
}  // namespace lsched::testing
