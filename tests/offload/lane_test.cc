// Tests of the choice of a lane (the workers that compute for a rank), and of the oneTBB lane under the driver. Ranks
// are threads over shared memory. Results of the lane are compared with results that the engine computes itself.
#include "offload/lane_choice.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "build_options.h"
#include "collectives/allreduce/allreduce.h"
#include "libsched/schedule/draw.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/driver.h"
#include "offload/progress_thread.h"
#include "tests/support/sampling.h"
#if LSCHED_HAVE_TBB
#include "offload/tbb_lane.h"
#include "tests/support/generators.h"
#include "tests/support/home_commits.h"
#endif

namespace lsched {
namespace {

using namespace std::chrono_literals;

TEST(lane_choice, reads_what_the_documents_say) {
  EXPECT_EQ(parse_lane("auto"), k_lane_auto);
  EXPECT_EQ(parse_lane("inline"), k_lane_inline);
  EXPECT_EQ(parse_lane("tbb"), k_lane_tbb);
  EXPECT_EQ(parse_lane("tbb:3"), 3);
  EXPECT_EQ(parse_lane("tbb:1024"), 1024);
  for (const char* text :
       {"", "TBB", "tbb:", "tbb:0", "tbb:1025", "tbb:2x", "tbb: 2", "tbb:-1", "tbb:99999999999", "inline:2", "cuda"})
    EXPECT_FALSE(parse_lane(text)) << text;
}

#if LSCHED_HAVE_TBB
TEST(lane_choice, workers_are_cores_that_no_rank_needs) {
  const auto automatic = [](unsigned ranks, unsigned cores) { return lane_workers(k_lane_auto, ranks, cores); };
  EXPECT_EQ(automatic(1, 1), 0u);
  EXPECT_EQ(automatic(1, 2), 1u);
  EXPECT_EQ(automatic(2, 2), 0u);
  EXPECT_EQ(automatic(32, 2), 0u);
  EXPECT_EQ(automatic(3, 5), 0u) << "two free cores are less than one for each of three ranks";
  EXPECT_EQ(automatic(3, 6), 1u);
  EXPECT_EQ(automatic(2, 64), 31u);
  EXPECT_EQ(lane_workers(k_lane_tbb, 2, 2), 1u);
  EXPECT_EQ(lane_workers(k_lane_tbb, 1, 8), 7u);
  EXPECT_EQ(lane_workers(5, 2, 2), 5u);
  EXPECT_EQ(lane_workers(k_lane_inline, 1, 64), 0u);
  doorbell bell{};
  EXPECT_EQ(make_lane(k_lane_auto, 2, 2, bell), nullptr);
  EXPECT_NE(make_lane(k_lane_auto, 1, 2, bell), nullptr);
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

TEST(tbb_lane, workers_without_a_job_sleep) {
  doorbell bell{};
  tbb_lane beside(bell, 2);
  std::vector<float> a(1 << 20, 1), b(1 << 20, 2), c(1 << 20);
  const auto bytes = [](std::vector<float>& of) { return reinterpret_cast<std::byte*>(of.data()); };
  ASSERT_TRUE(beside.submit({.run = find(kernel::sum, dtype::f32),
                             .call = {.a = bytes(a), .b = bytes(b), .c = bytes(c), .count = a.size()},
                             .element_bytes = 4,
                             .cookie = 9}));
  beside.drain();
  EXPECT_EQ(c.back(), 3.0f);
  std::this_thread::sleep_for(200ms);  // meanwhile the workers of oneTBB go to sleep
  const double before = cpu_seconds();
  std::this_thread::sleep_for(400ms);
  EXPECT_LT(cpu_seconds() - before, 0.2) << "a thread spins";
}

/// A rank with a lane of two workers, or without a lane.
class node {
 public:
  node(const std::shared_ptr<shm_segment>& segment, rank self, bool has_lane, bool has_auxiliary, idle_mode idle)
      : net_(std::move(*shm_endpoint::open(segment, self))),
        lane_(has_lane ? std::make_unique<tbb_lane>(net_->bell(), 2) : nullptr),
        engine_(*net_, lane_.get()),
        driver_(engine_, make_idle_policy(idle, 8, 2)),
        commits_(engine_) {
    if (has_auxiliary) auxiliary_.emplace(driver_, std::nullopt);
  }

  instance* commit(const shape& data, const std::byte* input, std::byte* output) {
    const commit_request wanted{"lane", allreduce_recursive_doubling(net_->place(), data), {{input}, {output}}};
    std::shared_ptr<schedule_commit> made;
    driver_.with_engine([&] { made = commits_.add(wanted); });
    const status answer = driver_.wait(made->progress(), driver::clock::now() + 30s);
    return answer == status::ok ? made->committed() : nullptr;
  }
  bool run(instance& it, bool is_started_first) {
    const auto deadline = driver::clock::now() + 30s;
    round_no round = 0;
    if (!is_started_first) return driver_.run(it, &round, deadline) == status::ok;
    return driver_.start(it, &round) == status::ok && driver_.wait(it, round, deadline) == status::ok;
  }
  status remove(instance& it) {
    status answer = status::pending;
    driver_.with_engine([&] {
      (void)engine_.step();
      answer = engine_.remove(it);
    });
    return answer;
  }
  driver& by() { return driver_; }
  engine& at() { return engine_; }
  std::uint64_t jobs() {
    std::uint64_t count = 0;
    driver_.with_engine([&] { count = engine_.counters().lane_jobs; });
    return count;
  }

 private:
  std::unique_ptr<shm_endpoint> net_;
  std::unique_ptr<lane> lane_;
  engine engine_;
  driver driver_;
  testing::home_commits commits_;
  std::optional<progress_thread> auxiliary_;
};

struct outcome {
  std::vector<std::vector<std::byte>> outputs;
  std::uint64_t jobs = 0;
};

/// Runs three rounds of an allreduce. Returns the outputs of all ranks. Failures are added to the test.
outcome run_world(rank ranks, const shape& data, bool has_lane, bool has_auxiliary, idle_mode idle) {
  outcome all;
  const std::uint64_t bytes = data.count * size_of(data.type);
  all.outputs.resize(static_cast<std::size_t>(ranks), std::vector<std::byte>(bytes));
  auto segment = shm_segment::create(ranks, 64 << 20);
  std::vector<std::unique_ptr<node>> nodes;
  for (rank r = 0; r < ranks; ++r) nodes.push_back(std::make_unique<node>(*segment, r, has_lane, has_auxiliary, idle));
  std::vector<std::jthread> threads;
  for (rank r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      node& me = *nodes[static_cast<std::size_t>(r)];
      std::vector<std::byte> input(bytes);
      for (std::uint64_t i = 0; i < bytes; ++i)
        input[i] = static_cast<std::byte>(mix(i / 8 * 64 + static_cast<std::uint64_t>(r)) >> i % 8 * 8);
      instance* it = me.commit(data, input.data(), all.outputs[static_cast<std::size_t>(r)].data());
      ASSERT_NE(it, nullptr);
      for (int round = 0; round < 3; ++round) ASSERT_TRUE(me.run(*it, round % 2 == 1)) << "rank " << r;
      EXPECT_EQ(me.remove(*it), status::ok);
    });
  threads.clear();
  for (const auto& one : nodes) all.jobs += one->jobs();
  return all;
}

TEST(tbb_lane, results_have_the_bits_of_inline_arithmetic) {
  std::uint64_t which = 0;
  for (const kernel what : k_all_reductions)
    for (const dtype type : k_all_dtypes) {
      if (!supports(what, type) || (testing::sampled() && ++which % 6 != 0)) continue;
      const shape data{(1 << 20) / size_of(type) + 13, type, what, false};
      const outcome beside = run_world(3, data, true, false, idle_mode::automatic);
      const outcome inlined = run_world(3, data, false, false, idle_mode::automatic);
      EXPECT_EQ(beside.outputs, inlined.outputs) << name_of(what) << " " << name_of(type);
      EXPECT_GT(beside.jobs, 0u);
      EXPECT_EQ(inlined.jobs, 0u);
      if (HasFailure()) return;
    }
}

TEST(tbb_lane, waiters_that_sleep_hear_of_it) {
  const shape data{(1 << 20) / 8 + 5, dtype::f64, kernel::sum, false};
  for (const rank ranks : {3, 5, 6, 7})
    for (const bool has_auxiliary : {false, true}) {
      const outcome beside = run_world(ranks, data, true, has_auxiliary, idle_mode::park);
      for (const auto& output : beside.outputs) EXPECT_EQ(output, beside.outputs[0]);
      EXPECT_GT(beside.jobs, 0u);
      if (HasFailure()) return;
    }
}

TEST(tbb_lane, nothing_of_a_small_round_runs_on_it) {
  for (const std::uint64_t count : {0u, 1u, 1000u})
    EXPECT_EQ(run_world(3, {count, dtype::f32, kernel::sum, false}, true, false, idle_mode::automatic).jobs, 0u);
}

// The failure of the round is reported only after the job on the lane has ended, so that the caller may free the memory
// at once.
TEST(tbb_lane, an_abort_while_a_job_is_under_way) {
  std::uint64_t jobs = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const shape data{4 << 20, dtype::u8, kernel::sum, false};
    std::vector<std::byte> theirs(data.count), result(data.count);  // must outlive `other`, whose round does not end
    auto segment = shm_segment::create(2, 128 << 20);
    node me(*segment, 0, true, attempt % 2 == 1, idle_mode::automatic);
    node other(*segment, 1, true, false, idle_mode::automatic);
    auto input = std::make_unique<std::vector<std::byte>>(data.count, std::byte{1});
    auto output = std::make_unique<std::vector<std::byte>>(data.count);
    instance* it = nullptr;
    std::jthread peer([&] {
      instance* mine = other.commit(data, theirs.data(), result.data());
      if (mine == nullptr) return;
      EXPECT_EQ(other.by().start(*mine, nullptr), status::ok);
      for (int i = 0; i < 200 && mine->finished == 0; ++i) (void)other.by().progress();
    });
    it = me.commit(data, input->data(), output->data());
    ASSERT_NE(it, nullptr);
    round_no round = 0;
    ASSERT_EQ(me.by().start(*it, &round), status::ok);
    for (int i = 0; i < 100'000 && it->finished == 0; ++i) {
      bool is_on_lane = false;
      me.by().with_engine([&] { is_on_lane = it->jobs != 0; });
      if (is_on_lane) break;
    }
    me.by().with_engine([&] {
      jobs += it->jobs;
      if (it->jobs != 0) {
        EXPECT_EQ(me.at().remove(*it), status::busy);
      }
      me.at().fail_all(status::peer, 1);
    });
    const status answer = me.by().wait(*it, round, driver::clock::now() + 30s);
    EXPECT_TRUE(answer == status::peer || answer == status::ok) << name_of(answer);
    input.reset();
    output.reset();
    peer.join();
    if (answer == status::peer) {
      EXPECT_EQ(me.remove(*it), status::ok);
    }
  }
  EXPECT_GT(jobs, 0u) << "no attempt met a running job";
}
#endif

}  // namespace
}  // namespace lsched
