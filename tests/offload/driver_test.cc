// Tests of the driver, which runs the engine of a rank in the threads that call the library. Ranks are threads over
// shared memory. A rank may have an auxiliary thread, which makes progress while the application computes. Every wait
// has a deadline. A missed deadline reports the ops that the rank waits for.
#include "offload/driver.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/rooted/rooted.h"
#include "libsched/schedule/draw.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/progress_thread.h"
#include "tests/support/generators.h"
#include "tests/support/home_commits.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = driver::clock;
using integers = std::vector<std::int64_t>;

constexpr auto k_limit = 30s;  // time limit of waits that must succeed

const std::byte* bytes_of(const integers& from) { return reinterpret_cast<const std::byte*>(from.data()); }
std::byte* bytes_of(integers& from) { return reinterpret_cast<std::byte*>(from.data()); }

/// One rank, with all parts of the runtime behind the C interface.
class node {
 public:
  node(const std::shared_ptr<shm_segment>& segment, rank self, idle_policy policy, bool has_auxiliary)
      : net_(std::move(*shm_endpoint::open(segment, self))),
        engine_(*net_),
        driver_(engine_, policy),
        commits_(engine_) {
    if (has_auxiliary) auxiliary_.emplace(driver_, std::nullopt);
  }

  engine& at() { return engine_; }
  driver& by() { return driver_; }
  shm_endpoint& net() { return *net_; }
  world place() const { return net_->place(); }

  instance* commit(const commit_request& what) {
    std::shared_ptr<schedule_commit> made;
    driver_.with_engine([&] { made = commits_.add(what); });
    const status answer = driver_.wait(made->progress(), clock::now() + k_limit);
    if (answer == status::ok) return made->committed();
    ADD_FAILURE() << "commit: " << name_of(answer) << " " << made->why().text;
    return nullptr;
  }

  instance* commit_allreduce(const integers& input, integers& output) {
    const shape data{input.size(), dtype::i64, kernel::sum, false};
    return commit({"allreduce", allreduce_recursive_doubling(place(), data), {{bytes_of(input)}, {bytes_of(output)}}});
  }

  instance* commit_partial(std::uint64_t count, activation starts, lag_policy lag) {
    return commit({"partial", partial_allreduce(place(), {count, dtype::i64, kernel::sum, false}, starts), {}, {lag}});
  }

  /// Waits for a round. Adds a test failure if the wait does not succeed.
  bool wait(instance& it, round_no round) { return judge(it, driver_.wait(it, round, clock::now() + k_limit)); }
  bool run(instance& it) {
    round_no round = 0;
    return judge(it, driver_.run(it, &round, clock::now() + k_limit));
  }

  void call(instance& it, round_no round) {
    if (it.called < round) it.called.store(round);
    engine_.post(it);
    driver_.run_posted();
  }

  bool leave(instance& it) {
    it.partial->fragments.front().offers->leave();
    call(it, k_last_round);
    return wait(it, k_last_round);
  }

  void remove(instance& it) {
    driver_.with_engine([&] {
      (void)engine_.step();
      EXPECT_EQ(engine_.remove(it), status::ok);
    });
  }

  std::string describe(instance& it, rank* waits_for = nullptr) {
    std::string text;
    driver_.with_engine([&] { text = engine_.describe_wait(it, waits_for); });
    return text;
  }

 private:
  bool judge(instance& it, status answer) {
    if (answer == status::ok) return true;
    ADD_FAILURE() << "rank " << place().self << ": " << name_of(answer) << ": " << describe(it);
    return false;
  }

  std::unique_ptr<shm_endpoint> net_;
  engine engine_;
  driver driver_;
  testing::home_commits commits_;
  std::optional<progress_thread> auxiliary_;
};

/// A source of random delays of a few spins or a few yields.
class jitter {
 public:
  jitter(std::uint64_t seed, rank self) : state_(mix(seed) ^ static_cast<std::uint64_t>(self)) {}
  std::uint64_t below(std::uint64_t limit) { return (state_ = mix(state_)) % limit; }
  void delay() {
    const std::uint64_t choice = below(8);
    for (std::uint64_t n = choice < 3 ? below(2000) : 0; n > 0; --n) sink_ = sink_ + n;
    for (std::uint64_t n = choice == 3 ? below(4) : 0; n > 0; --n) std::this_thread::yield();
  }

 private:
  std::uint64_t state_;
  std::atomic<std::uint64_t> sink_{0};
};

struct setting {
  rank ranks = 2;
  bool has_auxiliary = false;
  idle_mode idle = idle_mode::automatic;
  unsigned cores = 2;
};

/// Runs `body` for every rank of a world, each in a thread of its own.
template <class Body>
void with_world(const setting& how, Body&& body) {
  auto segment = shm_segment::create(how.ranks, 64 << 20);
  ASSERT_TRUE(segment);
  const idle_policy policy = make_idle_policy(how.idle, static_cast<unsigned>(how.ranks), how.cores);
  std::vector<std::unique_ptr<node>> nodes;
  for (rank r = 0; r < how.ranks; ++r) nodes.push_back(std::make_unique<node>(*segment, r, policy, how.has_auxiliary));
  std::vector<std::jthread> threads;
  for (rank r = 0; r < how.ranks; ++r) threads.emplace_back([&, r] { body(*nodes[static_cast<std::size_t>(r)]); });
  threads.clear();
}

std::string text_of(const setting& how) {
  return std::to_string(how.ranks) + " ranks, " + (how.has_auxiliary ? "auxiliary threads" : "callers drive") +
         ", idle mode " + std::to_string(static_cast<int>(how.idle));
}

std::vector<setting> settings() {
  std::vector<setting> all;
  for (const bool has_auxiliary : {false, true})
    for (const rank ranks : {2, 3, 5, 7, 8}) all.push_back({ranks, has_auxiliary});
  for (const idle_mode mode : {idle_mode::park, idle_mode::yield, idle_mode::spin})
    for (const bool has_auxiliary : {false, true}) all.push_back({2, has_auxiliary, mode});
  all.push_back({5, true, idle_mode::park});
  return all;
}

// --- allreduce -----------------------------------------------------------------------------------------------

void run_allreduces(node& me, int rounds, std::size_t count, std::uint64_t seed) {
  integers input(count);
  integers output(count);
  instance* it = me.commit_allreduce(input, output);
  if (it == nullptr) return;
  jitter delays(seed, me.place().self);
  const std::int64_t size = me.place().size;
  for (std::int64_t round = 1; round <= rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) input[i] = round * (me.place().self + 1) + static_cast<std::int64_t>(i);
    delays.delay();
    if (delays.below(2) == 0) {
      round_no asked = 0;
      EXPECT_EQ(me.by().start(*it, &asked), status::ok);
      EXPECT_EQ(asked, static_cast<round_no>(round));
      delays.delay();
      if (!me.wait(*it, asked)) return;
    } else if (!me.run(*it)) {
      return;
    }
    for (std::size_t i = 0; i < count; ++i)
      if (output[i] != round * size * (size + 1) / 2 + size * static_cast<std::int64_t>(i)) {
        ADD_FAILURE() << "rank " << me.place().self << ", round " << round << ", element " << i << ": " << output[i]
                      << "; seed " << seed;
        return;
      }
  }
  me.remove(*it);
}

TEST(driver, allreduce_rounds_are_exact_whoever_drives) {
  for (const setting& how : settings()) {
    SCOPED_TRACE(text_of(how));
    const int rounds = testing::sampled() ? 30 : 150;
    with_world(how, [&](node& me) { run_allreduces(me, rounds, 5, 1); });
    with_world(how, [&](node& me) { run_allreduces(me, rounds / 5, 3000, 2); });  // receivers read the sender's memory
    if (HasFailure()) return;
  }
}

// --- partial rounds ------------------------------------------------------------------------------------------

// Every rank offers vectors of ones. At the end, the results that each rank has collected must add up to all offers.
void run_partials(node& me, activation starts, int rounds, std::size_t count, std::uint64_t seed) {
  instance* it = me.commit_partial(count, starts, lag_policy::accumulate);
  if (it == nullptr) return;
  jitter delays(seed, me.place().self);
  integers ones(count, 1);
  integers got(count);
  std::int64_t total = 0;
  const auto collect = [&] {
    const auto what = it->partial->fragments.front().results->collect(bytes_of(got));
    if (!what || what->null) return;
    EXPECT_TRUE(std::ranges::all_of(got, [&](std::int64_t value) { return value == got[0]; }));
    EXPECT_EQ(static_cast<std::uint64_t>(got[0]), what->offers);
    EXPECT_LE(what->contributors, static_cast<std::uint64_t>(me.place().size));
    total += got[0];
  };
  for (int round = 1; round <= rounds; ++round) {
    delays.delay();
    it->partial->fragments.front().offers->offer(bytes_of(ones));
    me.call(*it, static_cast<round_no>(round));
    delays.delay();
    if (delays.below(4) == 0) continue;  // does not wait for some rounds
    if (!me.wait(*it, static_cast<round_no>(round))) return;
    collect();
  }
  if (!me.leave(*it)) return;
  collect();
  EXPECT_EQ(total, std::int64_t{rounds} * me.place().size) << "rank " << me.place().self << "; seed " << seed;
  me.remove(*it);
}

void check_partials(const setting& how, int rounds, std::uint64_t seed) {
  for (const activation_policy policy :
       {activation_policy::solo, activation_policy::majority, activation_policy::full}) {
    SCOPED_TRACE(text_of(how) + ", " + std::string(name_of(policy)));
    with_world(how, [&](node& me) { run_partials(me, {policy, seed}, rounds, 3, seed); });
    with_world(how, [&](node& me) { run_partials(me, {policy, seed}, rounds / 5, 3000, seed); });
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(driver, partial_rounds_lose_nothing_whoever_drives) {
  for (const setting& how : settings()) {
    check_partials(how, testing::sampled() ? 20 : 60, 3);
    if (HasFailure()) return;
  }
}

TEST(driver_soak, rounds_of_all_kinds_for_a_long_time) {
  for (std::uint64_t seed = 10; seed < 20; ++seed)
    for (const setting& how : settings()) {
      check_partials(how, 1000, seed);
      with_world(how, [&](node& me) { run_allreduces(me, 2000, 5, seed); });
      if (HasFailure()) return;
    }
}

// Only the auxiliary threads serve the offers of ranks that compute all the time.
TEST(driver, an_auxiliary_thread_serves_ranks_that_never_wait) {
  for (const rank ranks : {2, 3, 5}) {
    std::atomic<bool> is_over{false};
    with_world({ranks, true}, [&](node& me) {
      instance* it = me.commit_partial(4, {activation_policy::solo, 0}, lag_policy::accumulate);
      if (it == nullptr) return;
      if (me.place().self == 0) {
        for (round_no round = 1; round <= 50; ++round) {
          me.call(*it, round);
          if (!me.wait(*it, round)) break;
        }
        is_over.store(true);
      } else {
        // This rank makes no call into the library. The deadline passes only if the test has already failed.
        for (const auto deadline = clock::now() + k_limit; !is_over.load() && clock::now() < deadline;)
          std::this_thread::yield();
        EXPECT_GE(it->finished.load() + 1, 50u);
      }
      me.leave(*it);
      me.remove(*it);
    });
  }
}

// Callers compute on all cores, so the auxiliary threads at first leave the engine to the callers. No caller calls the
// library again, so the auxiliary threads must finish the rounds.
TEST(driver, an_auxiliary_thread_finishes_rounds_of_callers_that_compute_on_every_core) {
  for (const rank ranks : {2, 5}) {
    with_world({ranks, true}, [&](node& me) {
      integers input(4, me.place().self), output(4);
      instance* it = me.commit_allreduce(input, output);
      if (it == nullptr) return;
      for (round_no round = 1; round <= 30; ++round) {
        EXPECT_EQ(me.by().start(*it, nullptr), status::ok);
        const auto deadline = clock::now() + k_limit;
        while (it->finished.load() < round && clock::now() < deadline) {
        }
        if (!me.wait(*it, round)) return;
        EXPECT_EQ(output[3], ranks * (ranks - 1) / 2);
        EXPECT_LT(clock::now(), deadline) << "no thread finished round " << round << " except the wait";
      }
      me.remove(*it);
    });
  }
}

TEST(driver, only_rounds_that_somebody_has_called_for_may_be_left_to_callers) {
  with_world({2, true}, [&](node& me) {
    const auto may_be_left = [&] {
      bool answer = false;
      me.by().with_engine([&] { answer = me.at().has_only_called_rounds(); });
      return answer;
    };
    integers input(4), output(4);
    instance* called = me.commit_allreduce(input, output);
    EXPECT_TRUE(may_be_left());
    instance* served = me.commit_partial(4, {activation_policy::solo, 0}, lag_policy::accumulate);
    if (called == nullptr || served == nullptr) return;
    EXPECT_FALSE(may_be_left());
    me.leave(*served);
    me.remove(*served);
    EXPECT_TRUE(may_be_left());
    me.remove(*called);
  });
}

// --- several threads of one rank -----------------------------------------------------------------------------

TEST(driver, several_threads_of_a_rank_wait_for_schedules_of_their_own) {
  for (const bool has_auxiliary : {false, true})
    for (const idle_mode mode : {idle_mode::automatic, idle_mode::park}) {
      constexpr std::size_t threads = 3;
      with_world({2, has_auxiliary, mode}, [&](node& me) {
        std::vector<integers> inputs(threads, integers(4)), outputs = inputs;
        std::vector<instance*> its;
        for (std::size_t t = 0; t < threads; ++t) its.push_back(me.commit_allreduce(inputs[t], outputs[t]));
        if (std::ranges::find(its, nullptr) != its.end()) return;
        std::vector<std::jthread> waiters;
        for (std::size_t t = 0; t < threads; ++t)
          waiters.emplace_back([&, t] {
            jitter delays(t, me.place().self);
            for (std::int64_t round = 1; round <= (testing::sampled() ? 30 : 200); ++round) {
              inputs[t].assign(4, round + static_cast<std::int64_t>(t));
              delays.delay();
              if (!me.run(*its[t])) return;
              EXPECT_EQ(outputs[t], integers(4, 2 * (round + static_cast<std::int64_t>(t))));
            }
          });
        waiters.clear();
        for (instance* it : its) me.remove(*it);
      });
    }
}

TEST(driver, one_thread_starts_and_any_number_wait) {
  for (const bool has_auxiliary : {false, true})
    with_world({3, has_auxiliary}, [&](node& me) {
      integers input(4, 1);
      integers output(4);
      instance* it = me.commit_allreduce(input, output);
      if (it == nullptr) return;
      for (round_no round = 1; round <= 40; ++round) {
        std::vector<std::jthread> waiters;  // some threads wait before the round is started
        for (int t = 0; t < 2; ++t) waiters.emplace_back([&] { me.wait(*it, round); });
        EXPECT_EQ(me.by().start(*it, nullptr), status::ok);
        waiters.emplace_back([&] { me.wait(*it, round); });
        waiters.clear();
        EXPECT_EQ(output, integers(4, 3));
      }
      me.remove(*it);
    });
}

// --- state and time ------------------------------------------------------------------------------------------

/// Ranks 0 and 1, which have committed an allreduce. The test drives both ranks step by step.
struct pair_of_nodes {
  explicit pair_of_nodes(bool has_auxiliary = false, idle_mode mode = idle_mode::automatic) {
    auto segment = shm_segment::create(2, 64 << 20);
    const idle_policy policy = make_idle_policy(mode, 2, 2);
    zero = std::make_unique<node>(*segment, 0, policy, has_auxiliary);
    one = std::make_unique<node>(*segment, 1, policy, has_auxiliary);
    std::jthread other([&] { its[1] = one->commit_allreduce(inputs[1], outputs[1]); });
    its[0] = zero->commit_allreduce(inputs[0], outputs[0]);
  }
  std::unique_ptr<node> zero, one;
  integers inputs[2]{integers(4, 1), integers(4, 2)}, outputs[2]{integers(4), integers(4)};
  instance* its[2]{};
};

TEST(driver, a_wait_times_out_says_for_what_and_succeeds_after_the_late_rank_has_come) {
  for (const bool has_auxiliary : {false, true}) {
    pair_of_nodes pair(has_auxiliary);
    ASSERT_TRUE(pair.its[0] != nullptr && pair.its[1] != nullptr);
    EXPECT_EQ(pair.zero->by().start(*pair.its[0], nullptr), status::ok);
    EXPECT_EQ(pair.zero->by().start(*pair.its[0], nullptr), status::state);
    const auto before = clock::now();
    EXPECT_EQ(pair.zero->by().wait(*pair.its[0], 1, before + 20ms), status::timeout);
    EXPECT_GE(clock::now() - before, 20ms);
    EXPECT_EQ(pair.zero->by().wait(*pair.its[0], 1, clock::now()), status::timeout);
    rank waits_for = k_no_rank;
    const std::string text = pair.zero->describe(*pair.its[0], &waits_for);
    EXPECT_EQ(waits_for, 1);
    for (const char* word : {"allreduce", "round 1", "ops not started", "rank 1"})
      EXPECT_NE(text.find(word), std::string::npos) << text;

    std::jthread late([&] { EXPECT_TRUE(pair.one->run(*pair.its[1])); });
    EXPECT_TRUE(pair.zero->wait(*pair.its[0], 1));
    EXPECT_EQ(pair.outputs[0], integers(4, 3));
  }
}

TEST(driver, a_deadline_holds_while_other_schedules_are_busy) {
  with_world({2, false}, [](node& me) {
    integers input(4, 1), output(4), idle_output(4);
    instance* busy = me.commit_allreduce(input, output);
    instance* idle = me.commit_allreduce(input, idle_output);
    if (busy == nullptr || idle == nullptr) return;
    std::atomic<bool> has_timed_out{false};
    std::jthread waiter([&] {
      EXPECT_EQ(me.by().wait(*idle, 1, clock::now() + 50ms), status::timeout);
      has_timed_out.store(true);
    });
    // Both ranks run the same number of rounds, and the waiter's deadline passes during these rounds.
    for (int round = 0; round < (testing::sampled() ? 200 : 3000); ++round)
      if (!me.run(*busy)) return;
    waiter.join();
    EXPECT_TRUE(has_timed_out.load());
  });
}

TEST(driver, a_peer_that_closes_without_coming_ends_the_wait) {
  for (const bool has_auxiliary : {false, true}) {
    pair_of_nodes pair(has_auxiliary);
    ASSERT_TRUE(pair.its[0] != nullptr && pair.its[1] != nullptr);
    EXPECT_EQ(pair.zero->by().start(*pair.its[0], nullptr), status::ok);
    std::jthread closing([&] { pair.one->by().with_engine([&] { pair.one->net().close(); }); });
    EXPECT_EQ(pair.zero->by().wait(*pair.its[0], 1, clock::now() + k_limit), status::peer);
    EXPECT_EQ(pair.its[0]->culprit.load(), 1);
    EXPECT_EQ(pair.zero->by().start(*pair.its[0], nullptr), status::peer);
    pair.zero->remove(*pair.its[0]);
  }
}

TEST(driver, a_job_that_throws_gives_the_engine_back) {
  pair_of_nodes pair;
  EXPECT_THROW(pair.zero->by().with_engine([] { throw std::runtime_error("on purpose"); }), std::runtime_error);
  std::jthread other([&] { EXPECT_TRUE(pair.one->run(*pair.its[1])); });
  EXPECT_TRUE(pair.zero->run(*pair.its[0]));
}

// --- wake-ups ------------------------------------------------------------------------------------------------

/// A counter of rounds that a lost wake-up has delayed. A lost wake-up does not hang a round, because a sleeping thread
/// wakes every 200 ms to check that its peers are alive. The round then takes about 200 ms instead of microseconds. A
/// few slow rounds are tolerated, because the machine may be busy.
class stalls {
 public:
  template <class Round>
  void measure(Round&& round) {
    const auto before = clock::now();
    round();
    if (clock::now() - before >= 100ms) ++count_;
  }
  ~stalls() { EXPECT_LE(count_.load(), 4) << "wake-ups are lost"; }

 private:
  std::atomic<int> count_{0};
};

int wakeup_rounds() { return testing::sampled() ? 300 : 3000; }

TEST(driver_wakeups, are_not_lost_between_ranks_that_sleep_at_once) {
  for (const bool has_auxiliary : {false, true}) {
    stalls slow;
    with_world({2, has_auxiliary, idle_mode::park}, [&](node& me) {
      integers input(4, 1), output(4);
      instance* it = me.commit_allreduce(input, output);
      if (it == nullptr) return;
      jitter delays(7, me.place().self);
      for (int round = 0; round < wakeup_rounds(); ++round) {
        delays.delay();
        slow.measure([&] { me.run(*it); });
      }
      me.remove(*it);
    });
  }
}

TEST(driver_wakeups, reach_the_thread_whose_round_another_thread_has_finished) {
  for (const bool has_auxiliary : {false, true}) {
    stalls slow;
    constexpr std::size_t threads = 3;
    with_world({2, has_auxiliary, idle_mode::park}, [&](node& me) {
      std::vector<integers> inputs(threads, integers(4)), outputs = inputs;
      std::vector<instance*> its;
      for (std::size_t t = 0; t < threads; ++t) its.push_back(me.commit_allreduce(inputs[t], outputs[t]));
      if (std::ranges::find(its, nullptr) != its.end()) return;
      std::vector<std::jthread> waiters;
      for (std::size_t t = 0; t < threads; ++t)
        waiters.emplace_back([&, t] {
          jitter delays(t, me.place().self);
          for (int round = 0; round < wakeup_rounds() / 3; ++round) {
            delays.delay();
            slow.measure([&] { me.run(*its[t]); });
          }
        });
      waiters.clear();
      for (instance* it : its) me.remove(*it);
    });
  }
}

// No thread waits inside the library, so only inline steps and the auxiliary threads make progress.
TEST(driver_wakeups, reach_the_auxiliary_thread_when_several_threads_start_and_none_waits) {
  stalls slow;
  constexpr std::size_t threads = 2;
  with_world({2, true, idle_mode::park}, [&](node& me) {
    std::vector<integers> inputs(threads, integers(4)), outputs = inputs;
    std::vector<instance*> its;
    for (std::size_t t = 0; t < threads; ++t) its.push_back(me.commit_allreduce(inputs[t], outputs[t]));
    if (std::ranges::find(its, nullptr) != its.end()) return;
    std::vector<std::jthread> starters;
    for (std::size_t t = 0; t < threads; ++t)
      starters.emplace_back([&, t] {
        jitter delays(t, me.place().self);
        for (round_no round = 1; round <= static_cast<round_no>(wakeup_rounds()); ++round) {
          delays.delay();
          slow.measure([&] {
            EXPECT_EQ(me.by().start(*its[t], nullptr), status::ok);
            for (const auto deadline = clock::now() + k_limit;
                 its[t]->finished.load() < round && clock::now() < deadline;)
              std::this_thread::yield();
          });
          if (its[t]->finished.load() < round) {
            ADD_FAILURE() << "no thread finished round " << round;
            return;
          }
        }
      });
    starters.clear();
    for (instance* it : its) me.remove(*it);
  });
}

// --- wake-ups, at the worst moment ---------------------------------------------------------------------------

/// The endpoint of rank 0. The test simulates rank 1 by calls of raise(). Hooks run when the driver queries the
/// endpoint, so that an event happens exactly in the interval in which a race is possible.
class scripted_endpoint final : public endpoint {
 public:
  explicit scripted_endpoint(bool sleeps_directly)
      : endpoint({0, 2}, "scripted", {.liveness = &peers, .direct = sleeps_directly ? &sockets : nullptr}) {}
  result<std::unique_ptr<board>> open_board(std::size_t) override { return failure{status::unsupported}; }
  std::unique_ptr<board> open_home_board() override { return nullptr; }
  result<std::vector<link_id>> attach(std::uint32_t, std::span<const rank>, bool,
                                      std::span<const edge_spec> edges) override {
    std::vector<link_id> links;
    for (const edge_spec& edge : edges) {
      links.push_back(static_cast<link_id>(registers_.size()));
      registers_.emplace_back(std::make_unique<std::atomic<round_no>>(0));
      armed_.push_back({edge.cookie, 0});
    }
    return links;
  }
  member_address address_of(std::uint32_t) const override { return {}; }
  status link(std::uint32_t, std::span<const member_address>) override { return status::ok; }
  void detach(std::uint32_t) override {}
  void cancel(std::uint32_t id, const end_reason& reason) override { report_cancelled({id, reason}); }
  void close_to_readers(std::uint32_t, const end_reason&) override {}
  void abandon(std::uint32_t) override {}
  status check_readers(std::uint32_t, rank*) override { return status::ok; }
  bool send(link_id, round_no, const message&) override { return true; }
  bool receive(link_id, round_no, message_target, arrival&) override { return true; }
  bool fetch(link_id, round_no, message_target, arrival&) override { return true; }
  void release(link_id, round_no) override {}
  void signal(link_id, round_no) override {}
  bool arm(link_id link, round_no round) override {
    if (*registers_[link] >= round) return true;
    armed_[link].round = round;
    return false;
  }
  void disarm(link_id link) override { armed_[link].round = 0; }
  std::size_t poll(std::span<completion> out) override {
    if (++polls == 20) happen(at_poll_20);
    set_moving(polls <= last_moving_poll);
    std::size_t found = 0;
    for (std::size_t link = 0; link < armed_.size(); ++link)
      if (armed_[link].round != 0 && *registers_[link] >= armed_[link].round)
        out[found++] = {armed_[link].cookie, std::exchange(armed_[link].round, 0), {}};
    return found;
  }
  bool is_listening() const override {
    happen(when_asked_for_listening);
    return std::ranges::any_of(armed_, [](const arm_state& one) { return one.round != 0; });
  }
  bool is_time_driven() const override {
    happen(when_asked_for_time);
    return false;
  }
  doorbell& bell() override { return bell_; }
  void close() override {}

  /// Sends the signal of a round, as rank 1 would. Any thread may call this function.
  void raise(std::size_t link, round_no round) {
    registers_[link]->exchange(round);
    ring_if_needed(bell_);
  }

  // Hooks, each of which runs once.
  mutable std::function<void()> when_asked_for_listening, when_asked_for_time, at_poll_20;
  std::uint64_t polls = 0;
  std::uint64_t last_moving_poll = 0;  ///< the last call of poll() that moves bytes of a long payload
  /// Counts the searches for lost peers.
  struct : endpoint_liveness {
    rank find_dead_peer() override { return ++searches, k_no_rank; }
    std::atomic<std::uint64_t> searches{0};
  } peers;
  /// Sockets without bytes: only rings end a direct sleep.
  struct scripted_sleep : direct_sleep {
    static constexpr std::uint32_t k_no_event = 1 << 20;  ///< ring() cannot write an event with this number
    bool claim() override {
      const bool is_free = !is_claimed.exchange(true);
      ++(is_free ? claims : refusals);
      if (is_free) bell->direct.store(k_no_event);
      return is_free;
    }
    void sleep(std::uint32_t epoch, std::chrono::nanoseconds timeout) override {
      EXPECT_TRUE(is_claimed.load());
      sleep_on(*bell, doorbell::waiter, epoch, timeout);
    }
    void end() override {
      bell->direct.store(0);
      EXPECT_TRUE(is_claimed.exchange(false));
    }
    doorbell* bell = nullptr;
    std::atomic<bool> is_claimed{false};
    std::atomic<int> claims{0}, refusals{0};
  } sockets;

 private:
  struct arm_state {
    std::uint64_t cookie;
    round_no round;
  };
  static void happen(std::function<void()>& what) {
    if (what) std::exchange(what, nullptr)();
  }
  std::vector<std::unique_ptr<std::atomic<round_no>>> registers_;
  std::vector<arm_state> armed_;
  doorbell bell_{};
};

/// A driver over a scripted_endpoint, with two schedules that wait for one signal each. By default, waiting threads
/// sleep as soon as possible.
struct scripted_rank {
  explicit scripted_rank(idle_policy policy = make_idle_policy(idle_mode::park, 1, 1), bool sleeps_directly = false)
      : net(sleeps_directly), by(what, policy) {
    net.sockets.bell = &net.bell();
    for (std::uint32_t tag = 0; tag < 2; ++tag) {
      builder to({0, 2}, "one signal");
      to.signal_recv(1, tag);
      its[tag] = *what.add(*to.compile(), {}, {});
      EXPECT_EQ(what.link(*its[tag], {}), status::ok);
      what.open(*its[tag]);
    }
  }
  scripted_endpoint net;
  engine what{net};
  driver by;
  instance* its[2]{};
};

constexpr auto k_much_less_than_a_liveness_period = 100ms;

TEST(driver_wakeups, see_a_message_that_comes_just_before_polling_is_given_up) {
  scripted_rank it;
  it.net.when_asked_for_listening = [&] { it.net.raise(0, 1); };  // wakes no thread, because no thread sleeps
  const auto before = clock::now();
  round_no round = 0;
  EXPECT_EQ(it.by.run(*it.its[0], &round, before + k_limit), status::ok);
  EXPECT_LT(clock::now() - before, k_much_less_than_a_liveness_period);
}

TEST(driver_wakeups, see_a_post_that_comes_between_the_last_look_and_letting_go) {
  scripted_rank it;
  it.net.raise(0, 1);
  it.net.raise(1, 1);
  it.net.when_asked_for_time = [&] {
    std::jthread([&] { EXPECT_EQ(it.by.start(*it.its[1], nullptr), status::ok); });  // the engine is busy
  };
  EXPECT_EQ(it.by.start(*it.its[0], nullptr), status::ok);
  EXPECT_EQ(it.its[0]->finished, 1u);
  EXPECT_EQ(it.its[1]->finished, 1u);
}

/// Waits until the operating system reports that the thread sleeps.
void expect_asleep(const std::atomic<pid_t>& id) {
  for (const auto deadline = clock::now() + k_limit; clock::now() < deadline; std::this_thread::yield()) {
    std::ifstream file("/proc/self/task/" + std::to_string(id.load()) + "/stat");
    std::string line;
    if (id.load() == 0 || !std::getline(file, line)) continue;
    if (const auto name_end = line.rfind(") "); name_end != std::string::npos && line[name_end + 2] == 'S') return;
  }
  ADD_FAILURE() << "the thread does not go to sleep";
}

/// Starts a round in this thread. Runs `event` after the thread has polled for the last time, but before the thread has
/// released the engine. `event` gets the id of the auxiliary thread, and must send the signal of the round. The
/// auxiliary thread or this thread must then finish the round.
void expect_finished_after(const std::function<void(scripted_rank&, const std::atomic<pid_t>&)>& event) {
  scripted_rank it;
  std::atomic<pid_t> id{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> is_set{false};
  // Only the thread that drives the engine may access the hook. Therefore the hook is installed before the other
  // threads start, and does nothing until `is_set` is true.
  std::function<void()> hook = [&] {
    if (!is_set.exchange(false)) return void(it.net.when_asked_for_time = hook);
    event(it, id);
  };
  it.net.when_asked_for_time = hook;
  std::jthread auxiliary([&] {
    id.store(gettid());
    it.by.serve(stop);
  });
  expect_asleep(id);
  is_set.store(true);
  EXPECT_EQ(it.by.start(*it.its[0], nullptr), status::ok);
  for (const auto deadline = clock::now() + k_limit / 10; it.its[0]->finished == 0 && clock::now() < deadline;)
    std::this_thread::yield();
  EXPECT_EQ(it.its[0]->finished, 1u);
  stop.store(true);
  it.by.wake_auxiliary();
}

/// A signal wakes the auxiliary thread.
TEST(driver_wakeups, reach_the_auxiliary_thread_that_woke_before_the_engine_was_free) {
  expect_finished_after([](scripted_rank& it, const std::atomic<pid_t>& id) {
    it.net.raise(0, 1);
    expect_asleep(id);  // waits until the auxiliary thread sleeps again
  });
}

/// A signal rings for another thread, which waits for another round and then gives up.
TEST(driver_wakeups, reach_the_owner_if_the_thread_that_was_rung_gives_up) {
  expect_finished_after([](scripted_rank& it, const std::atomic<pid_t>&) {
    std::atomic<bool> has_left = false;
    std::jthread leaving([&] {
      EXPECT_EQ(it.by.wait(*it.its[1], 1, clock::now() + 20ms), status::timeout);
      has_left = true;
    });
    while (it.net.bell().sleepers.load() == 0 && !has_left) std::this_thread::yield();
    it.net.raise(0, 1);
  });
}

/// Only the first of two sleeping threads claims the sockets.
TEST(driver_wakeups, reach_a_direct_sleeper_and_a_sleeper_on_the_bell) {
  scripted_rank it(make_idle_policy(idle_mode::park, 1, 1), true);
  for (instance* one : it.its) EXPECT_EQ(it.by.start(*one, nullptr), status::ok);
  std::atomic<pid_t> ids[2]{};
  std::vector<std::jthread> waiters;
  for (std::size_t i = 0; i < 2; ++i) {
    waiters.emplace_back([&, i] {
      ids[i] = gettid();
      EXPECT_EQ(it.by.wait(*it.its[i], 1, clock::now() + k_limit), status::ok);
    });
    expect_asleep(ids[i]);
  }
  const auto before = clock::now();
  it.net.raise(0, 1);
  it.net.raise(1, 1);
  waiters.clear();
  EXPECT_LT(clock::now() - before, k_limit / 2);
  EXPECT_GE(it.net.sockets.claims.load(), 1);
  EXPECT_GE(it.net.sockets.refusals.load(), 1);
  EXPECT_FALSE(it.net.sockets.is_claimed.load());
}

TEST(driver_wakeups, reach_a_sleeper_whose_round_was_finished_by_another_one) {
  scripted_rank it;
  for (instance* one : it.its) EXPECT_EQ(it.by.start(*one, nullptr), status::ok);
  std::atomic<pid_t> ids[2]{};
  std::jthread longer([&] {
    ids[0] = gettid();
    EXPECT_EQ(it.by.wait(*it.its[1], 1, clock::now() + k_limit), status::ok);
  });
  expect_asleep(ids[0]);  // this thread sleeps first, so that a wake-up reaches it first
  clock::time_point before{};
  std::jthread shorter([&] {
    ids[1] = gettid();
    EXPECT_EQ(it.by.wait(*it.its[0], 1, clock::now() + k_limit), status::ok);
    EXPECT_LT(clock::now() - before, k_much_less_than_a_liveness_period);
  });
  expect_asleep(ids[1]);
  before = clock::now();
  it.net.raise(0, 1);
  shorter.join();
  it.net.raise(1, 1);
}

// --- idleness ------------------------------------------------------------------------------------------------

std::chrono::microseconds processor_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return std::chrono::seconds(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         std::chrono::microseconds(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

constexpr auto k_window = 500ms;             // duration of the measurement, in which the world is idle
constexpr auto k_allowance = k_window / 20;  // maximum processor time of all ranks: 5 % of one core

TEST(driver_idleness, a_world_that_serves_partial_schedules_and_is_not_called_sleeps) {
  with_world({4, true}, [&](node& me) {
    instance* it = me.commit_partial(100, {activation_policy::solo, 0}, lag_policy::latest);
    if (it == nullptr) return;
    me.call(*it, 1);
    if (!me.wait(*it, 1)) return;
    if (me.place().self == 0) {
      const auto before = processor_time();
      std::this_thread::sleep_for(k_window);
      EXPECT_LT(processor_time() - before, k_allowance);
    }
    me.leave(*it);  // the other ranks sleep here until rank 0 leaves
    me.remove(*it);
  });
}

/// Returns the number of polls in a wait that ends at its deadline.
std::uint64_t polls_of_a_wait(scripted_rank& it, std::chrono::milliseconds limit) {
  const std::uint64_t before = it.net.polls;
  EXPECT_EQ(it.by.wait(*it.its[0], 1, clock::now() + limit), status::timeout);
  return it.net.polls - before;
}

TEST(driver_idleness, a_thread_that_has_lost_its_core_sleeps_at_once_in_its_next_wait) {
  scripted_rank it(make_idle_policy(idle_mode::automatic, 1, 2));
  EXPECT_EQ(it.by.start(*it.its[0], nullptr), status::ok);
  it.net.at_poll_20 = [] {  // the thread loses its core to another program for 50 ms
    for (const auto end = clock::now() + 50ms; clock::now() < end;) continue;
  };
  EXPECT_GT(polls_of_a_wait(it, 400ms), 20u);
  EXPECT_LT(polls_of_a_wait(it, 20ms), 10u) << "the core was lost less than a second ago";
}

TEST(driver_idleness, a_thread_does_not_sleep_while_bytes_move) {
  scripted_rank it;
  it.net.last_moving_poll = 20;
  it.net.at_poll_20 = [&] { it.net.raise(0, 1); };
  const auto before = clock::now();
  round_no round = 0;
  EXPECT_EQ(it.by.run(*it.its[0], &round, before + k_limit), status::ok);
  EXPECT_LT(clock::now() - before, k_much_less_than_a_liveness_period);
}

TEST(driver_idleness, a_thread_searches_for_lost_peers_while_bytes_move) {
  constexpr auto k_two_liveness_periods = 120ms;
  scripted_rank it;
  it.net.last_moving_poll = UINT64_MAX;
  EXPECT_EQ(it.by.start(*it.its[0], nullptr), status::ok);
  EXPECT_EQ(it.by.wait(*it.its[0], 1, clock::now() + k_two_liveness_periods), status::timeout);
  EXPECT_GE(it.net.peers.searches.load(), 2u);
  std::atomic<bool> stop{false};
  std::jthread auxiliary([&] { it.by.serve(stop); });
  const std::uint64_t before = it.net.peers.searches.load();
  for (const auto deadline = clock::now() + k_limit; clock::now() < deadline; std::this_thread::yield())
    if (it.net.peers.searches.load() >= before + 2) break;
  EXPECT_GE(it.net.peers.searches.load(), before + 2);
  stop.store(true);
  it.by.wake_auxiliary();
}

TEST(driver_idleness, threads_that_wait_for_a_late_rank_sleep_however_many_they_are) {
  for (const bool has_auxiliary : {false, true})
    for (const int threads : {1, 2, 3}) {
      pair_of_nodes pair(has_auxiliary);
      ASSERT_TRUE(pair.its[0] != nullptr && pair.its[1] != nullptr);
      EXPECT_EQ(pair.zero->by().start(*pair.its[0], nullptr), status::ok);
      const auto before = processor_time();
      const auto deadline = clock::now() + k_window;
      std::vector<std::jthread> waiters;
      for (int t = 0; t < threads; ++t)
        waiters.emplace_back([&] { EXPECT_EQ(pair.zero->by().wait(*pair.its[0], 1, deadline), status::timeout); });
      waiters.clear();
      EXPECT_LT(processor_time() - before, k_allowance) << threads << " threads, " << has_auxiliary;
    }
}

}  // namespace
}  // namespace lsched
