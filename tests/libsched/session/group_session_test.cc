// Tests of replica groups. All ranks run in one thread, on real engines over the transport inproc. The shards of a
// group make the same calls, each at its own pace: offers, collects and flushes. The oracle compares the results of
// the shards of a group, which must be results of the same rounds, and the results of the groups, and it adds up the
// contributions.
#include "libsched/session/group_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/session/session.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using testing::lockstep_world;
using integers = std::vector<std::int64_t>;

/// A call of the application. All shards of a group make the same calls.
struct group_call {
  enum kind : std::uint8_t { offer, offer_nothing, offer_in_buckets, collect, view, flush } what = offer;
  std::uint64_t weight = 1;
};

struct group_rules {
  group_shape shape{};
  activation starts{};
  std::uint64_t count = 1;  ///< elements of shard 0; shard s has count + s elements, or 0 if count is 0
  lag_policy lag = lag_policy::accumulate;
  std::uint32_t staged = 1;
  bool kills = false;  ///< one rank dies at a random time
};

class group_bench {
 public:
  group_bench(std::uint64_t seed, const group_rules& by) : world(by.shape.ranks(), seed), rules_(by), seed_(seed) {
    const rank shards = by.shape.shards, groups = by.shape.groups, size = by.shape.ranks();
    control_ = world.commit([&](rank r) {
      const shape data{group_log::width_of(by.shape), dtype::u64, kernel::sum, false};
      return commit_request{"control",
                            partial_allreduce({r, size}, data, {.policy = activation_policy::solo}),
                            {},
                            {.lag = group_session::k_control_lag}};
    });
    std::vector<std::shared_ptr<split_commit>> splits;
    for (rank r = 0; r < size; ++r) splits.push_back(world.commits_of(r).split({r % shards, r}));
    world.run_until([&] { return std::ranges::all_of(splits, [](auto& it) { return testing::has_ended(*it); }); });
    std::vector<std::shared_ptr<schedule_commit>> commits;
    for (rank r = 0; r < size; ++r) {
      queues_.push_back(
          std::make_unique<commit_queue>(world.at(r), splits[at(r)]->made(), splits[at(r)]->take_board()));
      const shape data{count_of(r), dtype::i64, kernel::sum, false};
      const auto program = partial_allreduce({r / shards, groups}, data, {.policy = activation_policy::full});
      commits.push_back(std::make_shared<schedule_commit>(world.at(r), queues_.back()->members(), 1,
                                                          commit_request{"rounds", program}));
      queues_.back()->add(commits.back());
    }
    world.run_until([&] { return std::ranges::all_of(commits, [](auto& it) { return testing::has_ended(*it); }); });
    for (rank g = 0; g < groups; ++g) scripts_.push_back(draw_script(g));
    for (rank r = 0; r < size; ++r) {
      instance* const rounds = commits[at(r)]->committed();
      groups_.push_back(std::make_shared<group_session>(world.at(r), *control_[at(r)], *rounds,
                                                        group_options{by.shape, by.starts, by.lag, by.staged}));
      sessions_.push_back(
          std::make_unique<session>(world.at(r), session_instances{.rounds = rounds}, divisor::none,
                                    std::vector<std::uint64_t>{count_of(r) / 2, count_of(r) - count_of(r) / 2}));
      sessions_.back()->use_groups(groups_.back());
      world.at(r).carry_on(*groups_.back());
      players_.push_back({r});
    }
  }

  void play() {
    const std::uint64_t death = rules_.kills ? draw(1000) : UINT64_MAX;
    for (std::uint64_t turns = 0; !std::ranges::all_of(players_, &player::is_done); ++turns) {
      if (turns == death) kill(static_cast<rank>(draw(players_.size())));
      if (turns == 3'000'000 || !world.net().first_fault().empty()) {
        for (const player& one : players_) {
          rank late = k_no_rank;
          const std::string text = groups_[at(one.self)]->describe_wait(&late);
          ADD_FAILURE() << "rank " << one.self << " at call " << one.next << ": " << text;
        }
        ADD_FAILURE() << "hangs, " << world.describe();
        return;
      }
      world.step();
      const std::uint64_t lot = world.draw_below(players_.size() * 3);
      if (lot < players_.size()) act(players_[lot]);
      if (::testing::Test::HasFailure()) break;
    }
    if (rules_.kills) return;
    check();
    if (!::testing::Test::HasFailure()) remove();
    if (::testing::Test::HasFailure()) ADD_FAILURE() << world.describe();
  }

  lockstep_world world;

 private:
  struct given {
    delivered what{};
    integers result{};
  };
  struct player {
    rank self = k_no_rank;
    std::size_t next = 0;  ///< next call of the script
    std::vector<round_no> tickets{};
    std::size_t collected = 0;
    std::vector<given> results{};
    bool has_left = false, is_done = false;
  };

  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }
  rank group_of(rank r) const { return r / rules_.shape.shards; }
  rank shard_of(rank r) const { return r % rules_.shape.shards; }
  std::uint64_t count_of(rank r) const {
    return rules_.count == 0 ? 0 : rules_.count + static_cast<std::uint64_t>(shard_of(r));
  }
  std::uint64_t draw(std::uint64_t limit) { return mix(mix(seed_ + 77) ^ ++draws_) % limit; }

  /// Returns the calls of a group. At most `staged` offers are not collected. All groups flush equally often.
  std::vector<group_call> draw_script(rank) {
    std::vector<group_call> script;
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::uint64_t open = 0;
      for (std::uint64_t steps = draw(7); steps > 0; --steps) {
        if (open > 0 && (open == rules_.staged || draw(2) == 0)) {
          script.push_back({draw(4) == 0 ? group_call::view : group_call::collect});
          --open;
        } else {
          const std::uint64_t lot = draw(6);
          script.push_back({lot == 0   ? group_call::offer_nothing
                            : lot == 1 ? group_call::offer_in_buckets
                                       : group_call::offer,
                            draw(4) == 0 ? draw(4) : 1});
          ++open;
        }
      }
      script.push_back({group_call::flush});
    }
    return script;
  }

  /// The contribution of offer number c. Element 0 counts the offers of each group, so that the shards of a group can
  /// be compared.
  integers vector_of(rank r, std::uint64_t c) const {
    integers made(count_of(r));
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = i == 0 ? std::int64_t{1} << 12 * group_of(r)
                       : static_cast<std::int64_t>(mix(mix(c ^ seed_) + i * 131 + at(r)) % 2000) - 1000;
    return made;
  }

  /// Kills a rank. The other ranks notice the death one after the other.
  void kill(rank culprit) {
    dead_ = culprit;
    players_[at(culprit)].is_done = true;
    world.kill(culprit);
    for (rank r = 0; r < world.size(); ++r) {
      if (r == culprit) continue;
      world.at(r).lose(culprit);
      for (std::uint64_t steps = world.draw_below(10); steps > 0; --steps) world.step();
    }
  }

  /// Ends the calls of a rank that has noticed a death. Returns false if the status has another reason.
  bool has_ended_by_death(player& one, status answer) {
    if (dead_ == k_no_rank || answer != status::peer) return false;
    one.next = scripts_[at(group_of(one.self))].size();
    return true;
  }

  void act(player& one) {
    if (one.is_done) return;
    session& its = *sessions_[at(one.self)];
    const auto& script = scripts_[at(group_of(one.self))];
    if (one.next == script.size()) return finish(one);
    const group_call now = script[one.next];
    const std::uint64_t number = one.tickets.size() + 1;
    switch (now.what) {
      case group_call::offer:
      case group_call::offer_nothing:
      case group_call::offer_in_buckets: return offer(one, now, number);
      default: break;
    }
    integers result(count_of(one.self), 0);
    std::span<const target_part> parts;
    void* targets[] = {result.data(), result.data() + result.size() / 2};
    ASSERT_EQ(its.parts_of(targets, &parts), status::ok);
    collect_report report;
    call_progress made;
    if (now.what == group_call::flush) {
      made = its.flush(parts, &report);
    } else if (now.what == group_call::collect) {
      made = its.collect(one.tickets[one.collected], parts, &report);
    } else {
      const std::byte* where = nullptr;
      made = its.collect_view(one.tickets[one.collected], &where, &report);
      if (made.answer == status::ok && where != nullptr && !result.empty())
        std::memcpy(result.data(), where, result.size() * sizeof(std::int64_t));
    }
    if (made.answer == status::pending) {
      ASSERT_EQ(made.awaited, control_[at(one.self)]);
      ASSERT_LT(made.awaited->finished, made.round) << "the wait would return at once";
      return;
    }
    if (has_ended_by_death(one, made.answer)) return;
    ASSERT_EQ(made.answer, status::ok) << made.reason;
    for (const auto& other : sessions_)
      ASSERT_GE(other->rounds().finished, report.what.to)
          << "a result is exposed before the round has ended everywhere";
    if (now.what != group_call::flush)
      ++one.collected;
    else
      one.collected = one.tickets.size();
    if (report.what.null) {
      EXPECT_EQ(result, integers(count_of(one.self), 0)) << "a null result was written";
    }
    one.results.push_back({report.what, result});
    EXPECT_EQ(report.round, report.what.to);
    ++one.next;
  }

  void offer(player& one, const group_call& now, std::uint64_t number) {
    session& its = *sessions_[at(one.self)];
    const integers made = vector_of(one.self, number);
    const void* pointers[] = {made.data(), made.data() + made.size() / 2};
    std::span<const source_part> parts;
    ASSERT_EQ(its.parts_of(pointers, &parts), status::ok);
    round_no ticket = 0;
    bool is_posted = false;
    std::uint64_t skipped = 1;
    if (has_ended_by_death(one, its.skip(100, &skipped))) return;
    EXPECT_EQ(skipped, 0u);
    if (now.what == group_call::offer_in_buckets) {
      ASSERT_EQ(its.prepare(1, pointers[1]), status::ok);
      ASSERT_EQ(its.offer({}, &ticket, &is_posted), status::state);
      ASSERT_EQ(its.prepare(0, pointers[0]), status::ok);
      ASSERT_EQ(its.offer_prepared(now.weight, &ticket, &is_posted), status::ok);
    } else {
      const session::weighted what(now.what == group_call::offer_nothing ? std::span<const source_part>() : parts,
                                   now.weight);
      ASSERT_EQ(its.offer(what, &ticket, &is_posted), status::ok);
    }
    ASSERT_EQ(ticket, number);
    ASSERT_TRUE(is_posted);
    one.tickets.push_back(ticket);
    ++one.next;
    if (one.results.empty() && one.tickets.size() == rules_.staged) {
      EXPECT_EQ(its.offer({}, &ticket, &is_posted), status::busy);
    }
  }

  void finish(player& one) {
    session& its = *sessions_[at(one.self)];
    if (!std::exchange(one.has_left, true)) its.leave();
    const call_progress now = its.drain();
    if (now.answer == status::pending) return;
    EXPECT_EQ(now.answer, status::ok);
    one.is_done = true;
  }

  void remove() {
    std::vector<instance*> rounds;
    for (rank r = 0; r < world.size(); ++r) {
      world.at(r).step();
      world.at(r).drop(*groups_[at(r)]);
      EXPECT_EQ(world.at(r).remove(const_cast<instance&>(sessions_[at(r)]->rounds())), status::ok);
    }
    world.remove(control_);
    queues_.clear();
  }

  // --- the oracle ----------------------------------------------------------------------------------------------------

  void check() const {
    std::map<round_no, std::uint64_t> members;
    std::map<std::tuple<rank, round_no, round_no>, integers> results;
    for (const player& one : players_) {
      const auto& first = players_[at(group_of(one.self) * rules_.shape.shards)].results;
      ASSERT_EQ(one.results.size(), first.size());
      round_no last = 0;
      std::uint64_t mine = 0;
      for (std::size_t i = 0; i < first.size(); ++i) {
        const delivered &what = one.results[i].what, &other = first[i].what;
        const integers& result = one.results[i].result;
        const std::string name = "rank " + std::to_string(one.self) + ", result " + std::to_string(i);
        ASSERT_EQ(
            std::tie(what.from, what.to, what.groups, what.mine, what.offers, what.contributors, what.null),
            std::tie(other.from, other.to, other.groups, other.mine, other.offers, other.contributors, other.null))
            << name << ": the shards of a group have results of different rounds";
        if (!result.empty()) {
          ASSERT_EQ(result[0], first[i].result[0]) << name << ": a group is in a round with some of its shards";
        }
        ASSERT_EQ(what.from, last) << name << ": a round is reported twice or left out";
        last = what.to;
        mine += what.mine;
        if (what.from == what.to) continue;
        ASSERT_EQ(members.try_emplace(what.to, what.groups).first->second, what.groups) << name;
        const auto key = std::tuple(shard_of(one.self), what.from, what.to);
        ASSERT_EQ(results.try_emplace(key, result).first->second, result) << name << ": groups have different results";
      }
      if (rules_.lag == lag_policy::accumulate) check_totals(one, mine);
    }
    for (const player& one : players_)
      ASSERT_EQ(one.results.back().what.to, players_[0].results.back().what.to) << "a flush ends with different rounds";
  }

  /// The sum of all results is the sum of all contributions to this shard.
  void check_totals(const player& one, std::uint64_t mine) const {
    integers expected(count_of(one.self)), sum(count_of(one.self));
    std::uint64_t weights = 0;
    for (rank g = 0; g < rules_.shape.groups; ++g) {
      std::uint64_t number = 0;
      for (const group_call& now : scripts_[at(g)]) {
        if (now.what > group_call::offer_in_buckets) continue;
        ++number;
        const std::uint64_t weight = now.what == group_call::offer_nothing ? 0 : now.weight;
        if (g == group_of(one.self)) weights += weight;
        const integers made = vector_of(g * rules_.shape.shards + shard_of(one.self), number);
        for (std::size_t i = 0; i < made.size(); ++i) expected[i] += made[i] * static_cast<std::int64_t>(weight);
      }
    }
    for (const given& each : one.results)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each.result[i];
    ASSERT_EQ(sum, expected) << "rank " << one.self;
    ASSERT_EQ(mine, weights) << "rank " << one.self;
  }

  const group_rules rules_;
  const std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::vector<instance*> control_;
  std::vector<std::unique_ptr<commit_queue>> queues_;
  std::vector<std::shared_ptr<group_session>> groups_;
  std::vector<std::unique_ptr<session>> sessions_;
  std::vector<std::vector<group_call>> scripts_;
  std::vector<player> players_;
  rank dead_ = k_no_rank;
};

activation draw_starts(std::uint64_t seed, rank groups) {
  const auto number = static_cast<std::uint32_t>((groups + 1) / 2);
  const activation all[] = {{.policy = activation_policy::solo},
                            {.policy = activation_policy::full},
                            {.policy = activation_policy::majority, .seed = seed},
                            {.policy = activation_policy::quorum, .number = number},
                            {.policy = activation_policy::quorum, .number = 1, .full_every = 3},
                            {.policy = activation_policy::all_of, .seed = seed, .number = number}};
  return all[seed % std::size(all)];
}

void play_groups(std::uint64_t first_seed, std::uint64_t seeds, bool kills = false) {
  constexpr group_shape shapes[] = {{2, 2}, {3, 2}, {2, 3}, {1, 2}, {3, 1}, {1, 1}};
  constexpr std::uint64_t counts[] = {5, 1, 0};
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    const std::uint64_t lot = mix(seed);
    const group_shape shape = shapes[lot % std::size(shapes)];
    const group_rules by{.shape = shape,
                         .starts = draw_starts(seed, shape.groups),
                         .count = counts[lot / 8 % std::size(counts)],
                         .lag = lot / 32 % 4 == 0 ? lag_policy::latest : lag_policy::accumulate,
                         .staged = static_cast<std::uint32_t>(1 + lot / 128 % 3),
                         .kills = kills};
    group_bench(seed, by).play();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(group_session, all_shards_of_a_group_get_the_same_rounds_and_nothing_is_lost) {
  play_groups(1, testing::full() ? 40'000 : testing::sampled() ? 60 : 4000);
}

/// Every call of a survivor ends, and a result that a rank has collected belongs to a round that has ended on all
/// ranks, the dead rank included.
TEST(group_session, no_rank_uses_a_round_that_a_death_has_stopped) {
  play_groups(100'000, testing::full() ? 20'000 : testing::sampled() ? 40 : 2000, true);
}

}  // namespace
}  // namespace lsched
