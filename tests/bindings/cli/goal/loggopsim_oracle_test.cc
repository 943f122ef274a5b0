// Tests of the oracle that implements LogGOPSim's rules. Its times are compared with times that were computed by hand
// and with published outputs. All times are in ns. A "published defect" is a fault of LogGOPSim that the oracle
// reproduces.
//
// With the defaults, a message arrives 4,000 ns after its send has started. A message of m bytes occupies the sender's
// NIC for 1,000 + 6 (m-1) ns, and the receiver's CPU for 1,500 + 6 (m-1) ns.
#include "tests/support/loggopsim_oracle.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using lsched::loggopsim_parameters;
using lsched::status;
using times = std::vector<std::uint64_t>;

lsched::goal parsed(const std::string& text) {
  const auto program = lsched::parse_goal_text(text);
  EXPECT_TRUE(program) << program.error().text;
  return program ? *program : lsched::goal{};
}

times times_of(const std::string& text, const loggopsim_parameters& parameters = {}) {
  const auto answer = lsched::run_loggopsim(parsed(text), parameters);
  EXPECT_TRUE(answer) << answer.error().text;
  return answer ? *answer : times{};
}

/// Runs a program that does not end. Returns the reason.
std::string stuck(const std::string& text, const loggopsim_parameters& parameters = {}) {
  const auto answer = lsched::run_loggopsim(parsed(text), parameters);
  if (answer) return "it comes to its end";
  EXPECT_EQ(answer.error().code, status::state);
  return answer.error().text;
}

/// Returns parameters with which messages of more than 100 bytes use the rendezvous protocol.
loggopsim_parameters small_eager() {
  loggopsim_parameters with;
  with.most_eager = 100;
  return with;
}

TEST(LoggopsimOracle, a_message_takes_2o_and_l) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 1b from 0\n"
                     "}\n"),
            (times{1500, 5500}));
}

TEST(LoggopsimOracle, bytes_occupy_the_receiver) {  // rank 1 ends at 4000 + 1500 + 6 * 1000
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1001b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 1001b from 0\n"
                     "}\n"),
            (times{1500, 11'500}));
}

// Each byte after the first takes 6 ns, so that 4,000 bytes take 23,994 ns. The first send starts at 0 and occupies the
// NIC until 24,994. The message of the other rank occupies the CPU from 4,000 to 29,494. Only then does the second send
// start. It occupies the CPU until 30,994. The second message arrives at 33,494.
TEST(LoggopsimOracle, a_send_that_waits_for_its_nic_lets_messages_in) {
  const std::string independent =
      "num_ranks 2\n"
      "rank 0 {\n"
      "send 4000b to 1\n"
      "send 4000b to 1\n"
      "recv 4000b from 1\n"
      "recv 4000b from 1\n"
      "}\n"
      "rank 1 {\n"
      "send 4000b to 0\n"
      "send 4000b to 0\n"
      "recv 4000b from 0\n"
      "recv 4000b from 0\n"
      "}\n";
  EXPECT_EQ(times_of(independent), (times{58'988, 58'988}));
  const std::string chained =
      "num_ranks 2\n"
      "rank 0 {\n"
      "s1: send 4000b to 1\n"
      "s2: send 4000b to 1\n"
      "r1: recv 4000b from 1\n"
      "r2: recv 4000b from 1\n"
      "s2 requires s1\n"
      "r2 requires r1\n"
      "}\n"
      "rank 1 {\n"
      "s1: send 4000b to 0\n"
      "s2: send 4000b to 0\n"
      "r1: recv 4000b from 0\n"
      "r2: recv 4000b from 0\n"
      "s2 requires s1\n"
      "r2 requires r1\n"
      "}\n";
  EXPECT_EQ(times_of(chained), (times{58'988, 58'988}));
}

// --- published outputs ---

// The example of LogGOPSim's readme: schedgen --commsize 8 --datasize 1024 --ptrn binomialtreereduce.
TEST(LoggopsimOracle, published_binomial_reduction) {
  EXPECT_EQ(times_of("num_ranks 8\n"
                     "rank 0 {\n"
                     "l1: recv 1024b from 1\n"
                     "l2: recv 1024b from 2\n"
                     "l3: recv 1024b from 4\n"
                     "}\n"
                     "rank 1 {\n"
                     "l1: send 1024b to 0\n"
                     "l2: recv 1024b from 3\n"
                     "l1 requires l2\n"
                     "l3: recv 1024b from 5\n"
                     "l1 requires l3\n"
                     "}\n"
                     "rank 2 {\n"
                     "l1: send 1024b to 0\n"
                     "l2: recv 1024b from 6\n"
                     "l1 requires l2\n"
                     "}\n"
                     "rank 3 {\n"
                     "l1: send 1024b to 1\n"
                     "l2: recv 1024b from 7\n"
                     "l1 requires l2\n"
                     "}\n"
                     "rank 4 {\n"
                     "l1: send 1024b to 0\n"
                     "}\n"
                     "rank 5 {\n"
                     "l1: send 1024b to 1\n"
                     "}\n"
                     "rank 6 {\n"
                     "l1: send 1024b to 2\n"
                     "}\n"
                     "rank 7 {\n"
                     "l1: send 1024b to 3\n"
                     "}\n"),
            (times{34'914, 24'776, 13'138, 13'138, 1500, 1500, 1500, 1500}));
}

// dissemination_16.goal of the published simulator: a send of round k waits for the receive of round k-1.
TEST(LoggopsimOracle, published_dissemination) {
  std::string text = "num_ranks 16\n";
  for (int r = 0; r < 16; ++r) {
    text += "rank " + std::to_string(r) + " {\n";
    for (int distance = 1; distance < 16; distance *= 2) {
      const std::string round = std::to_string(distance);
      text += "s" + round + ": send 1b to " + std::to_string((r + distance) % 16) + "\n";
      if (distance > 1) text += "s" + round + " requires r" + std::to_string(distance / 2) + "\n";
      text += "r" + round + ": recv 1b from " + std::to_string((r + 16 - distance) % 16) + "\n";
    }
    text += "}\n";
  }
  EXPECT_EQ(times_of(text), times(16, 22'000));
}

// --- CPUs and NICs ---

// The second send waits for the NIC until 7,000. Meanwhile the calc runs and ends at 6,500. The messages arrive at
// 4,000 and 11,000. When the second message arrives, the receiver's CPU is still busy, until 11,500.
TEST(LoggopsimOracle, a_busy_nic_does_not_hold_the_cpu) {
  const std::string text =
      "num_ranks 2\n"
      "rank 0 {\n"
      "send 1001b to 1\n"
      "send 1001b to 1\n"
      "calc 5000\n"
      "}\n"
      "rank 1 {\n"
      "recv 1001b from 0\n"
      "recv 1001b from 0\n"
      "}\n";
  EXPECT_EQ(times_of(text), (times{8500, 19'000}));
}

// With two NICs, the second send starts at 1,500, and the calc at 3,000.
TEST(LoggopsimOracle, two_nics_send_side_by_side) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1001b to 1\n"
                     "send 1001b to 1 nic 1\n"
                     "calc 5000\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 1001b from 0\n"
                     "recv 1001b from 0\n"
                     "}\n"),
            (times{8000, 19'000}));
}

// Both messages arrive at 4,000. The first message occupies the CPU until 11,500, and its NIC for 5,000 + 6,000 ns,
// until 15,000.
TEST(LoggopsimOracle, messages_occupy_the_nic_that_their_send_names) {
  loggopsim_parameters with;
  with.gap = 5000;
  const auto text = [](const std::string& nic_of_send, const std::string& nic_of_receive) {
    return "num_ranks 3\n"
           "rank 0 {\n"
           "send 1001b to 2\n"
           "}\n"
           "rank 1 {\n"
           "send 1001b to 2" +
           nic_of_send +
           "\n"
           "}\n"
           "rank 2 {\n"
           "recv 1001b from 0\n"
           "recv 1001b from 1" +
           nic_of_receive +
           "\n"
           "}\n";
  };
  EXPECT_EQ(times_of(text("", ""), with), (times{1500, 1500, 22'500}));
  EXPECT_EQ(times_of(text(" nic 1", " nic 1"), with), (times{1500, 1500, 19'000}));
  EXPECT_EQ(times_of(text(" nic 1", ""), with), (times{1500, 1500, 19'000}));
  EXPECT_EQ(times_of(text("", " nic 1"), with), (times{1500, 1500, 22'500}));  // a published defect
}

TEST(LoggopsimOracle, sending_and_receiving_on_a_nic_do_not_disturb_each_other) {
  loggopsim_parameters with;
  with.gap = 50'000;
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1b to 1\n"
                     "recv 1b from 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "send 1b to 0\n"
                     "recv 1b from 0\n"
                     "}\n",
                     with),
            (times{5500, 5500}));
}

TEST(LoggopsimOracle, each_cpu_does_one_thing_at_a_time) {
  EXPECT_EQ(times_of("num_ranks 1\n"
                     "rank 0 {\n"
                     "calc 3000\n"
                     "calc 2000\n"
                     "calc 4000 cpu 1\n"
                     "}\n"),
            times{5000});
}

// Published defect: l2 requires l1, but does not wait for the end of l1, because l1 is on another CPU. So l2 starts at
// 0.
TEST(LoggopsimOracle, what_is_freed_on_another_cpu_does_not_wait) {
  EXPECT_EQ(times_of("num_ranks 1\n"
                     "rank 0 {\n"
                     "l1: calc 3000\n"
                     "l2: calc 1000 cpu 1\n"
                     "l2 requires l1\n"
                     "}\n"),
            times{3000});
}

// Published defect: the message occupies the CPU that the send names (CPU 1, from 4,000 to 5,500), not the CPU that the
// receive names. CPU 0 would be busy until 4,800. (The send does not wait for the calc, because of the previous
// defect.)
TEST(LoggopsimOracle, messages_occupy_the_cpu_that_their_send_names) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "l1: calc 3000\n"
                     "l2: send 1b to 1 cpu 1\n"
                     "l2 requires l1\n"
                     "}\n"
                     "rank 1 {\n"
                     "calc 4800\n"
                     "recv 1b from 0\n"
                     "}\n"),
            (times{3000, 5500}));
}

TEST(LoggopsimOracle, overhead_per_byte) {  // a byte costs the receiver the maximum of O and G
  const std::string text =
      "num_ranks 2\n"
      "rank 0 {\n"
      "send 11b to 1\n"
      "}\n"
      "rank 1 {\n"
      "recv 11b from 0\n"
      "}\n";
  loggopsim_parameters with;
  with.overhead_per_byte = 10;
  EXPECT_EQ(times_of(text, with), (times{1600, 5600}));
  with.gap_per_byte = 20;
  EXPECT_EQ(times_of(text, with), (times{1600, 5700}));
}

// Published defect: a message of 0 bytes costs G (the time per byte) less than a message of one byte.
TEST(LoggopsimOracle, no_bytes_cost_less_than_one) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 0b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 0b from 0\n"
                     "}\n"),
            (times{1500, 5494}));
}

TEST(LoggopsimOracle, picoseconds_allow_parts_of_a_nanosecond_per_byte) {  // 4000 + 1500 + 0.5 * 1000 + 7
  loggopsim_parameters with;
  with.latency = 2'500'000;
  with.overhead = 1'500'000;
  with.gap = 1'000'000;
  with.gap_per_byte = 500;
  with.calc_unit = 1000;
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1001b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "l1: recv 1001b from 0\n"
                     "l2: calc 7\n"
                     "l2 requires l1\n"
                     "}\n",
                     with),
            (times{1'500'000, 6'007'000}));
}

// --- matching ---

// Rank 0's message arrives before its receive and nevertheless occupies rank 1 from 4,000 to 5,500. Rank 2's message
// arrives at 14,000. The second receive starts at 15,500, finds rank 0's message and takes no time.
TEST(LoggopsimOracle, an_unexpected_message_costs_when_it_comes) {
  EXPECT_EQ(times_of("num_ranks 3\n"
                     "rank 0 {\n"
                     "send 1b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "l1: recv 1b from 2\n"
                     "l2: recv 1b from 0\n"
                     "l2 requires l1\n"
                     "l3: calc 100\n"
                     "l3 requires l2\n"
                     "}\n"
                     "rank 2 {\n"
                     "l1: calc 10000\n"
                     "l2: send 1b to 1\n"
                     "l2 requires l1\n"
                     "}\n"),
            (times{1500, 15'600, 11'500}));
}

TEST(LoggopsimOracle, a_message_costs_what_was_sent) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1001b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 1b from 0\n"
                     "}\n"),
            (times{1500, 11'500}));
}

// The first message matches the first receive, which accepts any rank. If the first message is from rank 0, no message
// is left for the receive from rank 0.
TEST(LoggopsimOracle, the_first_message_takes_the_first_receive_that_matches) {
  const auto text = [](const std::string& late) {
    const auto sender = [&](const std::string& r, const std::string& tag) {
      return "rank " + r + " {\n" +
             (late == r ? "l1: calc 100\nl2: send 1b to 2 tag " + tag + "\nl2 requires l1\n"
                        : "send 1b to 2 tag " + tag + "\n") +
             "}\n";
    };
    return "num_ranks 3\n" + sender("0", "7") + sender("1", "3") +
           "rank 2 {\n"
           "recv 1b from -1 tag -1\n"
           "recv 1b from 0 tag 7\n"
           "}\n";
  };
  EXPECT_EQ(times_of(text("0")), (times{1600, 1500, 7000}));
  EXPECT_EQ(stuck(text("1")), "op 1 of rank 2 receives a message that never comes");
  EXPECT_EQ(stuck(text("nobody")), "op 1 of rank 2 receives a message that never comes");  // rank 0's message is older
}

// Messages that arrive before the receives also match in order of age. The messages of ranks 0 and 1 arrive at 4,000,
// and rank 0's message is older.
TEST(LoggopsimOracle, the_first_receive_takes_the_oldest_message_that_matches) {
  const auto text = [](const std::string& then_from) {
    return "num_ranks 4\n"
           "rank 0 {\n"
           "send 1b to 2\n"
           "}\n"
           "rank 1 {\n"
           "send 1b to 2\n"
           "}\n"
           "rank 2 {\n"
           "l1: recv 1b from 3\n"
           "l2: recv 1b from -1\n"
           "l2 requires l1\n"
           "l3: recv 1b from " +
           then_from +
           "\n"
           "l3 requires l2\n"
           "}\n"
           "rank 3 {\n"
           "l1: calc 10000\n"
           "l2: send 1b to 2\n"
           "l2 requires l1\n"
           "}\n";
  };
  EXPECT_EQ(times_of(text("1")), (times{1500, 1500, 15'500, 11'500}));
  EXPECT_EQ(stuck(text("0")), "op 2 of rank 2 receives a message that never comes");
}

TEST(LoggopsimOracle, a_message_with_any_tag_is_received_with_every_tag) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1b to 1 tag -1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 1b from 0 tag 5\n"
                     "}\n"),
            (times{1500, 5500}));
}

// --- edges and ties ---

// With the edge `irequires`, rank 0's send waits only for the start of its receive. Rank 1's message arrives at 5,500 +
// 4,000.
TEST(LoggopsimOracle, irequires_waits_for_the_start) {
  const auto text = [](const std::string& edge) {
    return "num_ranks 2\n"
           "rank 0 {\n"
           "l1: recv 1b from 1\n"
           "l2: send 1b to 1\n"
           "l2 " +
           edge +
           " l1\n"
           "}\n"
           "rank 1 {\n"
           "l1: recv 1b from 0\n"
           "l2: send 1b to 0\n"
           "l2 requires l1\n"
           "}\n";
  };
  EXPECT_EQ(times_of(text("irequires")), (times{11'000, 7000}));
  EXPECT_EQ(stuck(text("requires")), "op 0 of rank 0 receives a message that never comes");
}

// There is one CPU. So an op that waits only for the start of a calc nevertheless cannot begin before the calc ends.
TEST(LoggopsimOracle, what_waits_for_the_start_of_a_calc_waits_for_its_cpu) {
  EXPECT_EQ(times_of("num_ranks 1\n"
                     "rank 0 {\n"
                     "l1: calc 1000\n"
                     "l2: calc 10\n"
                     "l2 irequires l1\n"
                     "}\n"),
            times{1010});
}

// Both ops can start at 0. The send starts first, wherever it is in the file.
TEST(LoggopsimOracle, sends_come_before_calcs) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "calc 5000\n"
                     "send 1b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 1b from 0\n"
                     "}\n"),
            (times{6500, 5500}));
}

// Both messages arrive at rank 2 at 4,000, and rank 0's message is older. It occupies the CPU until 5,500, so that rank
// 1's message is put back until 5,500. The send may start at 5,500, too. Rank 1's message is older than the send and
// keeps its place. So the send starts at 7,000.
TEST(LoggopsimOracle, what_was_put_back_keeps_its_place) {
  EXPECT_EQ(times_of("num_ranks 4\n"
                     "rank 0 {\n"
                     "send 1b to 2\n"
                     "}\n"
                     "rank 1 {\n"
                     "send 1b to 2\n"
                     "}\n"
                     "rank 2 {\n"
                     "l1: recv 1b from 0\n"
                     "l2: recv 1b from 1\n"
                     "l3: send 1b to 3\n"
                     "l3 requires l1\n"
                     "}\n"
                     "rank 3 {\n"
                     "recv 1b from 2\n"
                     "}\n"),
            (times{1500, 1500, 8500, 12'500}));
}

// The message arrives at 4,000, and is put back until the calc ends at 10,000. At the same time the end of the calc
// lets the receive start. The message is older and comes first, so that it is unexpected and occupies the CPU. The last
// calc may start at 10,000, but waits for the CPU.
TEST(LoggopsimOracle, a_message_comes_before_a_younger_receive_of_the_same_time) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "send 1b to 1\n"
                     "}\n"
                     "rank 1 {\n"
                     "l1: calc 10000\n"
                     "l2: recv 1b from 0\n"
                     "l2 requires l1\n"
                     "l3: calc 100\n"
                     "l3 requires l2\n"
                     "}\n"),
            (times{1500, 11'600}));
}

TEST(LoggopsimOracle, both_orders_of_freed_ops_are_the_same_up_to_16) {
  std::string text = "num_ranks 2\nrank 0 {\n";
  std::string other = "rank 1 {\n";
  for (int n = 1; n <= 8; ++n) {
    text += "calc " + std::to_string(100 * n) + "\nsend " + std::to_string(200 * n) + "b to 1\n";
    other += "recv " + std::to_string(200 * n) + "b from 0\ncalc " + std::to_string(300 * n) + "\n";
  }
  text += "}\n" + other + "}\n";
  loggopsim_parameters with;
  const times stable = times_of(text, with);
  with.order = lsched::freed_order::std_sort;
  EXPECT_EQ(times_of(text, with), stable);
}

// --- rendezvous: 101 bytes, 1500 + 6 * 100 at the receiver ---

// A message of exactly 100 bytes is still eager. Its send ends at once, and only once. So l3 waits for rank 2's
// message, which is received at 55,500.
TEST(LoggopsimOracle, a_message_of_the_limit_is_eager) {
  EXPECT_EQ(times_of("num_ranks 3\n"
                     "rank 0 {\n"
                     "l1: send 100b to 1\n"
                     "l2: recv 1b from 2\n"
                     "l3: calc 7\n"
                     "l3 requires l1\n"
                     "l3 requires l2\n"
                     "l4: calc 2\n"
                     "l4 requires l1\n"
                     "l5: send 1b to 1\n"
                     "l5 requires l4\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 100b from 0\n"
                     "recv 1b from 0\n"
                     "}\n"
                     "rank 2 {\n"
                     "l1: calc 50000\n"
                     "l2: send 1b to 0\n"
                     "l2 requires l1\n"
                     "}\n",
                     small_eager()),
            (times{55'507, 7594, 51'500}));
}

// The receive waits for the message. The two meet at 4,000, when the message arrives. Then the calc starts.
TEST(LoggopsimOracle, a_rendezvous_ends_when_the_message_finds_its_receive) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "l1: send 101b to 1\n"
                     "l2: calc 50\n"
                     "l2 requires l1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 101b from 0\n"
                     "}\n",
                     small_eager()),
            (times{4050, 6100}));
}

// The message waits for the receive. The two meet at 10,000. Then the message occupies the CPU until 12,100.
TEST(LoggopsimOracle, a_rendezvous_ends_when_the_receive_finds_its_message) {
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "l1: send 101b to 1\n"
                     "l2: calc 50\n"
                     "l2 requires l1\n"
                     "}\n"
                     "rank 1 {\n"
                     "l1: calc 10000\n"
                     "l2: recv 101b from 0\n"
                     "l2 requires l1\n"
                     "}\n",
                     small_eager()),
            (times{10'050, 12'100}));
}

TEST(LoggopsimOracle, a_sender_does_other_things_during_a_rendezvous) {  // the first calc runs from 1,500 to 4,500
  EXPECT_EQ(times_of("num_ranks 2\n"
                     "rank 0 {\n"
                     "l1: send 101b to 1\n"
                     "l2: calc 50\n"
                     "l2 requires l1\n"
                     "l3: calc 3000\n"
                     "l3 irequires l1\n"
                     "}\n"
                     "rank 1 {\n"
                     "recv 101b from 0\n"
                     "}\n",
                     small_eager()),
            (times{4550, 6100}));
}

// Both messages arrive at 4,000. The arrival of rank 0's message ends rank 0's send, so that the calc may start at
// 4,000. However, rank 1's message is older and occupies rank 0 until 6,100.
TEST(LoggopsimOracle, rendezvous_in_both_directions) {
  const auto block = [](const std::string& self, const std::string& other) {
    return "rank " + self + " {\nl1: send 101b to " + other + "\nl2: recv 101b from " + other +
           "\nl3: calc 50\nl3 requires l1\n}\n";
  };
  EXPECT_EQ(times_of("num_ranks 2\n" + block("0", "1") + block("1", "0"), small_eager()), (times{6150, 6150}));
}

// Published defect: a late receive keeps a CPU and a NIC of the sender busy until 10,000, and these are the CPU and the
// NIC that the receive names. If the receive names CPU 1, the calc on CPU 0 may start at 1,500, although the send that
// it requires ends at 10,000. If the receive names NIC 1, the second send starts at 1,600, when NIC 0 has sent 101
// bytes.
TEST(LoggopsimOracle, a_late_receive_holds_up_what_it_names) {
  const auto text = [](const std::string& cpu_and_nic) {
    return "num_ranks 3\n"
           "rank 0 {\n"
           "l1: send 101b to 1\n"
           "l2: calc 50\n"
           "l2 requires l1\n"
           "l3: send 1b to 2\n"
           "l3 requires l2\n"
           "}\n"
           "rank 1 {\n"
           "l1: calc 10000" +
           cpu_and_nic.substr(0, 6) +
           "\n"
           "l2: recv 101b from 0" +
           cpu_and_nic +
           "\n"
           "l2 requires l1\n"
           "}\n"
           "rank 2 {\n"
           "recv 1b from 0\n"
           "}\n";
  };
  EXPECT_EQ(times_of(text(" cpu 1 nic 1"), small_eager()), (times{10'000, 10'000, 7100}));
  EXPECT_EQ(times_of(text(" cpu 1"), small_eager()), (times{11'500, 10'000, 15'500}));
  EXPECT_EQ(times_of(text(" cpu 0"), small_eager()), (times{11'550, 12'100, 15'550}));
}

// Published defect: if a message waits for its receive, the size of the receive, not of the message, decides whether
// the message is a rendezvous.
TEST(LoggopsimOracle, a_late_receive_below_the_limit_does_not_end_the_send) {
  EXPECT_EQ(stuck("num_ranks 2\n"
                  "rank 0 {\n"
                  "l1: send 101b to 1\n"
                  "l2: calc 50\n"
                  "l2 requires l1\n"
                  "}\n"
                  "rank 1 {\n"
                  "l1: calc 10000\n"
                  "l2: recv 1b from 0\n"
                  "l2 requires l1\n"
                  "}\n",
                  small_eager()),
            "op 1 of rank 0 never starts");
}

// Published defect: an eager send ends at 0, and a second time at 10,000, when rank 1 receives the message. The second
// end lets l3 start, although l2, which l3 requires, still waits. Rank 2's message arrives at 54,000.
TEST(LoggopsimOracle, a_late_receive_above_the_limit_ends_an_eager_send_twice) {
  const auto text = [](const std::string& bytes_received) {
    return "num_ranks 3\n"
           "rank 0 {\n"
           "l1: send 1b to 1\n"
           "l2: recv 1b from 2\n"
           "l3: calc 7\n"
           "l3 requires l1\n"
           "l3 requires l2\n"
           "}\n"
           "rank 1 {\n"
           "l1: calc 10000\n"
           "l2: recv " +
           bytes_received +
           "b from 0\n"
           "l2 requires l1\n"
           "}\n"
           "rank 2 {\n"
           "l1: calc 50000\n"
           "l2: send 1b to 0\n"
           "l2 requires l1\n"
           "}\n";
  };
  EXPECT_EQ(times_of(text("100"), small_eager()), (times{55'507, 11'500, 51'500}));
  EXPECT_EQ(times_of(text("101"), small_eager()), (times{55'500, 11'500, 51'500}));
}

// --- programs that do not come to their end ---

TEST(LoggopsimOracle, a_cycle_of_edges_is_a_failure) {
  EXPECT_EQ(stuck("num_ranks 2\n"
                  "rank 0 {\n"
                  "calc 5\n"
                  "}\n"
                  "rank 1 {\n"
                  "calc 5\n"
                  "l1: calc 5\n"
                  "l2: calc 5\n"
                  "l1 requires l2\n"
                  "l2 requires l1\n"
                  "}\n"),
            "op 1 of rank 1 never starts");
}

// Every rank first sends and then receives. An eager send ends without the receiver. The send of a rendezvous waits for
// the receive of the other rank, which waits for the send of that rank: a deadlock.
TEST(LoggopsimOracle, rendezvous_may_be_a_deadlock_where_eager_sends_are_none) {
  const auto block = [](const std::string& self, const std::string& other) {
    return "rank " + self + " {\nl1: send 101b to " + other + "\nl2: recv 101b from " + other + "\nl2 requires l1\n}\n";
  };
  const std::string text = "num_ranks 2\n" + block("0", "1") + block("1", "0");
  EXPECT_EQ(times_of(text), (times{6100, 6100}));
  EXPECT_EQ(stuck(text, small_eager()), "rank 0 does not receive the message of op 0 of rank 1");
}

TEST(LoggopsimOracle, peers_and_edges_exist) {
  lsched::goal program = parsed("num_ranks 1\nrank 0 {\ncalc 1\nsend 1b to 0\nrecv 1b from 0\n}\n");
  EXPECT_TRUE(lsched::run_loggopsim(program));
  program.ranks[0].ops[1].peer = lsched::k_goal_any;
  const auto peer = lsched::run_loggopsim(program);
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, status::argument);
  EXPECT_EQ(peer.error().text, "op 1 of rank 0 has a peer that does not exist");
  program.ranks[0].ops[1].peer = 0;
  program.ranks[0].edges.push_back({0, 3, false});
  const auto edge = lsched::run_loggopsim(program);
  ASSERT_FALSE(edge);
  EXPECT_EQ(edge.error().text, "op 3 of rank 0 does not exist");
}

TEST(LoggopsimOracle, nothing_takes_no_time) {
  EXPECT_EQ(times_of("num_ranks 2\nrank 0 {\n}\nrank 1 {\n}\n"), (times{0, 0}));
}

}  // namespace
