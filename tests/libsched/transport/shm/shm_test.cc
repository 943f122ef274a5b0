// Tests of the transport shm. It must pass the conformance tests (exam) with all ranks in one thread, with ranks as
// threads, and with ranks as processes. It must survive the death of peers, and must not leave any files or memory
// behind.
#include "libsched/transport/shm/shm_endpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <thread>

#include "tests/conformance/endpoint_exam.h"
#include "tests/conformance/exam_sleeper.h"
#include "tests/support/child_ranks.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using std::chrono::steady_clock;
using testing::child_ranks;
using testing::sampled;

constexpr std::size_t k_stride = std::size_t{64} << 20;
constexpr shm_options k_never_reads{.reads_processes = false};

constexpr std::array<rank, 2> k_two{0, 1};  ///< members of a world of all ranks
constexpr std::array<rank, 3> k_three{0, 1, 2};

std::shared_ptr<shm_segment> segment_for(rank ranks) { return *shm_segment::create(ranks, k_stride); }

std::unique_ptr<shm_endpoint> end_of(const std::shared_ptr<shm_segment>& segment, rank self,
                                     const shm_options& options = {}) {
  return std::move(*shm_endpoint::open(segment, self, options));
}

// --- the exam --------------------------------------------------------------------------------------------

class shm_exam_world final : public exam::exam_world {
 public:
  explicit shm_exam_world(const shm_options& options = {}) : options_(options) {}
  std::vector<endpoint*> make(rank ranks) override {
    const auto segment = segment_for(ranks);
    std::vector<endpoint*> all;
    for (rank r = 0; r < ranks; ++r) all.push_back(ends_.emplace_back(end_of(segment, r, options_)).get());
    return all;
  }

 private:
  shm_options options_;
  std::vector<std::unique_ptr<shm_endpoint>> ends_;
};

class shm_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(shm_exam, passes) {
  shm_exam_world world;
  EXPECT_EQ(exam::ask(GetParam(), world), "");
}

TEST_P(shm_exam, passes_where_no_process_can_be_read) {
  shm_exam_world world(k_never_reads);
  EXPECT_EQ(exam::ask(GetParam(), world), "");
}

INSTANTIATE_TEST_SUITE_P(every, shm_exam, ::testing::ValuesIn(exam::k_questions), exam::name_of_question);

/// The memory that ranks in separate processes or threads share. It is mapped before the processes or threads start.
struct common_ground {
  struct words {
    std::atomic<std::uint32_t> arrivals;  ///< number of entries into fences
    std::atomic<std::uint32_t> stage;     ///< stage of the test
  };
  common_ground()
      : page(mmap(nullptr, sizeof(words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        word(*new (page) words{}) {}
  ~common_ground() { munmap(page, sizeof(words)); }

  void* page;
  words& word;
  std::array<std::shared_ptr<shm_segment>, 4> segments{{{}, {}, segment_for(2), segment_for(3)}};
};

/// The exam world of one process or thread, which has only one rank. Other processes or threads have the other ranks.
class lonely_exam_world final : public exam::exam_world {
 public:
  lonely_exam_world(common_ground& ground, rank self, std::uint32_t parties, const shm_options& options = {})
      : ground_(ground), self_(self), parties_(parties), options_(options) {}
  std::vector<endpoint*> make(rank ranks) override {
    std::vector<endpoint*> all(static_cast<std::size_t>(ranks));
    if (self_ >= ranks) return all;
    end_ = end_of(ground_.segments[static_cast<std::size_t>(ranks)], self_, options_);
    all[static_cast<std::size_t>(self_)] = end_.get();
    return all;
  }
  /// Yields the core, and sometimes sleeps. A thread that yields to competing threads gets the core back only after
  /// their time slices. A thread that wakes from a sleep gets the core back at once.
  void pump() override { ++pumps_ % 16 == 0 ? static_cast<void>(usleep(20)) : static_cast<void>(sched_yield()); }
  void enter_fence() override {
    entered_ += parties_;
    ground_.word.arrivals.fetch_add(1);
  }
  bool is_fence_open() override { return ground_.word.arrivals.load() >= entered_; }

 private:
  common_ground& ground_;
  rank self_;
  std::uint32_t parties_;
  shm_options options_;
  std::uint32_t entered_ = 0;
  std::uint32_t pumps_ = 0;
  std::unique_ptr<shm_endpoint> end_;
};

class shm_process_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(shm_process_exam, passes) {
  common_ground ground;
  child_ranks ranks(3, [&](rank self) {
    lonely_exam_world world(ground, self, 3);
    const std::string answer = exam::ask(GetParam(), world);
    if (!answer.empty()) std::fprintf(stderr, "process %d: %s\n", self, answer.c_str());
    return answer.empty() ? 0 : 1;
  });
  EXPECT_EQ(ranks.wait(), "");
}

INSTANTIATE_TEST_SUITE_P(every, shm_process_exam, ::testing::ValuesIn(exam::k_questions), exam::name_of_question);

class shm_thread_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(shm_thread_exam, passes) {
  common_ground ground;
  std::array<std::string, 3> answers;
  std::array<std::thread, 3> ranks;
  for (rank self = 0; self < 3; ++self)
    ranks[static_cast<std::size_t>(self)] = std::thread([&, self] {
      lonely_exam_world world(ground, self, 3);
      answers[static_cast<std::size_t>(self)] = exam::ask(GetParam(), world);
    });
  for (std::thread& it : ranks) it.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, "");
}

INSTANTIATE_TEST_SUITE_P(every, shm_thread_exam, ::testing::ValuesIn(exam::k_questions), exam::name_of_question);

// --- separate ranks --------------------------------------------------------------------------------------

/// Sends messages back and forth between ranks 0 and 1, and verifies every byte.
void play_ping_pong(exam::bench& b, round_no rounds, std::uint64_t bytes) {
  b.connect({{.from = 0, .to = 1, .capacity = bytes, .in_place = true}, {.from = 1, .to = 0, .capacity = bytes}});
  for (round_no round = 1; round <= rounds; ++round) {
    for (std::size_t way = 0; way < 2; ++way) {
      b.post_send(way, round, {bytes, 2 * round + way});
      b.post_receive(way, round);
      b.await_parcel(way, {bytes, 2 * round + way});
    }
    for (std::size_t way = 0; way < 2; ++way) b.await_sent(way);
  }
  b.disconnect();
}

/// Runs `what` as one of two ranks. Returns 0. If `what` throws a complaint, prints the complaint to stderr and returns
/// 1.
template <class Play>
int play(common_ground& ground, rank self, Play&& what, const shm_options& options = {}) {
  try {
    lonely_exam_world world(ground, self, 2, options);
    exam::bench b(world);
    b.start(2);
    what(b);
    return 0;
  } catch (const exam::complaint& found) {
    std::fprintf(stderr, "rank %d: %s\n", self, found.text.c_str());
    return 1;
  }
}

TEST(shm, plays_ping_pong_between_processes) {
  common_ground ground;
  child_ranks ranks(2, [&](rank self) {
    return play(ground, self, [](exam::bench& b) {
      play_ping_pong(b, sampled() ? 2'000 : 20'000, 8);
      play_ping_pong(b, sampled() ? 20 : 100, std::uint64_t{1} << 20);
    });
  });
  EXPECT_EQ(ranks.wait(), "");
}

/// Waits until another process has set the given stage of the test. Returns false after 20 seconds.
bool await_stage(common_ground& ground, std::uint32_t stage) {
  for (const auto limit = steady_clock::now() + std::chrono::seconds(20); steady_clock::now() < limit; sched_yield())
    if (ground.word.stage.load() >= stage) return true;
  return false;
}

TEST(shm, finds_a_peer_that_was_killed_while_a_receive_waits_for_it) {
  common_ground ground;
  child_ranks ranks(2, [&](rank self) {
    return play(ground, self, [&](exam::bench& b) {
      b.connect({{.from = 1, .to = 0, .capacity = 8}});
      b.post_send(0, 1, {8, 1});
      if (b.has(1)) await_stage(ground, 2);  // rank 1 waits here until it is killed
      b.post_receive(0, 1);
      b.await_parcel(0, {8, 1});
      b.post_receive(0, 2);
      exam::demand(b.at(0).liveness().find_dead_peer() == k_no_rank, "a living peer is reported dead");
      ground.word.stage.store(1);
      b.until([&] { return b.at(0).liveness().find_dead_peer() == 1; }, "the detection of a killed peer");
    });
  });
  ASSERT_TRUE(await_stage(ground, 1));
  ranks.kill(1);
  EXPECT_EQ(ranks.wait(0), "");
}

/// Kills a child by a signal. While the child exits, ptrace stops it before the kernel frees any of its resources. Only
/// the parent of the child may use this class.
struct held_at_its_end {
  explicit held_at_its_end(pid_t child)
      : process(child), is_permitted(ptrace(PTRACE_SEIZE, process, nullptr, PTRACE_O_TRACEEXIT) == 0) {
    if (!is_permitted) return;
    kill(process, SIGTERM);
    if (next_stop() != SIGTERM || ptrace(PTRACE_CONT, process, nullptr, SIGTERM) != 0) return;
    is_held = next_stop() == (SIGTRAP | PTRACE_EVENT_EXIT << 8);
  }
  ~held_at_its_end() { ptrace(PTRACE_DETACH, process, nullptr, nullptr); }
  int next_stop() const {
    int how = 0;
    return waitpid(process, &how, 0) == process && WIFSTOPPED(how) ? how >> 8 : -1;
  }

  pid_t process;
  bool is_permitted;
  bool is_held = false;
};

// The process of the peer is ending, but still has its memory and its process id, like a process that dumps core.
TEST(shm, finds_a_peer_that_a_signal_has_ended_before_its_process_is_gone) {
  common_ground ground;
  child_ranks ranks(2, [&](rank self) {
    const auto wait_for_its_end = [&](exam::bench& b) {
      b.connect({{.from = 1, .to = 0, .capacity = 8}});
      if (b.has(1)) {
        ground.word.stage.store(1);
        await_stage(ground, 4);  // rank 1 waits here until it is killed
      }
      exam::demand(await_stage(ground, 2), "rank 1 was not stopped");
      exam::demand(b.at(0).liveness().find_dead_peer() == k_no_rank, "a peer is checked although no op waits for it");
      b.post_receive(0, 1);
      exam::demand(b.at(0).liveness().find_dead_peer() == 1, "a peer that is being ended is reported alive");
      ground.word.stage.store(3);
    };
    return play(ground, self, wait_for_its_end, {.watches_processes = false});  // ptrace cannot stop watcher threads
  });
  ASSERT_TRUE(await_stage(ground, 1));
  const held_at_its_end victim(ground.segments[2]->page(1).process.load().number);
  if (!victim.is_permitted) GTEST_SKIP() << "ptrace is not permitted";
  ASSERT_TRUE(victim.is_held);
  ground.word.stage.store(2);
  EXPECT_EQ(ranks.wait(0), "");
}

// --- memory of other processes ----------------------------------------------------------------------------

constexpr std::uint64_t k_long = 100'000;  ///< size in bytes of a message that does not fit in a cell

/// Connects the routes after all ranks have joined, so that the memory of each rank is readable. The first connect()
/// has no routes, and waits until all ranks have joined.
void connect_when_all_are_here(exam::bench& b, std::vector<exam::route> routes) {
  b.connect({});
  b.disconnect();
  b.connect(std::move(routes));
}

TEST(shm, long_messages_of_other_processes_are_exact_whether_they_are_read_or_staged) {
  for (const shm_options& options : {shm_options{}, k_never_reads}) {
    common_ground ground;
    child_ranks ranks(2, [&](rank self) {
      const auto both_ways = [&](exam::bench& b) {
        connect_when_all_are_here(b, {{.from = 0, .to = 1, .capacity = k_long, .foreign = true},
                                      {.from = 1, .to = 0, .capacity = k_long, .foreign = true}});
        for (round_no round = 1; round <= (sampled() ? 1'000u : 3'000u); ++round) {
          for (std::size_t way = 0; way < 2; ++way) {
            b.post_send(way, round, {k_long, 2 * round + way});
            b.post_receive(way, round);
          }
          for (std::size_t way = 0; way < 2; ++way) b.await_parcel(way, {k_long, 2 * round + way});
          for (std::size_t way = 0; way < 2; ++way) b.await_sent(way);
        }
        b.disconnect();
      };
      return play(ground, self, both_ways, self == 0 ? options : shm_options{});
    });
    EXPECT_EQ(ranks.wait(), "") << options.reads_processes;
  }
}

/// The sender unmaps its memory before rank 0 receives the message. Returns the failures of the processes, or an empty
/// text.
std::string receive_what_is_gone(const shm_options& options) {
  common_ground ground;
  child_ranks ranks(2, [&](rank self) {
    const auto round = [&](exam::bench& b) {
      connect_when_all_are_here(b, {{.from = 1, .to = 0, .capacity = k_long, .foreign = true}});
      if (b.has(1)) {
        void* const memory = mmap(nullptr, k_long, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        (void)b.at(1).send(b.link(0, true), 1, {static_cast<std::byte*>(memory), k_long});
        munmap(memory, k_long);
        ground.word.stage.store(1);
        await_stage(ground, 2);
        return;
      }
      exam::demand(await_stage(ground, 1), "nothing was sent");
      b.post_receive(0, 1);
      const auto is_known = [&] {
        exam::demand(b.at(0).liveness().find_dead_peer() == k_no_rank, "a living peer is reported dead");
        return options.reads_processes ? b.at(0).liveness().health() == status::transport : b.is_received(0);
      };
      const auto limit = steady_clock::now() + std::chrono::seconds(20);
      while (!is_known() && steady_clock::now() < limit) b.turn();
      exam::demand(is_known(), "waited too long for a message of a dead rank");
      exam::demand(b.at(0).liveness().culprit() == (options.reads_processes ? 1 : k_no_rank), "another rank is blamed");
      exam::demand(b.is_received(0) || b.at(0).is_listening(), "no rank would check for dead peers");
      ground.word.stage.store(2);
    };
    return play(ground, self, round, options);
  });
  return ranks.wait();
}

TEST(shm, memory_that_cannot_be_read_is_a_failure_of_the_transport_and_staged_messages_outlive_it) {
  EXPECT_EQ(receive_what_is_gone({}), "");
  EXPECT_EQ(receive_what_is_gone(k_never_reads), "");
}

TEST(peer_memory, is_read_where_a_probe_answers_and_nowhere_else) {
  const memory_probe mine;
  EXPECT_TRUE(memory_probe::answers(getpid(), mine.address()));
  EXPECT_FALSE(memory_probe::answers(0, mine.address()));
  EXPECT_FALSE(memory_probe::answers(getpid(), 0));
  child_ranks child(1, [&](rank) {
    std::byte word{};
    if (!memory_probe::answers(getppid(), mine.address())) return 1;
    if (memory_probe::answers(getpid(), mine.address())) return 2;  // the probe belongs to the parent
    return read_peer_memory(getppid(), 64, &word, 1) ? 3 : 0;
  });
  EXPECT_EQ(child.wait(), "");
}

// When rank 0 checks whether the peer lives, the peer's process id does not exist any more.
TEST(shm, finds_a_peer_that_died_before_it_took_part_in_an_exchange) {
  common_ground ground;
  child_ranks ranks(2, [&](rank self) {
    return play(ground, self, [&](exam::bench& b) {
      if (b.has(1)) {
        ground.word.stage.store(1);
        await_stage(ground, 3);  // rank 1 waits here until it is killed
      }
      await_stage(ground, 2);
      b.attach({{.from = 1, .to = 0, .capacity = 8}});
      b.post_record(0);
      std::vector<std::byte> all(2 * board::record_bytes);
      rank missing = k_no_rank;
      exam::demand(b.board_of(0).gather(all, &missing) == status::pending && missing == 1, "rank 1 is not missing");
      b.until([&] { return b.at(0).liveness().find_dead_peer() == 1; }, "the detection of a dead peer");
    });
  });
  ASSERT_TRUE(await_stage(ground, 1));
  ranks.kill(1);
  ground.word.stage.store(2);
  EXPECT_EQ(ranks.wait(0), "");
}

TEST(shm, wakes_whoever_sleeps_when_the_last_record_is_posted) {
  const auto segment = segment_for(3);
  std::vector<std::unique_ptr<shm_endpoint>> ends;
  std::vector<std::unique_ptr<board>> boards;
  for (rank r = 0; r < 3; ++r) {
    ends.push_back(end_of(segment, r));
    boards.push_back(ends.back()->open_home_board());
    segment->page(r).bell.sleepers.store(1);
  }
  const auto rings = [&](rank of) { return segment->page(of).bell.word[doorbell::waiter].load(); };
  std::uint32_t before = 0;
  for (const rank r : {2, 0, 1}) {
    before = rings(0) + rings(2);
    rank missing = k_no_rank;
    ASSERT_EQ(boards[static_cast<std::size_t>(r)]->post({}, &missing), status::ok);
    ends[static_cast<std::size_t>(r)]->flush();
    if (r != 1) {
      EXPECT_EQ(rings(0) + rings(2), before) << "rank " << r;  // the first two records ring no bell, because all
                                                               // ranks wait for the last record
    }
  }
  EXPECT_EQ(rings(0) + rings(2), before + 2);
}

TEST(shm, hears_of_a_member_that_has_left_without_posting_its_record) {
  const auto segment = segment_for(2);
  const auto end = end_of(segment, 0);
  const auto other = end_of(segment, 1);
  const auto home = end->open_home_board();
  auto theirs = other->open_home_board();
  std::vector<std::byte> all(2 * board::record_bytes);
  rank missing = k_no_rank;
  ASSERT_EQ(home->post({}, &missing), status::ok);
  EXPECT_EQ(home->gather(all, &missing), status::pending);
  theirs.reset();
  EXPECT_EQ(home->gather(all, &missing), status::peer);
  EXPECT_EQ(missing, 1);
}

// Rank 2 leaves. Rank 1 notices the loss and closes its endpoint. Rank 0 waits for both ranks, and must name rank 2.
TEST(shm, names_the_rank_that_was_missed_first_whoever_ends_because_of_it) {
  const auto segment = segment_for(3);
  const auto last = end_of(segment, 0);
  const auto between = end_of(segment, 1);
  const auto gone = end_of(segment, 2);
  const auto to = [](rank peer) { return edge_spec{.outgoing = true, .peer = peer, .capacity = 8}; };
  const auto from = [](rank peer) { return edge_spec{.peer = peer, .capacity = 8}; };
  const auto of_last = last->attach(0, k_three, false, std::vector{from(1), from(2)});
  const auto of_between = between->attach(0, k_three, false, std::vector{to(0), from(2)});
  ASSERT_TRUE(of_last && of_between && gone->attach(0, k_three, false, std::vector{to(0), to(1)}));
  const std::array all{last->address_of(0), between->address_of(0), gone->address_of(0)};
  for (shm_endpoint* each : {last.get(), between.get(), gone.get()}) ASSERT_EQ(each->link(0, all), status::ok);
  std::byte target[8];
  arrival news;
  EXPECT_FALSE(between->receive((*of_between)[1], 1, target, news));
  for (const link_id link : *of_last) EXPECT_FALSE(last->receive(link, 1, target, news));
  gone->close();
  EXPECT_EQ(between->find_dead_peer(), 2);
  between->close();
  EXPECT_EQ(last->find_dead_peer(), 2);
}

TEST(shm, loses_no_message_between_threads_that_sleep) {
  common_ground ground;
  const round_no rounds = sampled() ? 2'000 : 20'000;
  std::array<int, 2> lost{};
  std::array<int, 2> answers{};
  const auto run = [&](rank self) {
    answers[static_cast<std::size_t>(self)] = play(ground, self, [&](exam::bench& b) {
      b.connect({{.from = 0, .to = 1, .capacity = 20000, .in_place = true}, {.from = 1, .to = 0, .capacity = 20000}});
      const auto mine = static_cast<std::size_t>(self);
      for (round_no round = 1; round <= rounds; ++round) {
        for (std::size_t way = 0; way < 2; ++way) b.post_send(way, round, exam::parcel_of(way, round, 20000));
        for (std::size_t way = 0; way < 2; ++way) b.post_receive(way, round);
        exam::sleep_until(
            b, self, [&] { return b.is_received(1 - mine); }, lost[mine]);
        b.await_parcel(1 - mine, exam::parcel_of(1 - mine, round, 20000));
        exam::sleep_until(
            b, self, [&] { return b.is_sent(mine); }, lost[mine]);
      }
      b.at(self).flush();  // sends what remains, because this thread does not poll again
    });
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_EQ(answers, (std::array<int, 2>{}));
  EXPECT_EQ(lost, (std::array<int, 2>{}));
}

// --- instances -------------------------------------------------------------------------------------------

/// Returns an edge that needs more than half of a region, so two such edges do not fit at the same time.
edge_spec large_edge(rank peer, std::uint32_t tag = 0) {
  return {.outgoing = true, .foreign = true, .peer = peer, .tag = tag, .capacity = k_stride / 8 * 5};
}

/// Links both ends of an instance.
void link_both(shm_endpoint& one, shm_endpoint& other, std::uint32_t id) {
  const std::array<member_address, 2> all{one.address_of(id), other.address_of(id)};
  EXPECT_EQ(one.link(id, all), status::ok);
  EXPECT_EQ(other.link(id, all), status::ok);
}

TEST(shm, keeps_what_peers_may_write_to) {
  const auto segment = segment_for(3);
  const auto end = end_of(segment, 0);
  const auto other = end_of(segment, 1);
  const auto third = end_of(segment, 2);
  ASSERT_TRUE(end->attach(0, k_three, false, std::vector{large_edge(1)}));
  ASSERT_TRUE(other->attach(7, k_three, false, std::vector{edge_spec{.peer = 0, .capacity = k_stride / 8 * 5}}));
  ASSERT_TRUE(third->attach(3, k_three, false, {}));
  const std::array<member_address, 3> all{end->address_of(0), other->address_of(7), third->address_of(3)};
  EXPECT_EQ(end->link(0, all), status::ok);
  EXPECT_EQ(other->link(7, all), status::ok);
  EXPECT_EQ(third->link(3, all), status::ok);
  end->detach(0);
  EXPECT_FALSE(end->attach(1, k_three, false, std::vector{large_edge(1)}));
  other->detach(7);
  EXPECT_FALSE(end->attach(2, k_three, false, std::vector{large_edge(1)})) << "rank 2 may still give the instance up";
  third->close();
  EXPECT_TRUE(end->attach(3, k_three, false, std::vector{large_edge(1)}));
}

TEST(shm, gives_back_what_was_never_linked) {
  const auto end = end_of(segment_for(2), 0);
  ASSERT_TRUE(end->attach(0, k_two, false, std::vector{large_edge(1)}));
  end->detach(0);
  EXPECT_TRUE(end->attach(1, k_two, false, std::vector{large_edge(1)}));
}

TEST(shm, links_nothing_to_what_is_no_address) {
  const auto segment = segment_for(2);
  const auto end = end_of(segment, 0);
  const auto other = end_of(segment, 1);
  ASSERT_TRUE(end->attach(0, k_two, false, {}));
  ASSERT_TRUE(other->attach(0, k_two, false, {}));
  const member_address mine = end->address_of(0);
  const std::uint64_t last = segment->region_start(1) + segment->stride() - 8;
  for (const std::uint64_t wrong :
       {std::uint64_t{0}, mine.near, other->address_of(0).near + 4, last, ~std::uint64_t{7}})
    EXPECT_EQ(end->link(0, std::array{mine, member_address{.near = wrong}}), status::unmatched) << wrong;
  EXPECT_EQ(end->link(0, std::array{mine}), status::internal);
  link_both(*end, *other, 0);
}

TEST(shm, gives_back_everything_when_it_cannot_attach) {
  const auto segment = segment_for(2);
  const auto end = end_of(segment, 0);
  const auto other = end_of(segment, 1);
  ASSERT_TRUE(other->attach(0, k_two, false, std::vector{large_edge(0)}));
  const auto refused = end->attach(0, k_two, false, std::vector{large_edge(1, 0), large_edge(1, 1)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, status::no_memory);
  other->detach(0);
  EXPECT_TRUE(end->attach(1, k_two, false, std::vector{large_edge(1)}));
  EXPECT_TRUE(other->attach(1, k_two, false, std::vector{large_edge(0)}));
}

TEST(shm, refuses_edges_out_of_the_world) {
  const auto end = end_of(segment_for(2), 0);
  EXPECT_EQ(end->attach(0, k_two, false, std::vector{large_edge(2)}).error().code, status::argument);
  EXPECT_EQ(end->attach(1, k_two, false, std::vector{large_edge(-1)}).error().code, status::argument);
}

TEST(shm, bears_more_instances_than_there_are_places_on_record) {
  constexpr std::uint32_t k_instances = shm_record::k_places + 10;
  const auto segment = segment_for(2);
  const auto end = end_of(segment, 0);
  const auto other = end_of(segment, 1);
  for (std::uint32_t id = 0; id < k_instances; ++id) {
    ASSERT_TRUE(end->attach(id, k_two, false, {}));
    ASSERT_TRUE(other->attach(k_instances + id, k_two, false, {}));
    *end->put_on_record(id, id, "some #" + std::to_string(id)) = id;
    (void)other->put_on_record(k_instances + id, id, "some");
    const std::array<member_address, 2> all{end->address_of(id), other->address_of(k_instances + id)};
    ASSERT_EQ(end->link(id, all), status::ok);
    ASSERT_EQ(other->link(k_instances + id, all), status::ok);
  }
  for (std::uint32_t id = 0; id < k_instances; ++id) EXPECT_EQ(other->entered_by(0, k_instances + id), id);
  EXPECT_EQ(read_record(segment->record(0)).schedules.size(), shm_record::k_places);
  for (std::uint32_t id = 0; id < k_instances; ++id) {
    end->detach(id);
    other->detach(k_instances + id);
  }
  ASSERT_TRUE(end->attach(2 * k_instances, k_two, false, {}));
  (void)end->put_on_record(2 * k_instances, 99, "one more");
  EXPECT_NE(read_record(segment->record(0)).find(99), nullptr);
}

// --- claims of ranks -------------------------------------------------------------------------------------

TEST(shm, gives_each_rank_once) {
  const auto segment = segment_for(3);
  const auto end = end_of(segment, 2);
  EXPECT_EQ(shm_endpoint::open(segment, 2).error().code, status::state);
  EXPECT_EQ(shm_endpoint::open(segment, 3).error().code, status::argument);
  EXPECT_EQ(shm_endpoint::open(segment, -1).error().code, status::argument);
}

// Another process tries to open a rank that already has an owner. The open must fail. After this process has ended,
// other ranks must not conclude that the owner is dead.
TEST(shm, leaves_a_rank_to_its_owner_when_another_process_wants_it) {
  const auto segment = segment_for(2);
  const auto owner = end_of(segment, 1);
  child_ranks thief(1, [&](rank) { return shm_endpoint::open(segment, 1) ? 1 : 0; });
  EXPECT_EQ(thief.wait(), "");
  EXPECT_EQ(segment->page(1).process.load(), own_process());
  EXPECT_EQ(end_of(segment, 0)->find_dead_peer(), k_no_rank);
}

// --- the segment -----------------------------------------------------------------------------------------

TEST(shm_segment, has_no_name) {
  const auto segment = segment_for(2);
  const auto end = end_of(segment, 0);
  const std::string file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(segment->descriptor()));
  EXPECT_EQ(file.rfind("/memfd:", 0), 0u) << file;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("sched"), std::string::npos) << entry.path();
}

/// Returns the VmFlags (see proc(5)) of each mapping of a segment.
std::vector<std::string> flags_of_segments() {
  std::vector<std::string> all;
  std::ifstream maps("/proc/self/smaps");
  bool is_segment = false;
  for (std::string line; std::getline(maps, line);) {
    if (std::isdigit(line[0]) != 0 || std::islower(line[0]) != 0)
      is_segment = line.find("/memfd:libsched") != std::string::npos;
    if (is_segment && line.starts_with("VmFlags:")) all.push_back(line);
  }
  return all;
}

TEST(shm_segment, gives_memory_back_that_is_not_used_any_more) {
  const auto segment = *shm_segment::create(1, std::size_t{1} << 30);
  const auto taken = [&] {
    struct stat file {};
    EXPECT_EQ(fstat(segment->descriptor(), &file), 0);
    return static_cast<std::uint64_t>(file.st_blocks) * 512;
  };
  shm_heap heap(segment, 0);
  constexpr std::size_t k_bytes = 800'003;  // not a multiple of the page size
  std::vector<std::byte*> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back(heap.allocate(k_bytes + static_cast<std::size_t>(i)));
    std::memset(all.back(), i, k_bytes + static_cast<std::size_t>(i));
  }
  EXPECT_GT(taken(), 300 * k_bytes);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i % 10 != 0) heap.deallocate(all[i]);
  EXPECT_LT(taken(), 30 * k_bytes + shm_heap::k_most_kept + (std::uint64_t{4} << 20));
  for (std::size_t i = 0; i < all.size(); i += 10)
    for (std::size_t at = 0; at < k_bytes + i; ++at)
      ASSERT_EQ(all[i][at], static_cast<std::byte>(i)) << i << ", " << at;
  for (std::size_t i = 0; i < all.size(); i += 10) heap.deallocate(all[i]);
  std::byte* const whole = heap.allocate(300 * k_bytes);
  ASSERT_NE(whole, nullptr);
  std::memset(whole, 1, 300 * k_bytes);
  heap.deallocate(whole);
  EXPECT_LT(taken(), shm_heap::k_most_kept + (std::uint64_t{4} << 20));
}

TEST(shm_segment, is_left_out_of_core_dumps_of_all_that_map_it) {
  const auto mine = segment_for(2);
  const auto of_a_peer = shm_segment::adopt(dup(mine->descriptor()));
  ASSERT_TRUE(of_a_peer);
  const std::vector<std::string> all = flags_of_segments();
  EXPECT_EQ(all.size(), 2u);
  for (const std::string& flags : all) EXPECT_NE(flags.find(" dd"), std::string::npos) << flags;
}

TEST(shm_segment, keeps_losses_on_record_in_their_order) {
  const auto segment = segment_for(3);
  const auto of_a_peer = *shm_segment::adopt(dup(segment->descriptor()));
  EXPECT_EQ(of_a_peer->lost_after(0), k_no_rank);
  EXPECT_TRUE(segment->record_lost(2));
  EXPECT_FALSE(of_a_peer->record_lost(2));
  EXPECT_TRUE(of_a_peer->record_lost(0));
  EXPECT_EQ(of_a_peer->lost_after(0), 2);
  EXPECT_EQ(segment->lost_after(1), 0);
  EXPECT_EQ(segment->lost_after(2), k_no_rank);
  EXPECT_EQ(segment->lost_after(3), k_no_rank);
  EXPECT_TRUE(segment->is_lost(0) && segment->is_lost(2) && !segment->is_lost(1));
}

TEST(shm_segment, refuses_worlds_that_cannot_be) {
  EXPECT_EQ(shm_segment::create(0).error().code, status::argument);
  EXPECT_EQ(shm_segment::create(-1).error().code, status::argument);
  EXPECT_EQ(shm_segment::create(2, ~std::size_t{0}).error().code, status::no_memory);
  EXPECT_EQ(shm_segment::create(std::numeric_limits<rank>::max(), k_stride).error().code, status::no_memory);
}

TEST(shm_segment, shows_the_same_bytes_through_every_mapping) {
  const auto segment = shm_segment::create(3, 5000);  // rounded up to pages
  ASSERT_TRUE(segment);
  const auto second = shm_segment::adopt(dup((*segment)->descriptor()));
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->ranks(), 3);
  EXPECT_EQ((*second)->stride(), 8192u);
  for (rank r = 0; r < 3; ++r) {
    const std::uint64_t last = (*segment)->region_start(r) + 8191;
    *(*segment)->at(last) = std::byte(r + 1);
    EXPECT_EQ(*(*second)->at(last), std::byte(r + 1));
  }
}

TEST(shm_segment, knows_which_region_holds_what) {
  const auto segment = *shm_segment::create(2, 8192);
  const std::uint64_t start = segment->region_start(1);
  EXPECT_TRUE(segment->holds(1, start, 8192));
  EXPECT_TRUE(segment->holds(1, start + 8192, 0));
  EXPECT_FALSE(segment->holds(1, start, 8193));
  EXPECT_FALSE(segment->holds(1, start + 1, 8192));
  EXPECT_FALSE(segment->holds(1, start - 1, 1));
  EXPECT_FALSE(segment->holds(0, start, 1));
  EXPECT_FALSE(segment->holds(1, ~std::uint64_t{0}, 2));
  EXPECT_FALSE(segment->holds(1, start, ~std::uint64_t{0}));
}

/// Returns a file that begins like segment `like`, except that word `index` is replaced by `word`. The file is larger
/// than `like` by `more` bytes.
int forged(const shm_segment& like, std::size_t index, std::uint64_t word, off_t more = 0,
           int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
  std::array<std::uint64_t, 4> words{};
  const auto bytes = static_cast<ssize_t>(sizeof words);
  EXPECT_EQ(pread(like.descriptor(), words.data(), sizeof words, 0), bytes);
  if (index < words.size()) words[index] = word;
  const int file = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const auto size = static_cast<off_t>(like.region_start(like.ranks()));
  EXPECT_EQ(ftruncate(file, size + more), 0);
  EXPECT_EQ(pwrite(file, words.data(), sizeof words, 0), bytes);
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, seals), 0);
  return file;
}

TEST(shm_segment, cannot_change_its_size_or_be_opened_by_others) {
  const auto segment = *shm_segment::create(2, 8192);
  EXPECT_NE(ftruncate(segment->descriptor(), 4096), 0);
  EXPECT_NE(ftruncate(segment->descriptor(), 1 << 30), 0);
  EXPECT_NE(fcntl(segment->descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  struct stat info {};
  ASSERT_EQ(fstat(segment->descriptor(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK})
    EXPECT_EQ(shm_segment::adopt(forged(*segment, 4, 0, 0, seals)).error().code, status::transport) << seals;
}

/// A program that this process executes must not inherit a descriptor of the segment. An adopted segment has no
/// descriptor, and the descriptor of the creator is closed on exec.
TEST(shm_segment, leaves_no_descriptor_to_programs_that_are_executed) {
  const auto segment = *shm_segment::create(2, 8192);
  const int other = dup(segment->descriptor());
  EXPECT_EQ((*shm_segment::adopt(other))->descriptor(), -1);
  EXPECT_EQ(fcntl(other, F_GETFD), -1);
  EXPECT_EQ(fcntl(segment->descriptor(), F_GETFD), FD_CLOEXEC);
}

TEST(shm_segment, adopts_only_what_describes_itself_truly) {
  const auto segment = *shm_segment::create(2, 8192);
  EXPECT_TRUE(shm_segment::adopt(forged(*segment, 4, 0)));
  struct lie {
    std::size_t index;
    std::uint64_t word;
    off_t more;
  };
  constexpr std::uint64_t k_half = std::uint64_t{1} << 63;
  const lie lies[]{{0, 7, 0},     // word 0: the magic number
                   {1, 4096, 0},  // word 1: the stride between regions
                   {1, 0, 0},
                   {1, 8191, 0},
                   {1, 8192 + k_half, 0},  // twice this value overflows to 16384
                   {2, 4096, 0},           // word 2: the start of the regions
                   {2, segment->region_start(1), 0},
                   {2, segment->region_start(0) - 8192, -8192},
                   {3, 1, 0},  // word 3: the number of ranks
                   {3, 0, 0},
                   {3, 3, 0},
                   {3, ~std::uint64_t{0}, 0},
                   {3, 2 + (std::uint64_t{1} << 32), 0},
                   {4, 0, 4096},  // word 4: the size of the file
                   {4, 0, -4096},
                   {4, 0, -1}};
  for (const lie& it : lies) {
    const auto answer = shm_segment::adopt(forged(*segment, it.index, it.word, it.more));
    ASSERT_FALSE(answer) << it.index << " " << it.word << " " << it.more;
    EXPECT_EQ(answer.error().code, status::version);
  }
}

TEST(shm_segment, takes_garbage_over_and_refuses_it) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const int empty = memfd_create("empty", MFD_CLOEXEC);
  for (const int garbage : {pipe_ends[0], pipe_ends[1], empty, open("/dev/null", O_RDWR),
                            open("/proc/self/exe", O_RDONLY), open("/", O_RDONLY | O_DIRECTORY)}) {
    ASSERT_GE(garbage, 0);
    EXPECT_FALSE(shm_segment::adopt(garbage));
    EXPECT_EQ(fcntl(garbage, F_GETFD), -1) << "the descriptor was not closed";
  }
  EXPECT_EQ(shm_segment::adopt(-1).error().code, status::transport);
}

// --- the heap --------------------------------------------------------------------------------------------

constexpr std::size_t k_small_stride = std::size_t{1} << 20;

/// A simple reference implementation of the heap, with the pieces sorted by offset.
struct reference_heap {
  std::map<std::uint64_t, std::uint64_t> pieces;  ///< bytes of each piece, by its offset in the region
  std::uint64_t size = k_small_stride;

  bool has_room_for(std::uint64_t bytes) const {
    const std::uint64_t alignment = bytes >= 4096 ? 4096 : 64;
    std::uint64_t end = 0;
    const auto fits = [&](std::uint64_t next) { return (end + alignment - 1) / alignment * alignment + bytes <= next; };
    for (const auto& [place, length] : pieces) {
      if (fits(place)) return true;
      end = (place + std::max<std::uint64_t>(length, 1) + 63) / 64 * 64;
    }
    return fits(size);
  }
  bool is_free(std::uint64_t place, std::uint64_t bytes) const {
    const auto next = pieces.lower_bound(place);
    if (next != pieces.end() && next->first < place + std::max<std::uint64_t>(bytes, 1)) return false;
    return next == pieces.begin() || std::prev(next)->first + std::prev(next)->second <= place;
  }
};

TEST(shm_heap, agrees_with_a_reference_and_coalesces) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto segment = *shm_segment::create(2, k_small_stride);
    shm_heap heap(segment, 1);
    reference_heap expected;
    const std::byte* const start = segment->at(segment->region_start(1));
    std::uint64_t dice = mix(seed);
    const auto roll = [&](std::uint64_t sides) { return (dice = mix(dice)) % sides; };
    const auto drop_any = [&] {
      const auto any = std::next(expected.pieces.begin(), static_cast<std::ptrdiff_t>(roll(expected.pieces.size())));
      std::byte* const place = segment->at(segment->region_start(1) + any->first);
      ASSERT_EQ((exam::parcel{any->second, any->first}).first_difference(place), any->second) << "seed " << seed;
      heap.deallocate(place);
      expected.pieces.erase(any);
    };
    for (int k = 0; k < 4000; ++k) {
      if (!expected.pieces.empty() && roll(5) < 2) {
        drop_any();
        continue;
      }
      const std::uint64_t bytes = roll(8) == 0 ? roll(40'000) : roll(600);
      std::byte* const place = heap.allocate(bytes);
      ASSERT_EQ(place != nullptr, expected.has_room_for(bytes)) << "seed " << seed << ", " << bytes << " bytes";
      if (place == nullptr) continue;
      const auto offset = static_cast<std::uint64_t>(place - start);
      ASSERT_EQ(offset % (bytes >= 4096 ? 4096 : 64), 0u);
      ASSERT_TRUE(heap.owns(place, bytes));
      ASSERT_TRUE(expected.is_free(offset, bytes)) << "seed " << seed;
      exam::parcel{bytes, offset}.write(place);
      expected.pieces[offset] = bytes;
    }
    EXPECT_GT(expected.pieces.size(), 100u);
    while (!expected.pieces.empty()) drop_any();
    std::byte* const all = heap.allocate(k_small_stride);
    EXPECT_EQ(all, start) << "seed " << seed;
    EXPECT_EQ(heap.allocate(1), nullptr);
  }
}

/// Allocates memory from a new heap. Returns how many pages of this memory are not yet resident.
std::ptrdiff_t missing_pages(bool touches, std::uint64_t bytes) {
  const auto segment = *shm_segment::create(1, 64 << 20);
  shm_heap heap(segment, 0, touches);
  std::byte* const memory = heap.allocate(bytes);  // the first block begins at a page boundary
  std::vector<unsigned char> is_provided((bytes + 4095) / 4096);
  EXPECT_EQ(mincore(memory, bytes, is_provided.data()), 0);
  heap.deallocate(memory);
  return std::ranges::count_if(is_provided, [](unsigned char state) { return (state & 1) == 0; });
}

TEST(shm_heap, that_touches_what_it_allocates_leaves_no_page_for_later) {
  constexpr std::uint64_t k_bytes = 32 << 20;
  EXPECT_EQ(missing_pages(false, k_bytes), static_cast<std::ptrdiff_t>(k_bytes / 4096));
  EXPECT_EQ(missing_pages(true, k_bytes), 0);
  EXPECT_EQ(missing_pages(true, 4096), 0);
}

TEST(shm_heap, refuses_what_no_region_can_hold) {
  const auto segment = *shm_segment::create(1, k_small_stride);
  shm_heap heap(segment, 0);
  for (const std::size_t bytes : {k_small_stride + 1, ~std::size_t{0}, ~std::size_t{0} - 62, ~std::size_t{0} - 63})
    EXPECT_EQ(heap.allocate(bytes), nullptr) << bytes;
  EXPECT_NE(heap.allocate(k_small_stride), nullptr);
}

TEST(shm_heap, ignores_what_it_did_not_give) {
  const auto segment = *shm_segment::create(2, k_small_stride);
  shm_heap heap(segment, 0);
  std::byte mine{};
  std::byte* const given = heap.allocate(128);
  heap.deallocate(&mine);
  heap.deallocate(given + 64);
  heap.deallocate(nullptr);
  EXPECT_NE(heap.allocate(64), given);
  EXPECT_FALSE(heap.owns(&mine, 1));
  EXPECT_FALSE(heap.owns(given, k_small_stride + 1));
  EXPECT_FALSE(heap.owns(segment->at(segment->region_start(1)), 1));
}

TEST(shm_heap, may_be_used_by_several_threads) {
  const auto segment = *shm_segment::create(1, k_small_stride);
  shm_heap heap(segment, 0);
  std::atomic<int> wrong{0};
  const auto work = [&](std::uint64_t seed) {
    for (std::uint64_t k = 0; k < 2000; ++k) {
      const exam::parcel what{mix(seed + k) % 500, seed + k};
      std::byte* const place = heap.allocate(what.bytes);
      what.write(place);
      if (what.first_difference(place) != what.bytes) ++wrong;
      heap.deallocate(place);
    }
  };
  std::thread other(work, 1'000'000);
  work(2'000'000);
  other.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_NE(heap.allocate(k_small_stride), nullptr);
}

// --- device memory that ranks expose ---------------------------------------------------------------------------------

/// Returns an area in which every field depends on `value`. The test thus detects a mixture of two areas.
exposed_area area_made_of(std::uint64_t value) {
  exposed_area made{.address = value, .bytes = value, .process = static_cast<int>(value), .descriptor = -1};
  made.device.fill(static_cast<std::byte>(value));
  made.handle.fill(static_cast<std::byte>(value));
  return made;
}

bool is_made_of(const exposed_area& seen, std::uint64_t value) {
  const exposed_area whole = area_made_of(value);
  return seen.address == value && seen.bytes == value && seen.process == whole.process && seen.descriptor == -1 &&
         seen.device == whole.device && seen.handle == whole.handle;
}

TEST(ShmAreas, AreShownUntilTheyAreHidden) {
  const auto segment = segment_for(2);
  const auto mine = end_of(segment, 0), theirs = end_of(segment, 1);
  EXPECT_FALSE(theirs->area_of(0, 3));
  EXPECT_FALSE(theirs->area_of(0, exposed_area::k_most));
  std::vector<std::uint64_t> serials;
  for (const std::uint64_t value : {7u, 8u, 7u}) {
    ASSERT_TRUE(mine->expose(3, area_made_of(value)));
    const auto seen = theirs->area_of(0, 3);
    ASSERT_TRUE(seen);
    EXPECT_TRUE(is_made_of(*seen, value));
    EXPECT_EQ(std::ranges::count(serials, seen->serial), 0) << "the serial number was used before";
    EXPECT_NE(seen->serial, 0u);
    serials.push_back(seen->serial);
    mine->withdraw(3);
    EXPECT_FALSE(theirs->area_of(0, 3));
  }
}

TEST(ShmAreas, AreSeenAsAWholeWhileTheyChange) {
  const auto segment = segment_for(2);
  const auto mine = end_of(segment, 0), theirs = end_of(segment, 1);
  const std::jthread changes([&](const std::stop_token& over) {
    for (std::uint64_t value = 1; !over.stop_requested(); ++value) {
      EXPECT_TRUE(mine->expose(0, area_made_of(value % 100)));
      mine->withdraw(0);
    }
  });
  for (int seen = 0; seen < (sampled() ? 2000 : 100'000);) {
    const auto area = theirs->area_of(0, 0);
    ASSERT_TRUE(!area || is_made_of(*area, area->address));
    seen += area ? 1 : 0;
  }
}

}  // namespace
}  // namespace lsched
