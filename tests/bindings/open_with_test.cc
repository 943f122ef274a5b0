// Tests of worlds that are opened with an exchange function of the caller, as under torchrun. Other tests check which
// launchers the library recognises by their environment variables.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libsched/transport/shm/shm_segment.h"
#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/tcp_store.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

bool computes(lsched_world* world) {
  const std::int64_t size = lsched_size(world);
  return sum_over(world, lsched_rank(world) + 1) == size * (size + 1) / 2;
}

/// The exchange function of a rank. It can change the gathered data, like a faulty caller.
struct tampering_client {
  tcp_store::client good;
  std::function<int(std::byte* all, std::uint64_t bytes)> change;

  static int exchange(const void* mine, void* all, std::uint64_t bytes, void* context) {
    auto* const own = static_cast<tampering_client*>(context);
    const int answer = own->good.exchange(mine, all, bytes);
    return answer == 0 && own->change ? own->change(static_cast<std::byte*>(all), bytes) : answer;
  }
};

/// Calls `life` in one process for each rank. Returns an empty text if `life` returns 0 in all processes.
std::string of_processes(rank ranks, const std::function<int(rank self, const tcp_store& store)>& life) {
  const tcp_store store(ranks);
  child_ranks children(ranks, [&](rank self) { return life(self, store); });
  return children.wait();
}

TEST(open_with, ranks_of_any_launcher_make_a_world) {
  for (const rank ranks : {1, 2, 3, 5})
    EXPECT_EQ(of_processes(ranks,
                           [&](rank self, const tcp_store& store) {
                             setenv("RANK", std::to_string(self).c_str(), 1);
                             setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
                             tcp_store::client mine(store, self);
                             lsched_world* world = nullptr;
                             diagnostic why;
                             if (lsched_world_open_with(self, ranks, tcp_store::client::exchange, &mine, nullptr,
                                                        &world, &why) != LSCHED_OK)
                               return std::fprintf(stderr, "%s\n", why.text), 1;
                             if (lsched_rank(world) != self || lsched_size(world) != ranks) return 2;
                             for (int k = 0; k < 10; ++k)
                               if (!computes(world)) return 3;
                             return lsched_world_close(world) == LSCHED_OK ? 0 : 4;
                           }),
              "");
}

TEST(open_with, a_rank_that_cannot_is_named_by_all) {
  EXPECT_EQ(of_processes(3,
                         [](rank self, const tcp_store& store) {
                           lsched_config config = test_config();
                           if (self == 1) config.idle = 99;
                           tcp_store::client mine(store, self);
                           lsched_world* world = nullptr;
                           diagnostic why;
                           const lsched_status answer = lsched_world_open_with(self, 3, tcp_store::client::exchange,
                                                                               &mine, &config, &world, &why);
                           if (answer != LSCHED_ERR_ARGUMENT || world != nullptr || !why.says("idle")) return 1;
                           return self == 1 || (why.rank == 1 && why.says("rank 1: ")) ? 0 : 2;
                         }),
            "");
}

TEST(open_with, ranks_that_disagree_learn_it) {
  struct odd_world {
    lsched_status answer;
    const char* words;
    std::function<int(std::byte*, std::uint64_t)> change;
  };
  constexpr std::uint64_t k_build = 0, k_size = 32;  // offsets in the data that a rank contributes
  const auto put = [](std::uint64_t place, const char* text) {
    return [=](std::byte* all, std::uint64_t bytes) { return std::memcpy(all + bytes + place, text, 5), 0; };
  };
  const odd_world all[] = {{LSCHED_ERR_MISMATCH, "\" and \"other", put(k_build, "other")},
                           {LSCHED_ERR_MISMATCH, "different sizes of the world", put(k_size, "\3\0\0\0")},
                           {LSCHED_ERR_TRANSPORT, "returned 7", [](std::byte*, std::uint64_t) { return 7; }}};
  for (const odd_world& each : all)
    EXPECT_EQ(of_processes(2,
                           [&](rank self, const tcp_store& store) {
                             tampering_client mine{{store, self}, each.change};
                             lsched_world* world = nullptr;
                             diagnostic why;
                             const lsched_status answer = lsched_world_open_with(self, 2, tampering_client::exchange,
                                                                                 &mine, nullptr, &world, &why);
                             if (answer == each.answer && why.says(each.words) && world == nullptr) return 0;
                             return std::fprintf(stderr, "%d: %s\n", answer, why.text), 1;
                           }),
              "")
        << each.words;
}

TEST(open_with, a_killed_rank_is_named) {
  EXPECT_EQ(of_processes(3,
                         [](rank self, const tcp_store& store) {
                           tcp_store::client mine(store, self);
                           lsched_world* world = nullptr;
                           lsched_schedule* barrier = nullptr;
                           diagnostic why;
                           if (lsched_world_open_with(self, 3, tcp_store::client::exchange, &mine, nullptr, &world,
                                                      &why) != LSCHED_OK)
                             return 1;
                           if (create_barrier(world, &barrier, &why) != LSCHED_OK) return 2;
                           if (self == 1) raise(SIGKILL);
                           lsched_status answer = LSCHED_OK;
                           while (answer == LSCHED_OK) answer = lsched_run(barrier, k_limit_ns, &why);
                           return answer == LSCHED_ERR_PEER && why.rank == 1 ? 0 : 3;
                         }),
            "rank 1 was ended by signal 9; ");
}

// --- several hosts -----------------------------------------------------------------------------------------------

/// Makes groups of `per_node` ranks act as hosts that share no memory. The network between the hosts is loopback.
void emulate_hosts(int per_node) {
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(per_node).c_str(), 1);
  setenv("LSCHED_NET_INTERFACES", "lo", 1);
}

lsched_world* open_at(rank self, rank ranks, tcp_store::client& mine, diagnostic& why) {
  lsched_world* world = nullptr;
  if (lsched_world_open_with(self, ranks, tcp_store::client::exchange, &mine, nullptr, &world, &why) != LSCHED_OK)
    std::fprintf(stderr, "rank %d: %s\n", self, why.text);
  return world;
}

/// Returns true if the description of the transport begins with these words.
bool is_connected_by(lsched_world* world, const char* words) {
  char text[2000] = "";
  (void)lsched_world_describe(world, text, sizeof text);
  return std::strstr(text, words) != nullptr;
}

/// Returns true if an allreduce of `count` elements gives the right sums, several times.
bool sums_many(lsched_world* world, std::uint64_t count) {
  std::vector<std::int64_t> mine(count), sums(count);
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = mine.data(),
                                    .output = sums.data(),
                                    .count = count,
                                    .dtype = LSCHED_I64,
                                    .reduction = LSCHED_SUM};
  lsched_schedule* schedule = nullptr;
  if (lsched_collective_create(world, &desc, &schedule, nullptr) != LSCHED_OK) return false;
  const std::int64_t ranks = lsched_size(world);
  bool is_right = true;
  for (std::int64_t round = 1; round <= 5 && is_right; ++round) {
    for (std::uint64_t i = 0; i < count; ++i) mine[i] = round * static_cast<std::int64_t>(i) + lsched_rank(world);
    is_right = lsched_run(schedule, k_limit_ns, nullptr) == LSCHED_OK;
    for (std::uint64_t i = 0; i < count && is_right; ++i)
      is_right = sums[i] == ranks * round * static_cast<std::int64_t>(i) + ranks * (ranks - 1) / 2;
  }
  return lsched_schedule_destroy(schedule, k_limit_ns, nullptr) == LSCHED_OK && is_right;
}

TEST(open_with, ranks_of_several_hosts_make_a_world) {
  for (const rank ranks : {2, 3, 5, 6, 7})
    for (const int per_node : {1, 2, 3})
      EXPECT_EQ(
          of_processes(ranks,
                       [&](rank self, const tcp_store& store) {
                         emulate_hosts(per_node);
                         tcp_store::client mine(store, self);
                         diagnostic why;
                         lsched_world* const world = open_at(self, ranks, mine, why);
                         if (world == nullptr) return 1;
                         if (per_node < ranks && !is_connected_by(world, "TCP with")) return 2;
                         if (per_node < ranks && !is_connected_by(world, "on the interfaces of LSCHED_NET_INTERFA"))
                           return 6;
                         for (int k = 0; k < 10; ++k)
                           if (!computes(world)) return 3;
                         for (const std::uint64_t count : {0u, 1u, 3000u, 200'000u})
                           if (!sums_many(world, count)) return 4;
                         return lsched_world_close(world) == LSCHED_OK ? 0 : 5;
                       }),
          "")
          << ranks << " ranks, " << per_node << " a node";
}

/// Returns the schedule file of an allreduce of 64 KiB for which the library has chosen the algorithm.
std::string chosen_schedule(lsched_world* world) {
  std::vector<float> memory(1 << 14);
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = memory.data(),
                                    .output = memory.data(),
                                    .count = memory.size(),
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM};
  lsched_schedule* schedule = nullptr;
  if (lsched_collective_create(world, &desc, &schedule, nullptr) != LSCHED_OK) return "";
  std::string text(1 << 20, '\0');
  (void)lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, text.data(), text.size(), nullptr);
  (void)lsched_schedule_destroy(schedule, k_limit_ns, nullptr);
  return text.c_str();
}

/// Opens a world of three hosts, and returns 0 if the library makes the same choice as with the tuning table, or does
/// not, as `expects_same` states. The two worlds of a rank need different exchanges.
int compare_choices(rank self, const tcp_store& first, const tcp_store& second, const char* costs, bool expects_same) {
  emulate_hosts(1);
  std::string chosen[2];
  for (const bool has_table : {false, true}) {
    const std::string path = ::testing::TempDir() + "costs." + std::to_string(getpid());
    if (has_table) {
      std::ofstream(path) << "libsched tuning 1\nwire far " << costs << "\n";
      setenv("LSCHED_TUNING", path.c_str(), 1);
    }
    tcp_store::client mine(has_table ? second : first, self);
    diagnostic why;
    lsched_world* const world = open_at(self, 3, mine, why);
    if (has_table) std::remove(path.c_str());
    if (world == nullptr) return 1;
    chosen[has_table ? 1 : 0] = chosen_schedule(world);
    if (lsched_world_close(world) != LSCHED_OK) return 2;
  }
  if (chosen[0].empty() || chosen[1].empty()) return 3;
  return (chosen[0] == chosen[1]) == expects_same ? 0 : 4;
}

TEST(open_with, ranks_of_several_hosts_choose_by_the_costs_of_tcp) {
  const auto compare = [](const char* costs, bool expects_same) {
    const tcp_store first(3), second(3);
    child_ranks children(3, [&](rank self) { return compare_choices(self, first, second, costs, expects_same); });
    return children.wait();
  };
  EXPECT_EQ(compare("15000 4000 0.4", true), "");
  EXPECT_EQ(compare("3000 500 0.1", false), "");
}

TEST(open_with, ranks_of_several_hosts_encrypt_their_connections) {
  for (const int per_node : {1, 2})
    EXPECT_EQ(of_processes(3,
                           [&](rank self, const tcp_store& store) {
                             emulate_hosts(per_node);
                             setenv("LSCHED_NET_ENCRYPT", "tls", 1);
                             tcp_store::client mine(store, self);
                             diagnostic why;
                             lsched_world* const world = open_at(self, 3, mine, why);
                             if (world == nullptr) return why.says("libssl") ? 0 : 1;  // the system has no OpenSSL 3
                             if (!is_connected_by(world, "(encrypted)")) return 2;
                             for (const std::uint64_t count : {0u, 1u, 3000u, 200'000u})
                               if (!sums_many(world, count)) return 3;
                             return lsched_world_close(world) == LSCHED_OK ? 0 : 4;
                           }),
              "")
        << per_node << " a node";
}

TEST(open_with, ranks_that_disagree_about_encryption_are_named) {
  EXPECT_EQ(of_processes(3,
                         [&](rank self, const tcp_store& store) {
                           emulate_hosts(1);
                           setenv("LSCHED_NET_ENCRYPT", self == 2 ? "tls" : "off", 1);
                           tcp_store::client mine(store, self);
                           lsched_world* world = nullptr;
                           diagnostic why;
                           const lsched_status answer = lsched_world_open_with(self, 3, tcp_store::client::exchange,
                                                                               &mine, nullptr, &world, &why);
                           const bool is_named = why.says("rank 0 and rank 2 disagree") || why.says("libssl");
                           return answer == LSCHED_OK || !is_named ? 1 : 0;
                         }),
            "");
}

/// Runs barriers until the victim has died. Returns 0 if an error names another rank. The create must succeed unless
/// the victim is rank 0.
int run_until_a_death(lsched_world* world, rank victim, diagnostic& why) {
  const rank self = lsched_rank(world);
  lsched_schedule* barrier = nullptr;
  lsched_status answer = create_barrier(world, &barrier, &why);
  if (self == victim) raise(SIGKILL);
  if (victim != 0 && answer != LSCHED_OK) return 2;
  while (answer == LSCHED_OK) answer = lsched_run(barrier, k_limit_ns, &why);
  (void)lsched_schedule_destroy(barrier, k_limit_ns, nullptr);
  if (answer == LSCHED_ERR_PEER && why.rank >= 0 && why.rank != self) return 0;
  return std::fprintf(stderr, "rank %d: %s\n", self, why.text), 3;
}

// The first rank decides whether a create succeeds. Therefore a create succeeds on all ranks even if another rank has
// died. A rank that gets PEER ends its process. A third rank may notice this end before it notices the death of the
// victim, so its error may name either rank.
TEST(open_with, a_killed_rank_of_another_host_ends_the_round) {
  for (const rank ranks : {3, 5})
    for (const int per_node : {1, 2})
      for (const rank victim : {0, 1, ranks - 1})
        EXPECT_EQ(of_processes(ranks,
                               [&](rank self, const tcp_store& store) {
                                 emulate_hosts(per_node);
                                 tcp_store::client mine(store, self);
                                 diagnostic why;
                                 lsched_world* const world = open_at(self, ranks, mine, why);
                                 return world == nullptr ? 1 : run_until_a_death(world, victim, why);
                               }),
                  "rank " + std::to_string(victim) + " was ended by signal 9; ")
            << ranks << " ranks, " << per_node << " a node, victim " << victim;
}

// After a death, the other ranks create a world. If the last rank calls late, all other ranks get TIMEOUT, and the
// error names that rank.
int survive(rank self, rank ranks, rank victim, const tcp_store& store) {
  tcp_store::client mine(store, self);
  diagnostic why;
  lsched_world* const world = open_at(self, ranks, mine, why);
  if (world == nullptr || run_until_a_death(world, victim, why) != 0) return 1;
  lsched_world* survivors = nullptr;
  if (lsched_shrink(world, k_limit_ns, &survivors, &why) != LSCHED_OK)
    return std::fprintf(stderr, "rank %d: %s\n", self, why.text), 2;
  const rank left = ranks - 1;
  if (lsched_size(survivors) != left || sum_over(survivors, 1) != left) return 3;
  lsched_world* again = nullptr;
  if (lsched_rank(survivors) != left - 1) {
    if (lsched_shrink(survivors, 50'000'000, &again, &why) != LSCHED_ERR_TIMEOUT || why.rank != left - 1)
      return std::fprintf(stderr, "rank %d: %s\n", self, why.text), 4;
  }
  if (sum_over(survivors, 1) != left) return 5;
  if (lsched_shrink(survivors, k_limit_ns, &again, &why) != LSCHED_OK)
    return std::fprintf(stderr, "rank %d: %s\n", self, why.text), 6;
  if (sum_over(again, self) != ranks * (ranks - 1) / 2 - victim) return 7;
  for (lsched_world* const one : {again, survivors, world})
    if (lsched_world_close(one) != LSCHED_OK) return 8;
  return 0;
}

TEST(open_with, survivors_of_several_hosts_make_a_world) {
  for (const rank ranks : {3, 5})
    for (const int per_node : {1, 2})
      for (const rank victim : {0, 1})
        EXPECT_EQ(of_processes(ranks,
                               [&](rank self, const tcp_store& store) {
                                 emulate_hosts(per_node);
                                 return survive(self, ranks, victim, store);
                               }),
                  "rank " + std::to_string(victim) + " was ended by signal 9; ")
            << ranks << " ranks, " << per_node << " a node, victim " << victim;
}

TEST(open_with, a_rank_without_a_network_is_named_by_all) {
  EXPECT_EQ(of_processes(3,
                         [](rank self, const tcp_store& store) {
                           emulate_hosts(1);
                           if (self == 1) setenv("LSCHED_NET_INTERFACES", "none0", 1);
                           tcp_store::client mine(store, self);
                           lsched_world* world = nullptr;
                           diagnostic why;
                           const lsched_status answer = lsched_world_open_with(self, 3, tcp_store::client::exchange,
                                                                               &mine, nullptr, &world, &why);
                           if (answer == LSCHED_ERR_UNSUPPORTED && why.rank == 1 && why.says("network interface"))
                             return 0;
                           return std::fprintf(stderr, "rank %d: %s\n", self, why.text), 1;
                         }),
            "");
}

TEST(open_with, refuses_bad_arguments) {
  lsched_world* world = nullptr;
  diagnostic why;
  const auto exchange = [](const void* mine, void* all, std::uint64_t bytes, void*) {
    return std::memcpy(all, mine, bytes), 0;
  };
  EXPECT_EQ(lsched_world_open_with(0, 1, nullptr, nullptr, nullptr, &world, &why), LSCHED_ERR_ARGUMENT);
  for (const auto& [rank, size] : {std::pair(0, 0), std::pair(-1, 2), std::pair(2, 2)})
    EXPECT_EQ(lsched_world_open_with(rank, size, exchange, nullptr, nullptr, &world, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_open_with(0, 1, exchange, nullptr, nullptr, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_open_with_abi(1, 0, 1, exchange, nullptr, nullptr, &world, &why), LSCHED_ERR_VERSION);
  ASSERT_EQ(lsched_world_open_with(0, 1, exchange, nullptr, nullptr, &world, &why), LSCHED_OK) << why.text;
  EXPECT_TRUE(computes(world));
  EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
}

// --- launchers -----------------------------------------------------------------------------------------------

using variables = std::map<std::string, std::string>;

/// Opens a world with the environment variables `set`. Returns the status, and the error text or the size of the world.
std::pair<lsched_status, std::string> open_under(const variables& set) {
  for (const auto& [name, value] : set) setenv(name.c_str(), value.c_str(), 1);
  lsched_world* world = nullptr;
  diagnostic why;
  const lsched_status answer = lsched_world_open(nullptr, &world, &why);
  for (const auto& [name, value] : set) unsetenv(name.c_str());
  std::string words = answer == LSCHED_OK ? std::to_string(lsched_size(world)) : why.text;
  EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
  return {answer, words};
}

TEST(launchers, that_start_several_are_never_worlds_of_one) {
  const std::pair<variables, std::string> all[] = {
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}},
       "one of 3 processes started by an MPI launcher (PMI_SIZE, set by MPICH)"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"PMIX_RANK", "0"}},
       "(OMPI_COMM_WORLD_SIZE, set by Open MPI)"},
      {{{"PMIX_RANK", "0"}}, "one of several processes started by an MPI launcher (PMIX_RANK)"},
      {{{"PMIX_RANK", "2"}}, "lsched_world_open_mpi"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}},
       "one of 3 processes started by torchrun (WORLD_SIZE)"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "lsched_world_open_with"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}},
       "one of 4 processes started by srun (SLURM_STEP_NUM_TASKS)"},
      // If the variables of several launchers are set, the error names the innermost launcher that the library knows.
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}, "(PMI_SIZE, set by MPICH)"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}, "(WORLD_SIZE)"}};
  for (const auto& [set, words] : all) {
    const auto [answer, text] = open_under(set);
    EXPECT_EQ(answer, LSCHED_ERR_UNSUPPORTED) << words;
    EXPECT_NE(text.find(words), std::string::npos) << text;
    variables alone = set;
    alone["LSCHED_WORLD"] = "alone";
    EXPECT_EQ(open_under(alone), std::pair(LSCHED_OK, std::string("1"))) << words;
  }
}

TEST(launchers, that_start_one_are_worlds_of_one) {
  const variables all[] = {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}},
                           {{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}},
                           {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                           {{"WORLD_SIZE", "8"}},  // another program has set this size, and no rank is set
                           {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
                           // A batch script of Slurm is one process, even if its job has several tasks.
                           {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NPROCS", "8"}}};
  for (const variables& set : all) EXPECT_EQ(open_under(set), std::pair(LSCHED_OK, std::string("1")));
  EXPECT_EQ(open_under({{"LSCHED_WORLD", "own"}}).first, LSCHED_ERR_ARGUMENT);
}

// --- address space -------------------------------------------------------------------------------------------

TEST(start_up, big_nodes_have_address_space_for_all_ranks) {
  constexpr std::uint64_t k_tib = std::uint64_t{1} << 40;
  for (const auto& [ranks, memory] : {std::pair(128, k_tib), std::pair(96, 3 * k_tib / 2), std::pair(1, k_tib)}) {
    const std::uint64_t stride = shm_segment::default_stride(ranks, memory, shm_segment::k_most_reserved);
    EXPECT_LE(stride, memory);
    EXPECT_LE(stride * static_cast<std::uint64_t>(ranks), shm_segment::k_most_reserved);
    EXPECT_GE(stride, std::min(memory, shm_segment::k_most_reserved / static_cast<std::uint64_t>(ranks) * 9 / 10));
    const auto reserved = shm_segment::create(ranks, stride);
    ASSERT_TRUE(reserved) << reserved.error().text;
    EXPECT_EQ((*reserved)->stride(), stride);
  }
  EXPECT_EQ(shm_segment::default_stride(4, 1 << 30, 1 << 30) % 4096, 0u);
  EXPECT_LT(4 * shm_segment::default_stride(4, 1 << 30, 1 << 30), 1u << 30);
  EXPECT_EQ(shm_segment::default_stride(1000, 1 << 30, 1 << 16), 0u);
}

TEST(start_up, a_region_is_asked_for_by_size) {
  for (const char* word : {"", "64M", "64m", "64MiB", "67108864", "65536K"}) {
    setenv("LSCHED_REGION", word, 1);
    lsched_config config;
    lsched_config_init(&config);
    EXPECT_EQ(config.region_bytes, *word == '\0' ? 0u : 64u << 20) << word;
  }
  for (const char* word : {"64X", "M", "-1", "64MB", "99999999T", "0", "64", "1023K"}) {
    setenv("LSCHED_REGION", word, 1);
    lsched_world* world = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_world_open(nullptr, &world, &why), LSCHED_ERR_ARGUMENT) << word;
    EXPECT_TRUE(why.says("LSCHED_REGION")) << why.text;
  }
  setenv("LSCHED_REGION", "64", 1);
  lsched_world* world = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open(nullptr, &world, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_STREQ(why.text,
               "LSCHED_REGION is \"64\", less than the smallest region, 1M: set for example LSCHED_REGION=64M");
  unsetenv("LSCHED_REGION");
  lsched_config config;
  lsched_config_init(&config);
  config.region_bytes = 64;
  EXPECT_EQ(lsched_world_open(&config, &world, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("region_bytes is less than the smallest region, 1 MiB")) << why.text;
  config.region_bytes = 1 << 20;
  ASSERT_EQ(lsched_world_open(&config, &world, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
}

}  // namespace
}  // namespace lsched::testing
