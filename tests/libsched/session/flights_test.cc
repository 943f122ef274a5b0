// Tests of flights. With flights, several rounds of a schedule can be outstanding. In one thread, all ranks of a world
// start and end rounds of one schedule in a random order.
#include "libsched/session/flights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "libsched/schedule/draw.h"
#include "tests/support/lockstep_world.h"

namespace lsched::testing {
namespace {

using value = std::int64_t;

constexpr round_no k_rounds = 25;
constexpr std::size_t k_count = 3;

/// The data that a rank sends and receives in a round.
struct transfer {
  std::array<value, k_count> input{}, output{};
  bool is_checked = false;
};

/// A rank with its flights. `rounds[t - 1]` has the data of the caller's round t.
template <class Flights>
struct player {
  std::shared_ptr<schedule_commit> commit{};
  Flights its{};
  std::vector<transfer> rounds = std::vector<transfer>(k_rounds);
  round_no started = 0;
};

/// A trial. `Flights` is the class under test, or a class with a planted fault.
template <class Flights>
class flights_trial {
 public:
  flights_trial(rank size, std::size_t depth, std::uint64_t seed)
      : size_(size),
        depth_(depth),
        seed_(seed),
        world_(size, seed, {}, lockstep_world::lanes::none),
        players_(static_cast<std::size_t>(size)) {}

  /// Returns a description of the first error, or an empty string.
  std::string run() {
    if (!create()) return "the commit has failed";
    for (std::uint64_t n = 0; !is_over(); ++n) {
      if (n == 300'000) return describe("the rounds do not end");
      world_.step();
      const auto who = static_cast<rank>(draw(static_cast<std::size_t>(size_)));
      std::string wrong = draw(2) == 0 ? start(who) : check(who);
      if (!wrong.empty()) return describe("rank " + std::to_string(who) + " " + wrong);
    }
    world_.settle();
    return remove();
  }

 private:
  using role = player<Flights>;

  std::size_t draw(std::size_t limit) { return below(mix(mix(seed_) ^ ++draws_), limit); }
  role& at(rank who) { return players_[static_cast<std::size_t>(who)]; }
  std::string describe(const std::string& what) const {
    return what + "; seed " + std::to_string(seed_) + ", " + std::to_string(size_) + " ranks, depth " +
           std::to_string(depth_);
  }
  bool is_over() const {
    const auto is_checked = [](const transfer& each) { return each.is_checked; };
    return std::ranges::all_of(players_,
                               [&](const role& each) { return std::ranges::all_of(each.rounds, is_checked); });
  }

  bool create() {
    constexpr std::array k_algorithms{"ring", "recursive_doubling", "rabenseifner"};
    const algorithm* const how = find("allreduce", k_algorithms[seed_ % k_algorithms.size()]);
    for (rank r = 0; r < size_; ++r)
      at(r).commit = world_.commits_of(r).add(
          {.agreement = "flights",
           .program = how->generate({r, size_}, {.count = k_count, .type = dtype::i64, .what = kernel::sum}, {}),
           .memory = memory_of(at(r).rounds.front()),
           .flights = depth_});
    const auto is_made = [](const role& each) { return has_ended(*each.commit); };
    if (!world_.run_until([&] { return std::ranges::all_of(players_, is_made); })) return false;
    for (role& each : players_) {
      if (each.commit->made().size() != depth_) return false;
      each.its = Flights(each.commit->made());
    }
    return true;
  }

  static binding memory_of(transfer& one) {
    return {{reinterpret_cast<const std::byte*>(one.input.data())}, {reinterpret_cast<std::byte*>(one.output.data())}};
  }

  static value input_of(rank who, round_no round, std::size_t i) {
    return static_cast<value>(round * 1000 + i * 100) + who;
  }

  /// Starts the rank's next round, unless the flights refuse the start.
  std::string start(rank who) {
    role& own = at(who);
    if (own.started == k_rounds) return "";
    if (own.its.may_start() == status::state)
      return outstanding(own) == 0 ? "may not start although no round runs" : "";
    instance& runs = *own.its.next().runs;
    if (own.its.needs_memory() != (depth_ > 1 && own.started < depth_)) return "is wrong about the need for memory";
    transfer& next = own.rounds[own.started];
    for (std::size_t i = 0; i < k_count; ++i) next.input[i] = input_of(who, own.started + 1, i);
    if (world_.at(who).bind(runs, memory_of(next)) != status::ok) return "cannot bind the memory of the next round";
    lockstep_world::start(world_.at(who), runs);
    const round_no number = own.its.count_start(runs.called.load());
    ++own.started;
    if (number != own.started) return "calls round " + std::to_string(own.started) + " round " + std::to_string(number);
    return outstanding(own) > depth_ ? "has too many rounds in flight" : "";
  }

  std::size_t outstanding(const role& own) const {
    const auto is_running = [](const instance* one) { return one->called.load() != one->finished.load(); };
    return static_cast<std::size_t>(std::ranges::count_if(own.commit->made(), is_running));
  }

  /// Checks the result of a random round that has ended.
  std::string check(rank who) {
    role& own = at(who);
    if (own.started == 0) return "";
    const auto has_failed = [](const instance&) { return false; };
    if (own.its.has_outstanding(has_failed) != (outstanding(own) != 0)) return "is wrong about its outstanding rounds";
    const round_no round = 1 + draw(own.started);
    const awaited_round asked = own.its.find(round);
    if (asked.round > asked.runs.called.load()) return "does not find round " + std::to_string(round);
    if (asked.runs.finished.load() < asked.round) return "";
    transfer& ended = own.rounds[round - 1];
    for (std::size_t i = 0; i < k_count; ++i) {
      value sum = 0;
      for (rank r = 0; r < size_; ++r) sum += input_of(r, round, i);
      if (ended.output[i] != sum) return "has a wrong result in round " + std::to_string(round);
    }
    return std::exchange(ended.is_checked, true) ? "" : check_result(own, round);
  }

  /// Checks has_result() after the last round of a schedule that allows one outstanding round.
  std::string check_result(role& own, round_no round) {
    if (depth_ != 1 || round != own.started) return "";
    if (!own.its.has_result()) return "has no result after a round";
    own.its.note_binding(own.started);
    return own.its.has_result() ? "has a result in memory that no round has used" : "";
  }

  /// Removes all instances. The committed instance must be the last in the order of removal.
  std::string remove() {
    for (rank r = 0; r < size_; ++r) {
      const std::vector<instance**> all = at(r).its.in_order_of_removal();
      if (all.size() != depth_ || *all.back() != at(r).commit->committed())
        return describe("the order of removal is wrong");
      for (instance** const each : all) {
        if (each == all.back() && depth_ > 1 && at(r).its.find(2).round != k_last_round)
          return describe("a round of a removed instance is not over");
        if (world_.at(r).remove(**each) != status::ok) return describe("an instance cannot be removed");
        *each = nullptr;
      }
    }
    return "";
  }

  const rank size_;
  const std::size_t depth_;
  const std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  lockstep_world world_;
  std::vector<role> players_;
};

constexpr std::array<rank, 7> k_sizes{3, 5, 6, 7, 1, 4, 8};

/// Runs trials of all sizes with the depths 1, 2, 3, 5 and 8. The depth is the maximum number of outstanding rounds.
/// Returns the description of the first error.
template <class Flights>
std::string play(std::uint64_t seeds) {
  for (const rank size : k_sizes)
    for (const std::size_t depth : {1u, 2u, 3u, 5u, 8u})
      for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        if (std::string wrong = flights_trial<Flights>(size, depth, seed).run(); !wrong.empty()) return wrong;
  return "";
}

TEST(flights, rounds_run_in_their_flights_and_keep_their_numbers) { EXPECT_EQ(play<flights>(3), ""); }

/// Planted fault: searches for round t in the flight of round t + 1.
struct shifted_flights : flights {
  using flights::flights;
  awaited_round find(round_no round) const { return flights::find(round + 1); }
};

/// Planted fault: starts every fourth round in the flight of the previous round.
struct halting_flights : flights {
  using flights::flights;
  flight& next() { return starts_ % 4 == 3 && last_ != nullptr ? *last_ : *(last_ = &flights::next()); }
  round_no count_start(round_no round) {
    ++starts_;
    return flights::count_start(round);
  }
  std::size_t starts_ = 0;
  flight* last_ = nullptr;
};

TEST(flights, a_trial_sees_a_shifted_search) { EXPECT_NE(play<shifted_flights>(1), ""); }

TEST(flights, a_trial_sees_a_round_in_the_wrong_flight) { EXPECT_NE(play<halting_flights>(1), ""); }

}  // namespace
}  // namespace lsched::testing
