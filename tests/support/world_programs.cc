#include "tests/support/world_programs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using home_rank = std::int32_t;

// --- programs ----------------------------------------------------------------------------------------------

/// A random program. Every rank computes the whole program, and executes only the steps of worlds in which it is a
/// member.
struct program {
  enum class deed : std::uint8_t { split, create, run, destroy, close };
  struct step {
    deed what{};
    std::size_t world = 0;                ///< for split, create and close: the world in which the step happens
    std::vector<std::int32_t> colours{};  ///< split: colour of each rank of the world
    std::vector<std::int32_t> keys{};
    std::map<std::int32_t, std::size_t> made{};  ///< split: index of the new world of each colour
    bool by_ranks = false;                       ///< split: whether the members of each colour call lsched_split_ranks
    std::size_t schedule = 0;                    ///< create, destroy: schedule of the step
    std::vector<std::size_t> schedules{};        ///< run: schedules that have a round in flight at the same time
  };
  struct planned_schedule {
    std::size_t world;
    std::uint64_t count;
  };

  std::vector<std::vector<home_rank>> worlds;  ///< members of each world, by rank of the world
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
    it.by_ranks = below(2) == 0;
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
  std::vector<std::size_t> worlds_, schedules_;  ///< indices of the open worlds and schedules
};

/// Executes a program in a thread of one rank. `root` is the first world of the program. The program closes `root`.
class performer {
 public:
  performer(const program& all, home_rank self, lsched_world* root)
      : all_(all), self_(self), draws_(mix(static_cast<std::uint64_t>(self))) {
    worlds_[0] = root;
  }

  /// Executes all steps. Returns a description of the first error, or an empty string.
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
    if (!it.by_ranks) {
      if (!expect(lsched_split(parent, it.colours[own], it.keys[own], &made, &why_), why_, "split")) return;
    } else if (it.colours[own] >= 0) {
      const std::size_t world = it.made.at(it.colours[own]);
      std::vector<std::int32_t> ranks;
      for (const home_rank one : all_.worlds[world])
        ranks.push_back(static_cast<std::int32_t>(std::ranges::find(members, one) - members.begin()));
      const auto count = static_cast<std::int32_t>(ranks.size()), tag = static_cast<std::int32_t>(world);
      if (!expect(lsched_split_ranks(parent, ranks.data(), count, tag, &made, &why_), why_, "split by ranks")) return;
    }
    if ((made == nullptr) != (it.colours[own] < 0)) wrong_ = "a world without a colour, or a colour without a world";
    if (made == nullptr) return;
    const std::size_t world = it.made.at(it.colours[own]);
    worlds_[world] = made;
    const auto& planned = all_.worlds[world];
    if (lsched_size(made) != static_cast<std::int32_t>(planned.size())) wrong_ = "the new world has another size";
    for (std::size_t r = 0; r < planned.size() && wrong_.empty(); ++r) {
      const auto in_parent = std::ranges::find(members, planned[r]) - members.begin();
      if (lsched_rank_in(made, static_cast<std::int32_t>(r), parent) != in_parent)
        wrong_ = "the new world has other ranks";
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

  /// Starts the rounds in a random order, and waits for the rounds in another random order.
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

}  // namespace

std::string perform_random_program(std::uint64_t seed, lsched_world* opened) {
  const std::int32_t size = lsched_size(opened);
  const home_rank self = lsched_rank(opened);
  constexpr std::size_t k_threads = 2;
  std::vector<program> programs;
  std::vector<lsched_world*> roots(k_threads);
  diagnostic why;
  for (std::size_t t = 0; t < k_threads; ++t) {
    programs.push_back(planner(mix(seed) + t, size, 60).made());
    if (lsched_split(opened, 0, 0, &roots[t], &why) != LSCHED_OK) return why.text;
    if (lsched_world_set(roots[t], LSCHED_NONBLOCKING, static_cast<std::int32_t>((seed / 2 + t) % 2)) != LSCHED_OK)
      return "mode";
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

}  // namespace lsched::testing
