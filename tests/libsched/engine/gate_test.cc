// Tests of gates. A gate lets a round begin only when a stream has reached a certain point. The tests cover the order
// and the data of rounds, and rounds that end early.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <vector>

#include "collectives/registry.h"
#include "libsched/schedule/draw.h"
#include "tests/libsched/allocation_count.h"
#include "tests/support/generators.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

using integers = std::vector<std::int64_t>;

std::byte* bytes_of(integers& from) { return reinterpret_cast<std::byte*>(from.data()); }

/// Returns element i of the input of rank r, in the allreduce with index `which`.
std::int64_t number(std::uint64_t which, rank r, round_no round, std::size_t i) {
  return static_cast<std::int64_t>(mix(mix(which) ^ mix(static_cast<std::uint64_t>(r) << 32 | round) ^ i) % 100'000);
}

/// One rank of an allreduce, with a stream. Each round has three entries in the stream. They write the input, wait for
/// the round, and check the output. ask() requests a round, and sets the gate between the first and the second entry.
class part {
 public:
  part(std::uint64_t which, rank self, rank ranks, std::size_t count)
      : which_(which), self_(self), ranks_(ranks), input(count), output(count) {}

  void ask(engine& where) {
    const round_no next = it->called.load() + 1;
    stream.put = 3 * next - 2;
    ASSERT_EQ(it->device->gate->ask(&stream, next), status::ok);
    stream.put = 3 * next;
    it->called.store(next);
    where.post(*it);
  }
  /// Executes the next entry of the stream, unless the stream is empty or the entry has to wait.
  void advance_stream() {
    if (stream.done == stream.put) return;
    const round_no round = stream.done / 3 + 1;
    if (stream.done % 3 == 0) bring(round);
    if (stream.done % 3 == 1 && gate().released() < round) return;
    if (stream.done % 3 == 2) take(round);
    ++stream.done;
  }
  /// Checks the last round and starts the next round without a stream, unless a round is still running.
  void start_next(engine& where) {
    const round_no last = it->finished.load();
    if (last != it->called.load()) return;
    if (last != 0) take(last);
    bring(last + 1);
    lockstep_world::start(where, *it);
  }

  void bring(round_no round) {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = number(which_, self_, round, i);
  }
  void take(round_no round) {
    for (std::size_t i = 0; i < output.size(); ++i) {
      std::int64_t sum = 0;
      for (rank r = 0; r < ranks_; ++r) sum += number(which_, r, round, i);
      ASSERT_EQ(output[i], sum) << "rank " << self_ << ", round " << round;
    }
    taken = round;
  }
  const stepped_gate& gate() const { return static_cast<const stepped_gate&>(*it->device->gate); }

 private:
  std::uint64_t which_;
  rank self_, ranks_;

 public:
  integers input, output;
  instance* it = nullptr;
  stepped_stream stream;
  round_no taken = 0;  ///< last round whose output was checked and was correct
};

/// Several allreduces in one world. Some of the allreduces have gates.
class gated_world {
 public:
  gated_world(rank ranks, std::uint64_t seed) : world(ranks, seed), ranks_(ranks) {
    for (rank r = 0; r < ranks; ++r) devices.push_back(&world.give_device(r));
  }
  ~gated_world() {
    for (const auto& its : all_) world.remove(its);
  }
  gated_world(const gated_world&) = delete;
  gated_world& operator=(const gated_world&) = delete;

  /// Adds an allreduce. If the commit fails, the test fails and the result is false.
  bool add(bool has_gate, std::string_view how = "recursive_doubling", std::size_t count = 5) {
    auto& parts = parts_.emplace_back();
    for (rank r = 0; r < ranks_; ++r) parts.emplace_back(parts_.size(), r, ranks_, count);
    const shape data{.count = count, .type = dtype::i64, .what = kernel::sum};
    const auto its = world.commit([&](rank r) {
      part& mine = parts[static_cast<std::size_t>(r)];
      return commit_request{"gated",
                            find("allreduce", how)->generate({r, ranks_}, data, {}),
                            {{bytes_of(mine.input)}, {bytes_of(mine.output)}}};
    });
    if (its.empty()) return false;
    for (rank r = 0; r < ranks_; ++r) {
      instance& mine = *(parts[static_cast<std::size_t>(r)].it = its[static_cast<std::size_t>(r)]);
      EXPECT_TRUE(!has_gate || world.at(r).add_gate(mine) == status::ok);
    }
    all_.push_back(its);
    return true;
  }
  part& of(std::size_t which, rank r) { return parts_[which][static_cast<std::size_t>(r)]; }
  std::vector<part>& of(std::size_t which) { return parts_[which]; }

  /// Makes ranks request rounds and makes streams advance, in random order. Stops when all allreduces have completed
  /// `rounds` rounds with correct results.
  bool run(const std::vector<bool>& gated, round_no rounds) {
    return world.run_until([&] {
      const auto r = static_cast<rank>(world.draw_below(static_cast<std::uint64_t>(ranks_)));
      const std::size_t which = world.draw_below(gated.size());
      advance(of(which, r), world.at(r), gated[which], rounds);
      return std::ranges::all_of(parts_, [&](const auto& parts) {
        return std::ranges::all_of(parts, [&](const part& one) { return one.taken >= rounds; });
      });
    });
  }

  lockstep_world world;
  std::vector<stepped_device*> devices;

 private:
  void advance(part& one, engine& where, bool is_gated, round_no rounds) {
    if (!is_gated) {
      if (one.it->finished.load() == rounds && one.taken < rounds) return one.take(rounds);
      if (one.it->called.load() < rounds) one.start_next(where);
      return;
    }
    const round_no called = one.it->called.load();
    const bool may_ask = called < rounds && called - one.it->finished.load() < round_gate::k_most_ahead;
    if (may_ask && world.draw_below(2) == 0) one.ask(where);
    one.advance_stream();
  }

  rank ranks_;
  std::vector<std::vector<part>> parts_;
  std::vector<std::vector<instance*>> all_;
};

std::uint64_t seeds() { return sampled() ? 3 : 40; }

TEST(gate, gated_and_other_rounds_of_one_world_have_the_right_results) {
  for (const rank ranks : {3, 5, 6, 7, 4, 8})
    for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
      gated_world all(ranks, seed);
      const std::vector<bool> gated{true, false, true};
      ASSERT_TRUE(all.add(true) && all.add(false) && all.add(true, "tree", 300));
      ASSERT_TRUE(all.run(gated, 20)) << "seed " << seed;
    }
}

TEST(gate, sixteen_rounds_asked_ahead_run_one_after_the_other) {
  gated_world all(3, 1);
  ASSERT_TRUE(all.add(true));
  for (rank r = 0; r < 3; ++r)
    for (round_no round = 1; round <= round_gate::k_most_ahead; ++round) all.of(0, r).ask(all.world.at(r));
  for (round_no round = 0; round <= round_gate::k_most_ahead; ++round) {
    all.world.settle();
    for (part& one : all.of(0)) {
      EXPECT_EQ(one.it->finished.load(), round);
      EXPECT_EQ(one.gate().released(), round);
      for (int things = 0; things < 3; ++things) one.advance_stream();  // checks this round, and writes the next input
    }
  }
  for (part& one : all.of(0)) EXPECT_EQ(one.taken, round_gate::k_most_ahead);
}

TEST(gate, a_round_that_no_stream_has_asked_for_begins_at_once) {
  gated_world all(2, 1);
  ASSERT_TRUE(all.add(true));
  all.of(0, 0).ask(all.world.at(0));
  all.of(0, 1).bring(1);
  lockstep_world::start(all.world.at(1), *all.of(0, 1).it);
  all.world.settle();
  EXPECT_EQ(all.of(0, 1).it->phase, phase::running);
  EXPECT_EQ(all.of(0, 0).it->phase, phase::idle);
  all.of(0, 0).advance_stream();
  ASSERT_TRUE(all.world.run_until([&] { return all.of(0, 1).it->finished.load() == 1; }));
  all.of(0, 1).take(1);
  all.world.settle();
  while (all.of(0, 0).taken == 0) all.of(0, 0).advance_stream();
}

TEST(gate, a_waiting_round_says_what_it_waits_for_and_keeps_its_instance) {
  gated_world all(1, 1);
  ASSERT_TRUE(all.add(true));
  part& one = all.of(0, 0);
  all.world.settle();
  EXPECT_FALSE(all.world.at(0).is_listening());
  EXPECT_FALSE(all.world.at(0).has_only_called_rounds());  // no caller waits for a round that a stream starts
  one.ask(all.world.at(0));
  all.world.settle();
  EXPECT_TRUE(all.world.at(0).is_listening());
  EXPECT_EQ(all.world.at(0).remove(*one.it), status::busy);
  EXPECT_EQ(all.world.at(0).bind(*one.it, {}), status::state);
  EXPECT_NE(all.world.at(0).describe_wait(*one.it, nullptr).find("round 1: waits for the caller's stream"),
            std::string::npos);
  for (int things = 0; things < 3; ++things) {
    one.advance_stream();
    all.world.settle();
  }
  EXPECT_EQ(one.taken, 1u);
  EXPECT_FALSE(all.world.at(0).is_listening());
}

TEST(gate, a_cancellation_releases_all_rounds_that_were_asked_for) {
  gated_world all(3, 1);
  ASSERT_TRUE(all.add(true));
  for (rank r = 0; r < 3; ++r)
    for (int ahead = 0; ahead <= r; ++ahead) all.of(0, r).ask(all.world.at(r));
  all.world.settle();
  all.world.at(0).cancel(*all.of(0, 0).it);
  all.world.settle();
  for (rank r = 0; r < 3; ++r) {
    EXPECT_EQ(all.of(0, r).it->verdict.load(), status::cancelled);
    EXPECT_EQ(all.of(0, r).gate().released(), static_cast<round_no>(r) + 1);
    EXPECT_FALSE(all.world.at(r).is_listening());
  }
}

TEST(gate, a_device_that_fails_at_the_gate_ends_the_schedule) {
  gated_world all(2, 1);
  ASSERT_TRUE(all.add(true));
  for (rank r = 0; r < 2; ++r) all.of(0, r).ask(all.world.at(r));
  all.world.settle();
  all.devices[1]->fail();
  all.world.settle();
  EXPECT_EQ(all.of(0, 1).it->verdict.load(), status::device);
  EXPECT_EQ(all.of(0, 1).gate().released(), 1u);
  EXPECT_EQ(all.of(0, 0).it->verdict.load(), status::cancelled) << "the other rank is cancelled";
  EXPECT_EQ(all.of(0, 0).gate().released(), 1u);
}

TEST(gate, one_that_comes_late_has_released_what_is_over) {
  gated_world all(1, 1);
  ASSERT_TRUE(all.add(false));
  part& one = all.of(0, 0);
  one.start_next(all.world.at(0));
  all.world.settle();
  ASSERT_EQ(all.world.at(0).add_gate(*one.it), status::ok);
  EXPECT_EQ(one.gate().released(), 1u);
  EXPECT_EQ(all.world.at(0).add_gate(*one.it), status::state);
}

TEST(gate, there_is_none_without_memory_or_on_a_device_that_has_failed) {
  gated_world all(1, 1);
  ASSERT_TRUE(all.add(false));
  all.devices[0]->refuse_after(0);
  EXPECT_EQ(all.world.at(0).add_gate(*all.of(0, 0).it), status::no_memory);
  all.devices[0]->fail();
  EXPECT_EQ(all.world.at(0).add_gate(*all.of(0, 0).it), status::device);
  EXPECT_FALSE(all.of(0, 0).it->has_gate.load());
}

TEST(gate, one_that_could_not_be_noted_is_not_there) {
  int after = 0;
  for (bool is_made = false; !is_made; ++after) {
    gated_world all(1, 1);
    ASSERT_TRUE(all.add(false));
    part& one = all.of(0, 0);
    try {
      const failing_allocations fail(after);
      ASSERT_EQ(all.world.at(0).add_gate(*one.it), status::ok);
      is_made = true;
    } catch (const std::bad_alloc&) {
      EXPECT_FALSE(one.it->has_gate.load());
      ASSERT_EQ(all.world.at(0).add_gate(*one.it), status::ok) << "after " << after;
    }
    one.ask(all.world.at(0));
    all.world.settle();
    for (int things = 0; things < 3; ++things) {
      one.advance_stream();
      all.world.settle();
    }
    EXPECT_EQ(one.taken, 1u) << "after " << after;
  }
  EXPECT_GT(after, 1) << "nothing was allocated";
}

}  // namespace
}  // namespace lsched::testing
