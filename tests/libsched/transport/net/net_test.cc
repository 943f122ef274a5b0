// Tests of the transport net. The transport must pass the conformance tests (exam) over IPv4 and IPv6, with all ranks
// in one thread and with ranks as threads.
#include "libsched/transport/net/net_endpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "tests/conformance/endpoint_exam.h"
#include "tests/libsched/transport/net/net_exam_world.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

using testing::connect_all;
using testing::net_exam_world;

// --- the exam --------------------------------------------------------------------------------------------------

class net_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(net_exam, passes_over_ipv4) {
  net_exam_world world(AF_INET);
  EXPECT_EQ(exam::ask(GetParam(), world), "");
}

TEST_P(net_exam, passes_over_ipv6) {
  if (!testing::has_ipv6()) GTEST_SKIP() << "the loopback interface has no IPv6 address";
  net_exam_world world(AF_INET6);
  EXPECT_EQ(exam::ask(GetParam(), world), "");
}

TEST_P(net_exam, passes_encrypted) {
  if (!testing::has_tls()) GTEST_SKIP() << "the system has no OpenSSL 3";
  net_exam_world world(AF_INET, true);
  EXPECT_EQ(exam::ask(GetParam(), world), "");
}

INSTANTIATE_TEST_SUITE_P(every, net_exam, ::testing::ValuesIn(exam::k_questions), exam::name_of_question);

/// The sockets of all worlds. They exist before the threads of the ranks start.
struct common_sockets {
  std::atomic<std::uint32_t> arrivals = 0;  ///< number of entries into fences
  std::array<std::vector<std::vector<net_sockets>>, 4> of{{{}, {}, connect_all(2, AF_INET), connect_all(3, AF_INET)}};
};

/// The exam world of one thread, which has only one rank.
class lonely_net_world final : public exam::exam_world {
 public:
  lonely_net_world(common_sockets& common, rank self) : common_(common), self_(self) {}
  std::vector<endpoint*> make(rank ranks) override {
    std::vector<endpoint*> all(static_cast<std::size_t>(ranks));
    if (self_ >= ranks) return all;
    auto& mine = common_.of[static_cast<std::size_t>(ranks)][static_cast<std::size_t>(self_)];
    end_ = std::move(*net_endpoint::open({self_, ranks}, std::move(mine)));
    all[static_cast<std::size_t>(self_)] = end_.get();
    return all;
  }
  void pump() override { std::this_thread::yield(); }
  void enter_fence() override {
    entered_ += 3;
    common_.arrivals.fetch_add(1);
  }
  bool is_fence_open() override { return common_.arrivals.load() >= entered_; }
  bool sees_both_ends() const override { return false; }
  bool settles_at_once() const override { return false; }
  std::chrono::milliseconds patience() const override { return std::chrono::seconds(30); }

 private:
  common_sockets& common_;
  rank self_;
  std::uint32_t entered_ = 0;
  std::unique_ptr<net_endpoint> end_;
};

class net_thread_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(net_thread_exam, passes) {
  common_sockets common;
  std::array<std::string, 3> answers;
  std::array<std::thread, 3> ranks;
  for (rank self = 0; self < 3; ++self)
    ranks[static_cast<std::size_t>(self)] = std::thread([&, self] {
      lonely_net_world world(common, self);
      answers[static_cast<std::size_t>(self)] = exam::ask(GetParam(), world);
    });
  for (std::thread& it : ranks) it.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, "");
}

INSTANTIATE_TEST_SUITE_P(every, net_thread_exam, ::testing::ValuesIn(exam::k_questions), exam::name_of_question);

}  // namespace
}  // namespace lsched
