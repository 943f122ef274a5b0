// Worlds that are split from worlds: random programs, and what must stay apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/process_ranks.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using home_rank = std::int32_t;

// --- programs ----------------------------------------------------------------------------------------------

/// A program that all ranks know: each carries out the steps of the worlds that it is a member of.
struct program {
  enum class deed : std::uint8_t { split, create, run, destroy, close };
  struct step {
    deed what{};
    std::size_t world = 0;                ///< split, create, close
    std::vector<std::int32_t> colours{};  ///< split: by rank of the world
    std::vector<std::int32_t> keys{};
    std::map<std::int32_t, std::size_t> made{};  ///< split: by colour
    std::size_t schedule = 0;                    ///< create, destroy
    std::vector<std::size_t> schedules{};        ///< run: one round of each, all under way at a time
  };
  struct planned_schedule {
    std::size_t world;
    std::uint64_t count;
  };

  std::vector<std::vector<home_rank>> worlds;  ///< by rank there
  std::vector<planned_schedule> schedules;
  std::vector<step> steps;
};

class planner {
 public:
  planner(std::uint64_t seed, std::int32_t ranks, int steps) : seed_(seed) {
    std::vector<home_rank> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    add_world(std::move(all));
    for (int i = 0; i < steps; ++i) add_step();
    while (!schedules_.empty()) add_destroy();
    while (!worlds_.empty()) add_close();
  }

  const program& made() const { return made_; }

 private:
  std::uint64_t below(std::uint64_t limit) { return mix(mix(seed_) ^ ++draws_) % limit; }
  std::size_t one_of(const std::vector<std::size_t>& some) { return some[below(some.size())]; }

  std::size_t add_world(std::vector<home_rank> members) {
    made_.worlds.push_back(std::move(members));
    worlds_.push_back(made_.worlds.size() - 1);
    return worlds_.back();
  }

  void add_step() {
    if (worlds_.empty()) return;
    switch (below(8)) {
      case 0: return worlds_.size() < 12 ? add_split() : add_close();
      case 1:
      case 2: return add_create();
      case 3: return schedules_.empty() ? add_create() : add_destroy();
      case 4: return below(3) == 0 ? add_close() : add_run();
      default: return add_run();
    }
  }

  void add_split() {
    program::step it{.what = program::deed::split, .world = one_of(worlds_)};
    const std::vector<home_rank> parent = made_.worlds[it.world];
    const std::uint64_t colours = 1 + below(3);
    for (std::size_t r = 0; r < parent.size(); ++r) {
      it.colours.push_back(static_cast<std::int32_t>(below(colours + 1)) - 1);
      it.keys.push_back(static_cast<std::int32_t>(below(3)));
    }
    for (std::int32_t colour = 0; colour < static_cast<std::int32_t>(colours); ++colour) {
      std::vector<std::size_t> those;
      for (std::size_t r = 0; r < parent.size(); ++r)
        if (it.colours[r] == colour) those.push_back(r);
      std::ranges::stable_sort(those, {}, [&](std::size_t r) { return it.keys[r]; });
      std::vector<home_rank> members;
      for (const std::size_t r : those) members.push_back(parent[r]);
      if (!members.empty()) it.made[colour] = add_world(std::move(members));
    }
    made_.steps.push_back(std::move(it));
  }

  void add_create() {
    constexpr std::uint64_t counts[] = {0, 1, 5, 700, 40'000};
    const std::size_t world = one_of(worlds_);
    made_.schedules.push_back({world, counts[below(std::size(counts))]});
    schedules_.push_back(made_.schedules.size() - 1);
    made_.steps.push_back({.what = program::deed::create, .world = world, .schedule = schedules_.back()});
  }

  void add_run() {
    program::step it{.what = program::deed::run};
    for (const std::size_t one : schedules_)
      if (below(2) == 0) it.schedules.push_back(one);
    made_.steps.push_back(std::move(it));
  }

  void add_destroy() {
    const std::size_t gone = one_of(schedules_);
    std::erase(schedules_, gone);
    made_.steps.push_back({.what = program::deed::destroy, .schedule = gone});
  }

  void add_close() {
    std::vector<std::size_t> idle = worlds_;
    for (const std::size_t one : schedules_) std::erase(idle, made_.schedules[one].world);
    if (idle.empty()) return;
    const std::size_t gone = one_of(idle);
    std::erase(worlds_, gone);
    made_.steps.push_back({.what = program::deed::close, .world = gone});
  }

  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  program made_;
  std::vector<std::size_t> worlds_, schedules_;  ///< that are there
};

/// One rank's thread that carries out a program. `root`: the program's first world, which it closes.
class performer {
 public:
  performer(const program& all, home_rank self, lsched_world* root)
      : all_(all), self_(self), draws_(mix(static_cast<std::uint64_t>(self))) {
    worlds_[0] = root;
  }

  /// What went wrong first; empty: nothing.
  const std::string& perform() {
    for (const program::step& each : all_.steps) {
      perform(each);
      if (!wrong_.empty()) break;
    }
    return wrong_;
  }

 private:
  struct held {
    lsched_schedule* schedule = nullptr;
    std::vector<std::int64_t> input, output;
    std::int64_t rounds = 0;
    lsched_ticket ticket{};
  };

  bool is_member(std::size_t world) const {
    return std::ranges::find(all_.worlds[world], self_) != all_.worlds[world].end();
  }

  bool expect(lsched_status answer, const diagnostic& why, const char* what) {
    if (answer != LSCHED_OK && wrong_.empty())
      wrong_ = "rank " + std::to_string(self_) + ", " + what + ": " + lsched_status_name(answer) + " " + why.text;
    return answer == LSCHED_OK;
  }

  static std::int64_t value(home_rank who, std::size_t schedule, std::int64_t round, std::size_t i) {
    return who * 1'000'003 + static_cast<std::int64_t>(schedule) * 101 + round * 7 + static_cast<std::int64_t>(i);
  }

  void perform(const program::step& it) {
    switch (it.what) {
      case program::deed::split: return is_member(it.world) ? split(it) : void();
      case program::deed::create: return is_member(it.world) ? create(it) : void();
      case program::deed::run: return run(it);
      case program::deed::destroy: return destroy(it);
      case program::deed::close:
        if (is_member(it.world)) expect(lsched_world_close(worlds_[it.world]), why_, "close");
        return;
    }
  }

  void split(const program::step& it) {
    const auto& members = all_.worlds[it.world];
    const auto own = static_cast<std::size_t>(std::ranges::find(members, self_) - members.begin());
    lsched_world* made = nullptr;
    lsched_world* const parent = worlds_[it.world];
    if (!expect(lsched_split(parent, it.colours[own], it.keys[own], &made, &why_), why_, "split")) return;
    if ((made == nullptr) != (it.colours[own] < 0)) wrong_ = "a world for no colour, or none for one";
    if (made == nullptr) return;
    const std::size_t world = it.made.at(it.colours[own]);
    worlds_[world] = made;
    const auto& planned = all_.worlds[world];
    if (lsched_size(made) != static_cast<std::int32_t>(planned.size())) wrong_ = "the new world has another size";
    for (std::size_t r = 0; r < planned.size() && wrong_.empty(); ++r) {
      const auto in_parent = std::ranges::find(members, planned[r]) - members.begin();
      if (lsched_rank_in(made, static_cast<std::int32_t>(r), parent) != in_parent) wrong_ = "its ranks are others";
    }
  }

  void create(const program::step& it) {
    held& its = schedules_[it.schedule];
    const std::uint64_t count = all_.schedules[it.schedule].count;
    its.input.resize(count);
    its.output.resize(count);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = its.input.data(),
                                      .output = its.output.data(),
                                      .count = count,
                                      .dtype = LSCHED_I64,
                                      .reduction = LSCHED_SUM};
    expect(lsched_collective_create(worlds_[it.world], &desc, &its.schedule, &why_), why_, "create");
  }

  /// Starts in an order of its own, and waits in another.
  void run(const program::step& it) {
    std::vector<std::size_t> mine;
    for (const std::size_t one : it.schedules)
      if (is_member(all_.schedules[one].world)) mine.push_back(one);
    shuffle(mine);
    for (const std::size_t one : mine) {
      held& its = schedules_[one];
      ++its.rounds;
      for (std::size_t i = 0; i < its.input.size(); ++i) its.input[i] = value(self_, one, its.rounds, i);
      if (!expect(lsched_start(its.schedule, &its.ticket), why_, "start")) return;
    }
    shuffle(mine);
    for (const std::size_t one : mine) {
      held& its = schedules_[one];
      if (!expect(lsched_wait(its.ticket, k_limit_ns, &why_), why_, "wait")) return;
      for (std::size_t i = 0; i < its.output.size(); ++i) {
        std::int64_t sum = 0;
        for (const home_rank who : all_.worlds[all_.schedules[one].world]) sum += value(who, one, its.rounds, i);
        if (its.output[i] == sum) continue;
        wrong_ = "rank " + std::to_string(self_) + ": a wrong sum in schedule " + std::to_string(one);
        return;
      }
    }
  }

  void destroy(const program::step& it) {
    if (!is_member(all_.schedules[it.schedule].world)) return;
    expect(lsched_schedule_destroy(schedules_[it.schedule].schedule, k_limit_ns, &why_), why_, "destroy");
    schedules_.erase(it.schedule);
  }

  void shuffle(std::vector<std::size_t>& some) {
    for (std::size_t left = some.size(); left > 1; --left) std::swap(some[left - 1], some[mix(++draws_) % left]);
  }

  const program& all_;
  const home_rank self_;
  std::uint64_t draws_;
  std::map<std::size_t, lsched_world*> worlds_;
  std::map<std::size_t, held> schedules_;
  diagnostic why_;
  std::string wrong_;
};

/// Two threads of each rank, each with a program of its own in a world of its own, which has all ranks. The world that
/// was opened is closed while they are at it. Answers what went wrong.
std::string perform_as(std::uint64_t seed, std::int32_t size, home_rank self, lsched_world* opened) {
  constexpr std::size_t k_threads = 2;
  std::vector<program> programs;
  std::vector<lsched_world*> roots(k_threads);
  diagnostic why;
  for (std::size_t t = 0; t < k_threads; ++t) {
    programs.push_back(planner(mix(seed) + t, size, 60).made());
    if (lsched_split(opened, 0, 0, &roots[t], &why) != LSCHED_OK) return why.text;
  }
  std::vector<std::string> wrong(k_threads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < k_threads; ++t)
      threads.emplace_back([&, t] { wrong[t] = performer(programs[t], self, roots[t]).perform(); });
    if (lsched_world_close(opened) != LSCHED_OK) return "the world that was opened does not close";
  }
  for (const std::string& one : wrong)
    if (!one.empty()) return one;
  return {};
}

void run_as_threads(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 8);
    std::vector<lsched_world*> opened(static_cast<std::size_t>(ranks));
    const lsched_config config = test_config();
    diagnostic why;
    ASSERT_EQ(lsched_world_open_threads(ranks, &config, opened.data(), &why), LSCHED_OK) << why.text;
    std::vector<std::jthread> threads;
    for (home_rank r = 0; r < ranks; ++r)
      threads.emplace_back([&, r, seed] {
        EXPECT_EQ(perform_as(seed, ranks, r, opened[static_cast<std::size_t>(r)]), "")
            << "seed " << seed << ", " << ranks << " ranks";
      });
  }
}

void run_as_processes(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 8);
    const auto life = [&]() -> int {
      lsched_config config = test_config();
      lsched_world* opened = nullptr;
      diagnostic why;
      if (lsched_world_open(&config, &opened, &why) != LSCHED_OK) return 2;
      const home_rank self = lsched_rank(opened);
      const std::string wrong = perform_as(seed, ranks, self, opened);
      if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
      return wrong.empty() ? 0 : 1;
    };
    EXPECT_EQ(run_processes(ranks, life, std::chrono::seconds(60)), "") << "seed " << seed << ", " << ranks << " ranks";
  }
}

TEST(worlds, random_programs_of_threads_compute_what_they_promise) { run_as_threads(1, full() ? 1000 : 24); }
TEST(worlds, random_programs_of_processes_compute_what_they_promise) { run_as_processes(1, full() ? 200 : 6); }

// --- what must stay apart ----------------------------------------------------------------------------------

/// A sum over the world of each member's rank plus one.
std::int64_t sum_of_ranks(lsched_world* world, diagnostic& why) {
  const std::int64_t mine = lsched_rank(world) + 1;
  std::int64_t sum = -1;
  const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                   .input = &mine,
                                   .output = &sum,
                                   .count = 1,
                                   .dtype = LSCHED_I64,
                                   .reduction = LSCHED_SUM};
  lsched_schedule* schedule = nullptr;
  if (lsched_allreduce_create(world, &desc, &schedule, &why) != LSCHED_OK) return -1;
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  return sum;
}

TEST(worlds, are_ordered_by_key_and_then_by_rank) {
  world_of_threads(5).each([](lsched_world* mine, std::int32_t r) {
    lsched_world* made = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r % 2, r == 0 ? 7 : 3, &made, &why), LSCHED_OK) << why.text;
    // Colour 0: ranks 2, 4, 0 by their keys. Colour 1: 1, 3.
    constexpr std::int32_t expected[] = {2, 0, 0, 1, 1};
    EXPECT_EQ(lsched_rank(made), expected[r]);
    EXPECT_EQ(lsched_size(made), r % 2 == 0 ? 3 : 2);
    EXPECT_EQ(lsched_rank_in(mine, 0, made), r % 2 == 0 ? 2 : -1);
    EXPECT_EQ(lsched_rank_in(made, 0, mine), r % 2 == 0 ? 2 : 1);
    EXPECT_EQ(sum_of_ranks(made, why), r % 2 == 0 ? 6 : 3) << why.text;
    EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
  });
}

TEST(worlds, of_a_negative_colour_are_none) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t r) {
    lsched_world* made = mine;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r == 1 ? -5 : 0, 0, &made, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(made == nullptr, r == 1);
    if (made != nullptr) {
      EXPECT_EQ(sum_of_ranks(made, why), 3) << why.text;
    }
    EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
  });
}

TEST(worlds, that_disagree_leave_the_others_alone) {
  world_of_threads(4).each([](lsched_world* mine, std::int32_t r) {
    lsched_world *left = nullptr, *all = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, r / 2, 0, &left, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_split(mine, 0, -r, &all, &why), LSCHED_OK) << why.text;
    lsched_schedule* refused = nullptr;
    std::int64_t value = 0;
    const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                     .input = &value,
                                     .output = &value,
                                     .count = 1,
                                     .dtype = LSCHED_I64,
                                     .reduction = r == 0 ? LSCHED_MAX : LSCHED_SUM};
    const lsched_status answer = lsched_allreduce_create(left, &desc, &refused, &why);
    EXPECT_EQ(answer, r / 2 == 0 ? LSCHED_ERR_MISMATCH : LSCHED_OK) << why.text;
    if (r / 2 == 0) {
      EXPECT_EQ(why.rank, 1 - r % 2) << why.text;  // a rank of that world
    } else {
      EXPECT_EQ(lsched_schedule_destroy(refused, k_limit_ns, &why), LSCHED_OK);
    }
    EXPECT_EQ(sum_of_ranks(all, why), 10) << why.text;
    EXPECT_EQ(sum_of_ranks(left, why), 3) << why.text;
    EXPECT_EQ(lsched_world_close(left), LSCHED_OK);
    EXPECT_EQ(lsched_world_close(all), LSCHED_OK);
  });
}

TEST(worlds, a_commit_that_times_out_does_so_for_all_and_the_world_goes_on) {
  lsched_config config = test_config();
  config.commit_timeout_ns = 50'000'000;
  const world_of_threads ranks(3, config);
  for (const std::int32_t late : {2, 0, 1}) {
    std::vector<std::jthread> threads;
    for (std::int32_t r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        diagnostic why;
        lsched_schedule* barrier = nullptr;
        if (r == late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        EXPECT_EQ(lsched_barrier_create(ranks.at(r), &barrier, &why), LSCHED_ERR_TIMEOUT) << "rank " << r;
        EXPECT_TRUE(why.says("rank " + std::to_string(late))) << why.text;
        EXPECT_EQ(why.rank, late);
        if (r != late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      });
    threads.clear();
    ranks.each([](lsched_world* mine, std::int32_t) {
      diagnostic why;
      EXPECT_EQ(sum_of_ranks(mine, why), 6) << why.text;
    });
  }
}

TEST(worlds, that_were_closed_are_missed_by_their_members_alone) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t r) {
    lsched_world* made = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(mine, 0, 0, &made, &why), LSCHED_OK) << why.text;
    if (r == 1) {
      EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
    } else {
      lsched_schedule* barrier = nullptr;
      EXPECT_EQ(lsched_barrier_create(made, &barrier, &why), LSCHED_ERR_PEER) << why.text;
      EXPECT_EQ(why.rank, 1) << why.text;
      EXPECT_EQ(lsched_world_close(made), LSCHED_OK);
    }
    EXPECT_EQ(sum_of_ranks(mine, why), 6) << why.text;
  });
}

TEST(worlds, refuse_bad_arguments) {
  diagnostic why;
  lsched_world* made = nullptr;
  EXPECT_EQ(lsched_split(nullptr, 0, 0, &made, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("null")) << why.text;
  const world_of_threads one(1), other(1);
  EXPECT_EQ(lsched_split(one.at(0), 0, 0, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_rank_in(one.at(0), 0, other.at(0)), -1);
  EXPECT_EQ(lsched_rank_in(one.at(0), 1, one.at(0)), -1);
  EXPECT_EQ(lsched_rank_in(nullptr, 0, one.at(0)), -1);
  EXPECT_EQ(lsched_rank_in(one.at(0), 0, one.at(0)), 0);
}

}  // namespace
}  // namespace lsched::testing
