// Tests of rounds that fail on some ranks, because of a death or a cancel, and succeed on other ranks. A rank whose
// round has failed reuses its buffers at once. The results of the other ranks must still be correct. The tests run real
// engines over the in-process transport, which reads payloads as late as possible. A seed determines the order of
// events.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/schedule/draw.h"
#include "tests/support/exact_algorithms.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/promised_outputs.h"

namespace lsched {
namespace {

using testing::exact_algorithms;
using testing::lockstep_world;
using testing::numbers;

/// A round of one algorithm. A death or a cancel makes the round fail on some ranks.
class early_end {
 public:
  early_end(const algorithm& what, std::uint64_t seed, bool stays_open)
      : what_(what),
        size_(std::array<rank, 6>{3, 5, 6, 7, 4, 8}[mix(seed) % 6]),
        world_(size_, seed, {.stays_open = stays_open}) {
    data_ = typical_shape(*what_.of, size_, 1 + world_.draw_below(40), dtype::i64, kernel::sum);
    if (what_.of->is_rooted) data_.root = draw_rank();
    promise_ = what_.of->contents_of(size_, data_);
    for (rank r = 0; r < size_; ++r) {
      const extents both = what_.of->extents_of({r, size_}, data_);
      inputs_.emplace_back(both.input.value_or(0));
      outputs_.emplace_back(both.output.value_or(0));
      for (std::int64_t& one : inputs_.back()) one = static_cast<std::int64_t>(world_.draw_below(1000));
    }
    memory_ = inputs_;
  }

  /// Runs the round. Returns the first error, or an empty text.
  std::string run() {
    if (validate(what_, {0, size_}, data_)) return {};
    its_ = world_.commit([this](rank r) { return request(r); });
    if (its_.empty()) return "the commit fails";
    has_ended_.resize(its_.size());
    const rank culprit = draw_rank();
    const bool dies = world_.draw_below(2) == 0;
    for (rank r = 0; r < size_; ++r) {
      world_.start(world_.at(r), *its_[index(r)]);
      step(world_.draw_below(6));
    }
    step(world_.draw_below(40 * static_cast<std::uint64_t>(size_)));
    dies ? kill(culprit) : world_.at(culprit).cancel(*its_[index(culprit)]);
    const bool ends = world_.run_until([this] {
      look();
      return std::ranges::all_of(has_ended_, [](bool one) { return one; });
    });
    return ends ? fault_ : "a rank does not end; " + fault_;
  }

  std::uint64_t finished() const { return finished_; }
  std::uint64_t failed() const { return failed_; }

 private:
  static std::size_t index(rank r) { return static_cast<std::size_t>(r); }
  rank draw_rank() { return static_cast<rank>(world_.draw_below(index(size_))); }

  commit_request request(rank r) {
    commit_request wanted{"early_end", what_.generate({r, size_}, data_, {})};
    const auto bytes = [](numbers& of) { return reinterpret_cast<std::byte*>(of.data()); };
    if (!wanted.program) return wanted;
    const auto has = [&](buffer_role role) { return count_of(**wanted.program, role) > 0; };
    if (has(buffer_role::input)) wanted.memory.inputs = {bytes(memory_[index(r)])};
    if (has(buffer_role::output)) wanted.memory.outputs = {bytes(outputs_[index(r)])};
    return wanted;
  }

  void step(std::uint64_t steps) {
    for (; steps > 0; --steps) world_.step(), look();
  }

  /// Kills a rank. The survivors notice the death one after the other, with other events in between.
  void kill(rank culprit) {
    look();
    has_ended_[index(culprit)] = true;
    world_.kill(culprit);
    its_[index(culprit)] = nullptr;
    for (rank r = 0; r < size_; ++r) {
      if (r == culprit) continue;
      world_.at(r).lose(culprit);
      step(world_.draw_below(10));
    }
  }

  /// Checks the results of ranks whose round has finished. Overwrites the buffers of ranks whose round has failed.
  void look() {
    for (rank r = 0; r < size_; ++r) {
      if (has_ended_[index(r)]) continue;
      if (its_[index(r)]->finished.load() == 1) {
        has_ended_[index(r)] = true;
        ++finished_;
        check(r);
      } else if (its_[index(r)]->verdict.load() != status::ok) {
        has_ended_[index(r)] = true;
        ++failed_;
        std::ranges::fill(memory_[index(r)], -1'000'000);
        std::ranges::fill(outputs_[index(r)], -2'000'000);
      }
    }
  }

  void check(rank r) {
    postcondition mine = promise_;
    std::erase_if(mine.ranges, [r](const promised_range& it) { return it.holder != r; });
    const std::string broken = testing::broken_promise(mine, inputs_, outputs_);
    if (!broken.empty() && fault_.empty()) fault_ = broken;
  }

  const algorithm& what_;
  const rank size_;
  shape data_{};
  postcondition promise_{};
  std::vector<numbers> inputs_;  ///< contributions, by rank; never overwritten
  std::vector<numbers> memory_, outputs_;
  lockstep_world world_;  ///< uses the buffers above until it is destroyed
  std::vector<instance*> its_;
  std::vector<bool> has_ended_;
  std::uint64_t finished_ = 0, failed_ = 0;
  std::string fault_;
};

/// Runs every algorithm with `seeds` seeds. Returns the number of runs with an error.
std::uint64_t run_seeds(std::uint64_t seeds, bool stays_open) {
  std::uint64_t faults = 0, finished = 0, failed = 0;
  for (const algorithm* const what : exact_algorithms())
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      early_end one(*what, seed, stays_open);
      const std::string fault = one.run();
      if (!fault.empty()) ++faults;
      if (!stays_open) {
        EXPECT_EQ(fault, "") << what->of->name << "/" << what->name << ", seed " << seed;
      }
      finished += one.finished(), failed += one.failed();
    }
  EXPECT_GT(finished, seeds * exact_algorithms().size() / 8);
  EXPECT_GT(failed, seeds * exact_algorithms().size() / 2);
  return faults;
}

TEST(early_end, rounds_that_others_finish_are_right) { (void)run_seeds(60, false); }
TEST(early_end_soak, rounds_that_others_finish_are_right) { (void)run_seeds(10'000, false); }

TEST(early_end_bug, memory_that_is_read_after_the_verdict_is_caught) { EXPECT_GT(run_seeds(60, true), 3u); }

// A schedule may consist of several instances, here of two. The cancellations of the two instances may reach a rank at
// different times. If a rank knows that one instance is cancelled, and then cancels both instances, both must name the
// rank that cancelled first.
TEST(early_end, all_instances_of_a_schedule_name_the_first_canceller) {
  for (const rank size : {3, 5, 6, 7, 2, 4}) {
    lockstep_world world(size, 40 + static_cast<std::uint64_t>(size));
    const auto make = [size](rank r) { return commit_request{"barrier", barrier_dissemination({r, size})}; };
    const auto firsts = world.commit(make), seconds = world.commit(make);
    ASSERT_FALSE(firsts.empty() || seconds.empty());
    const auto canceller = static_cast<std::size_t>(size - 1);
    world.at(size - 1).cancel(*firsts[canceller]);
    ASSERT_TRUE(world.run_until([&] { return firsts[0]->verdict.load() != status::ok; }));
    EXPECT_EQ(seconds[0]->verdict.load(), status::ok);
    world.at(0).cancel(std::array{firsts[0], seconds[0]});
    world.settle();
    for (const auto* its : {&firsts, &seconds})
      for (const instance* one : *its) {
        EXPECT_EQ(one->verdict.load(), status::cancelled);
        EXPECT_EQ(one->culprit.load(), size - 1);
      }
    world.remove(firsts);
    world.remove(seconds);
  }
}

}  // namespace
}  // namespace lsched
