// Tests of replica groups through the C interface. The ranks are processes for the long run and for deaths, and threads
// otherwise.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "bindings/c/lsched.h"
#include "tests/support/one_bucket.h"
#include "tests/support/process_ranks.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::int32_t k_groups = 2, k_shards = 2, k_ranks = k_groups * k_shards;
using counts = std::array<std::int64_t, k_groups>;

lsched_partial_desc desc_of(const lsched_groups& groups, const char* activation) {
  return {.struct_size = sizeof(lsched_partial_desc),
          .count = k_groups,
          .dtype = LSCHED_I64,
          .reduction = LSCHED_SUM,
          .activation = activation,
          .lag = LSCHED_ACCUMULATE,
          .groups = &groups};
}

/// One rank of a world with replica groups. The contribution of group g is 1 in element g.
struct group_rank {
  group_rank(lsched_world* world, std::int32_t rank, const char* activation = "quorum(1)")
      : all(world), group(rank / k_shards), shard(rank % k_shards) {
    EXPECT_EQ(lsched_split(all, shard, rank, &of_shard, &why), LSCHED_OK) << why.text;
    const lsched_groups groups{.struct_size = sizeof groups, .all = all, .shards = k_shards};
    const lsched_partial_desc desc = desc_of(groups, activation);
    EXPECT_EQ(lsched_partial_create(of_shard, &desc, &schedule, &why), LSCHED_OK) << why.text;
    mine[static_cast<std::size_t>(group)] = 1;
  }

  lsched_status offer() { return lsched_offer(schedule, one_bucket<const std::int64_t>(mine.data()), &ticket); }
  lsched_status collect(std::uint64_t limit_ns = k_limit_ns) {
    sum = {};
    return lsched_collect(ticket, one_bucket(sum.data()), limit_ns, &report, &why);
  }
  lsched_status flush() {
    sum = {};
    return lsched_flush(schedule, one_bucket(sum.data()), k_limit_ns, &report, &why);
  }
  lsched_status close() {
    const lsched_status answer = lsched_schedule_destroy(schedule, k_limit_ns, &why);
    return answer != LSCHED_OK ? answer : lsched_world_close(of_shard);
  }

  lsched_world* all;
  const std::int32_t group, shard;
  lsched_world* of_shard = nullptr;
  lsched_schedule* schedule = nullptr;
  lsched_ticket ticket{};
  lsched_report report{.struct_size = sizeof(lsched_report)};
  diagnostic why;
  counts mine{}, sum{};
};

/// Memory that the processes of a test share.
template <class T>
class shared_array {
 public:
  explicit shared_array(std::size_t number) : bytes_(number * sizeof(T)) {
    void* made = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    data_ = made == MAP_FAILED ? nullptr : static_cast<T*>(made);
  }
  ~shared_array() { munmap(data_, bytes_); }
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  std::size_t bytes_;
  T* data_;
};

struct record {
  std::uint64_t from, to, groups, mine;
  counts sum;
  friend bool operator==(const record&, const record&) = default;
};

/// Runs loops of two groups until round `rounds`. Shard 1 of group 1 is slow. Then compares the reports of all ranks.
void run_rounds(std::uint64_t rounds) {
  const std::size_t room = rounds + 2;
  const shared_array<record> records(k_ranks * room);
  const shared_array<std::uint64_t> used(k_ranks);
  const auto life = [&]() -> int {
    const lsched_config config = test_config();
    lsched_world* world = nullptr;
    if (lsched_world_open(&config, &world, nullptr) != LSCHED_OK) return 2;
    const auto rank = lsched_rank(world);
    group_rank it(world, rank);
    std::uint64_t& number = used[static_cast<std::size_t>(rank)];
    const auto note = [&] {
      records[static_cast<std::size_t>(rank) * room + number++] = {it.report.from, it.report.to, it.report.groups,
                                                                   it.report.mine, it.sum};
    };
    while (it.report.to < rounds) {
      if (rank == k_ranks - 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
      if (it.offer() != LSCHED_OK) return 3;
      if (it.collect() != LSCHED_OK) return 4;
      note();
    }
    if (it.flush() != LSCHED_OK) return 5;
    note();
    if (it.close() != LSCHED_OK) return 6;
    return lsched_world_close(world) == LSCHED_OK && !::testing::Test::HasFailure() ? 0 : 7;
  };
  ASSERT_EQ(run_processes(k_ranks, life, std::chrono::seconds(500)), "");

  std::map<std::uint64_t, std::uint64_t> groups_of;
  std::array<counts, k_ranks> totals{};
  std::uint64_t single = 0, both = 0;
  for (std::size_t r = 0; r < k_ranks; ++r) {
    const std::size_t group = r / k_shards, first = group * k_shards;
    ASSERT_EQ(used[r], used[first]);
    for (std::size_t i = 0; i < used[r]; ++i) {
      const record& one = records[r * room + i];
      ASSERT_EQ(one, records[first * room + i]) << "rank " << r << ", result " << i;
      ASSERT_EQ(groups_of.try_emplace(one.to, one.groups).first->second, one.groups) << "round " << one.to;
      const bool is_flush = i + 1 == used[r];
      if (!is_flush) {
        ASSERT_EQ(one.mine > 0, (one.groups >> group & 1) != 0) << "rank " << r << ", round " << one.to;
      }
      for (std::size_t g = 0; g < k_groups; ++g) {
        totals[r][g] += one.sum[g];
        if (one.to - one.from == 1) {
          ASSERT_EQ(one.sum[g] > 0, (one.groups >> g & 1) != 0) << "rank " << r << ", round " << one.to;
        }
      }
      if (r == 0) {
        single += one.to - one.from == 1 ? 1u : 0u;
        both += one.groups == 3 ? 1u : 0u;
      }
    }
    ASSERT_EQ(totals[r], totals[0]) << "rank " << r;
    ASSERT_EQ(totals[r][group], static_cast<std::int64_t>(used[r] - 1)) << "rank " << r;
    ASSERT_EQ(records[r * room + used[r] - 1].to, records[used[0] - 1].to);
  }
  EXPECT_GE(records[used[0] - 1].to, rounds);
  std::printf("%llu rounds: group 0 made %llu steps, group 1 %llu; %llu results of one round, %llu with both groups\n",
              static_cast<unsigned long long>(records[used[0] - 1].to), static_cast<unsigned long long>(used[0] - 1),
              static_cast<unsigned long long>(used[k_shards] - 1), static_cast<unsigned long long>(single),
              static_cast<unsigned long long>(both));
}

TEST(c_groups, all_shards_of_a_group_are_in_or_out_together) { run_rounds(full() ? 100'000 : 3'000); }

TEST(c_groups, a_death_fails_the_calls_of_all_ranks) {
  const auto life = []() -> int {
    const lsched_config config = test_config();
    lsched_world* world = nullptr;
    if (lsched_world_open(&config, &world, nullptr) != LSCHED_OK) return 2;
    const auto rank = lsched_rank(world);
    group_rank it(world, rank);
    for (int step = 0; step < 1'000'000; ++step) {
      if (rank == 3 && step == 50) _exit(0);
      lsched_status answer = it.offer();
      if (answer == LSCHED_OK) answer = it.collect();
      if (answer == LSCHED_OK) continue;
      if (answer != LSCHED_ERR_PEER) return 3;
      if (it.why.status == LSCHED_ERR_PEER && it.why.rank != 3 && it.why.rank != 1) return 4;
      return lsched_schedule_destroy(it.schedule, k_limit_ns, nullptr) == LSCHED_OK ? 0 : 5;
    }
    return 6;
  };
  EXPECT_EQ(run_processes(k_ranks, life, std::chrono::seconds(60)), "");
}

/// Runs `body` for each rank, in one thread per rank.
template <class Body>
void each_rank(const Body& body, const char* activation = "quorum(1)") {
  const world_of_threads all(k_ranks);
  all.each([&](lsched_world* world, std::int32_t rank) {
    group_rank it(world, rank, activation);
    if (it.schedule == nullptr) return;
    body(it, rank);
    EXPECT_EQ(it.close(), LSCHED_OK) << it.why.text;
  });
}

TEST(c_groups, a_timeout_names_the_shard_that_has_not_offered) {
  each_rank([](group_rank& it, std::int32_t rank) {
    if (rank == 2) {
      EXPECT_EQ(it.offer(), LSCHED_OK);
      EXPECT_EQ(it.collect(until_named_ns(50'000'000)), LSCHED_ERR_TIMEOUT);
      EXPECT_EQ(it.why.rank, 3) << it.why.text;
      EXPECT_TRUE(it.why.says("shard 1 of group 1")) << it.why.text;
    }
    (void)sum_over(it.all, 1);
    if (rank == 3) {
      EXPECT_EQ(it.offer(), LSCHED_OK);
    }
    if (it.group == 1) {
      EXPECT_EQ(it.collect(), LSCHED_OK) << it.why.text;
      EXPECT_EQ(it.sum, (counts{0, 1}));
      EXPECT_EQ(it.report.groups, 2u);
      EXPECT_EQ(it.report.last.contributors, 1u);
      EXPECT_EQ(it.report.last.ranks, 2u);
    }
    EXPECT_EQ(it.flush(), LSCHED_OK) << it.why.text;
    EXPECT_EQ(it.report.to, 2u);
    EXPECT_EQ(it.report.groups, 0u);
    EXPECT_EQ(it.sum, (it.group == 1 ? counts{} : counts{0, 1}));
  });
}

TEST(c_groups, calls_that_groups_lack_are_refused) {
  each_rank(
      [](group_rank& it, std::int32_t rank) {
        std::uint64_t number = 0;
        EXPECT_EQ(lsched_withdraw(it.schedule, &number), LSCHED_ERR_UNSUPPORTED);
        EXPECT_EQ(lsched_leave(it.schedule), LSCHED_ERR_UNSUPPORTED);
        EXPECT_EQ(lsched_pending_load(it.schedule, &number, sizeof number), LSCHED_ERR_UNSUPPORTED);
        std::size_t needed = 0;
        EXPECT_EQ(lsched_schedule_save(it.schedule, LSCHED_STATE_PENDING, nullptr, 0, &needed), LSCHED_ERR_UNSUPPORTED);
        EXPECT_EQ(lsched_model_sync(it.schedule, it.sum.data(), 0, nullptr, &it.why), LSCHED_ERR_UNSUPPORTED);
        EXPECT_EQ(lsched_carry(it.schedule, it.all, &it.why), LSCHED_ERR_UNSUPPORTED) << it.why.text;
        EXPECT_EQ(lsched_skip(it.schedule, 5, &number), LSCHED_OK);
        EXPECT_EQ(number, 0u);
        if (it.group == 0) {
          EXPECT_EQ(it.offer(), LSCHED_OK);
          EXPECT_EQ(it.offer(), LSCHED_OK);
          EXPECT_EQ(it.offer(), LSCHED_ERR_BUSY) << "no round starts without the other group";
        }
        (void)rank;
        (void)sum_over(it.all, 1);
        EXPECT_EQ(it.flush(), LSCHED_OK) << it.why.text;
        EXPECT_EQ(it.sum, (counts{2, 0}));
      },
      "full");
}

TEST(c_groups, groups_that_do_not_fit_are_refused_on_all_ranks) {
  const world_of_threads all(k_ranks);
  all.each([&](lsched_world* world, std::int32_t rank) {
    lsched_world* of_shard = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_split(world, rank % k_shards, rank, &of_shard, &why), LSCHED_OK);
    const auto try_with = [&](auto&& change, lsched_status expected, const char* word) {
      lsched_groups groups{.struct_size = sizeof groups, .all = world, .shards = k_shards};
      lsched_partial_desc desc = desc_of(groups, "quorum(1)");
      change(groups, desc);
      lsched_schedule* schedule = nullptr;
      EXPECT_EQ(lsched_partial_create(of_shard, &desc, &schedule, &why), expected) << why.text;
      EXPECT_TRUE(why.says(word)) << why.text;
    };
    using one = lsched_groups&;
    using other = lsched_partial_desc&;
    try_with([](one groups, other) { groups.shards = 3; }, LSCHED_ERR_ARGUMENT, "groups.shards is 3");
    try_with([](one groups, other) { groups.staged = 17; }, LSCHED_ERR_ARGUMENT, "groups.staged is 17");
    try_with([](one, other desc) { desc.lag = LSCHED_HISTORY, desc.history = 2; }, LSCHED_ERR_UNSUPPORTED, "HISTORY");
    try_with([](one, other desc) { desc.activation = "deadline(5)"; }, LSCHED_ERR_UNSUPPORTED, "deadline");
    try_with([](one, other desc) { desc.activation = "quorum(3)"; }, LSCHED_ERR_ARGUMENT, "quorum");
    try_with([](one, other desc) { desc.dtype = LSCHED_F32, desc.age = LSCHED_AGE_INVERSE; }, LSCHED_ERR_UNSUPPORTED,
             "ages");
    try_with([](one, other desc) { desc.dtype = LSCHED_F32, desc.averages_weights = 1; }, LSCHED_ERR_UNSUPPORTED,
             "averages_weights");
    try_with([](one, other desc) { desc.collective = "adasum"; }, LSCHED_ERR_UNSUPPORTED, "allreduce");
    try_with([&](one, other desc) { desc.activation = rank == 1 ? "solo" : "full"; }, LSCHED_ERR_MISMATCH, "solo");
    try_with(
        [&](one groups, other) {
          if (rank == 2) groups.staged = 99;
        },
        LSCHED_ERR_ARGUMENT, "groups.staged is 99");
    // The counts of shard 1 differ between the groups.
    try_with([&](one, other desc) { desc.count = rank == 3 ? 9 : 2; }, LSCHED_ERR_MISMATCH, "count");
    EXPECT_EQ(lsched_world_close(of_shard), LSCHED_OK);
  });
}

}  // namespace
}  // namespace lsched::testing
