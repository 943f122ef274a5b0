// Tests of worlds over a segment: worlds opened by a rendezvous of threads, and worlds that adopt a launcher's segment.
#include "offload/open/segment_world.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "offload/open/node_world.h"

namespace lsched::testing {
namespace {

segment_options of_threads() {
  return {.region_bytes = 16 << 20,
          .start_timeout = std::chrono::seconds(60),
          .shm = {.watches_processes = false},
          .ranks_per_node = 2};
}

/// An exchange among threads.
class table {
 public:
  explicit table(rank ranks) : records_(static_cast<std::size_t>(ranks) * k_exchanged_bytes), gate_(ranks) {}

  exchange_function of(rank self) {
    return [this, self](const void* mine, void* all, std::uint64_t bytes) -> std::optional<failure> {
      std::memcpy(records_.data() + static_cast<std::size_t>(self) * bytes, mine, bytes);
      gate_.arrive_and_wait();
      std::memcpy(all, records_.data(), records_.size());
      gate_.arrive_and_wait();
      return std::nullopt;
    };
  }

 private:
  std::vector<std::byte> records_;
  std::barrier<> gate_;
};

using opening = std::function<result<opened_rank>(rank self)>;

/// Opens a world by one thread per rank. Returns the result of each rank.
std::vector<result<opened_rank>> open_all(rank ranks, const opening& open) {
  std::vector<result<opened_rank>> all;
  for (rank r = 0; r < ranks; ++r) all.emplace_back(failure{status::internal, "not opened"});
  std::vector<std::jthread> threads;
  for (rank r = 0; r < ranks; ++r) threads.emplace_back([&, r] { all[static_cast<std::size_t>(r)] = open(r); });
  threads.clear();
  return all;
}

void expect_world(const std::vector<result<opened_rank>>& all) {
  const auto size = static_cast<rank>(all.size());
  for (rank r = 0; r < size; ++r) {
    const auto& own = all[static_cast<std::size_t>(r)];
    ASSERT_TRUE(own) << own.error().text;
    EXPECT_EQ(own->net->place(), (world{r, size}));
    EXPECT_EQ(own->around.nodes.size(), size > 2 ? static_cast<std::size_t>(size) : 0u);
  }
}

TEST(segment_world, is_opened_by_a_rendezvous) {
  for (const rank ranks : {3, 5, 1, 4}) {
    table store(ranks);
    const result<segment_options> how = of_threads();
    expect_world(open_all(ranks, [&](rank self) {
      return open_by_rendezvous({self, ranks}, "build", store.of(self), how);
    }));
  }
}

// There is no common segment of all ranks. With a recorder, each node has a segment and a recorder file.
TEST(segment_world, of_several_nodes_has_one_segment_for_each_node) {
  constexpr rank k_ranks = 5;
  const std::string path = ::testing::TempDir() + "recording_of_nodes_" + std::to_string(getpid());
  table store(k_ranks);
  segment_options here = of_threads();
  here.recorder = path;
  here.interfaces.names = {"lo"};
  const result<segment_options> how = here;
  expect_world(open_all(k_ranks, [&](rank self) {
    return open_by_rendezvous({self, k_ranks}, "build", store.of(self), how);
  }));
  for (const char* const node : {".0", ".2", ".4"}) EXPECT_EQ(std::remove((path + node).c_str()), 0) << node;
  EXPECT_NE(std::remove(path.c_str()), 0);
}

TEST(segment_world, is_opened_by_no_rank_if_the_segment_cannot_be_created) {
  constexpr rank k_ranks = 3;
  table store(k_ranks);
  segment_options wrong = of_threads();
  wrong.recorder = "/no/such/folder/recording";
  const result<segment_options> how = wrong;
  const auto all = open_all(k_ranks, [&](rank self) {
    return open_by_rendezvous({self, k_ranks}, "build", store.of(self), how);
  });
  for (const auto& own : all) {
    ASSERT_FALSE(own);
    EXPECT_EQ(own.error().code, all.front().error().code);
    EXPECT_NE(own.error().text.find("/no/such/folder"), std::string::npos) << own.error().text;
  }
  EXPECT_EQ(all.back().error().text.find("rank 0: "), 0u);
}

TEST(segment_world, is_adopted_from_a_launcher) {
  constexpr rank k_ranks = 3;
  const auto segment = shm_segment::create(k_ranks, 16 << 20);
  ASSERT_TRUE(segment) << segment.error().text;
  const int descriptor = (*segment)->descriptor();
  const auto all = open_all(k_ranks, [&](rank self) {
    return open_launched({.descriptor = descriptor, .self = self, .size = k_ranks}, of_threads());
  });
  expect_world(all);
  const auto refused = [&](const launch& where) {
    const auto made = open_launched(where, of_threads());
    return made ? failure{status::ok, {}} : made.error();
  };
  EXPECT_EQ(refused({.descriptor = descriptor, .self = 1, .size = k_ranks}).code, status::state);
  EXPECT_EQ(refused({.descriptor = descriptor, .self = 1, .size = 4}).text,
            "LSCHED_RUN_SIZE is 4, but `lsched run` started 3 ranks: do not change this variable");
  const failure closed = refused({.descriptor = 1 << 20, .self = 2, .size = k_ranks});
  EXPECT_EQ(closed.code, status::transport);
  EXPECT_EQ(
      closed.text,
      "LSCHED_RUN_FD=1048576 is not the descriptor from `lsched run`: a program between `lsched run` and rank 2 has "
      "closed that descriptor. Let this program keep inherited descriptors open");
}

TEST(segment_world, is_not_adopted_if_the_launcher_is_no_launcher) {
  const auto segment = shm_segment::create(1, 16 << 20);
  ASSERT_TRUE(segment) << segment.error().text;
  const int descriptor = (*segment)->descriptor();
  const auto made = open_launched({.descriptor = descriptor, .launcher = descriptor}, of_threads());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text,
            "LSCHED_RUN_LAUNCHER is not the descriptor from `lsched run`: start the program with `lsched run`, or "
            "unset LSCHED_RUN_ variables");
}

}  // namespace
}  // namespace lsched::testing
