// Tests of the transport inproc. It must pass the conformance tests (exam) with every seed. With the same seed it must
// repeat a run exactly. It must detect callers that break the contract.
#include "tests/support/inproc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tests/conformance/endpoint_exam.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

class inproc_exam_world final : public exam::exam_world {
 public:
  inproc_exam_world(std::uint64_t seed, inproc_options options) : seed_(seed), options_(options) {}
  std::vector<endpoint*> make(rank ranks) override {
    ends_.clear();
    world_ = std::make_unique<inproc_world>(ranks, seed_, options_);
    for (rank r = 0; r < ranks; ++r) ends_.push_back(std::move(*world_->open(r)));
    std::vector<endpoint*> all;
    for (const auto& end : ends_) all.push_back(end.get());
    return all;
  }
  void pump() override { world_->tick(); }
  std::string leftovers() override {
    return world_->edges() + world_->in_flight() == 0 ? "" : "edges or messages are left over";
  }

 private:
  std::uint64_t seed_;
  inproc_options options_;
  std::unique_ptr<inproc_world> world_;
  std::vector<std::unique_ptr<endpoint>> ends_;
};

class inproc_exam : public ::testing::TestWithParam<exam::question> {};

TEST_P(inproc_exam, passes) {
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const std::uint32_t delay : {1u, 7u}) {
      if (testing::sampled() && (seed != 1 || delay != 7)) continue;
      inproc_exam_world world(seed, {.max_delay_steps = delay, .late_sends = seed != 3});
      EXPECT_EQ(exam::ask(GetParam(), world), "") << "seed " << seed << ", delay " << delay;
    }
}

INSTANTIATE_TEST_SUITE_P(every, inproc_exam, ::testing::ValuesIn(exam::k_questions), exam::name_of_question);

// --- replay ----------------------------------------------------------------------------------------------

constexpr std::array<rank, 2> k_both{0, 1};

/// Two ranks, linked by `edges` edges from rank 0 to rank 1.
struct pair_of_ranks {
  explicit pair_of_ranks(std::uint64_t seed, std::uint32_t edges = 1, std::uint64_t capacity = 64, bool credits = false,
                         inproc_options options = {})
      : world(2, seed, options), sender(std::move(*world.open(0))), receiver(std::move(*world.open(1))) {
    std::vector<edge_spec> out;
    std::vector<edge_spec> in;
    for (std::uint32_t tag = 0; tag < edges; ++tag) {
      out.push_back({.outgoing = true, .peer = 1, .tag = tag, .capacity = capacity, .cookie = tag});
      in.push_back({.in_place = tag % 2 == 1, .peer = 0, .tag = tag, .capacity = capacity, .cookie = tag});
    }
    outs = *sender->attach(0, k_both, credits, out);
    ins = *receiver->attach(5, k_both, credits, in);
    link(0, 5);
  }

  /// Links the instance that has the id `mine` at the sender and the id `theirs` at the receiver.
  void link(std::uint32_t mine, std::uint32_t theirs) {
    const std::array all{sender->address_of(mine), receiver->address_of(theirs)};
    EXPECT_EQ(sender->link(mine, all), status::ok);
    EXPECT_EQ(receiver->link(theirs, all), status::ok);
  }

  inproc_world world;
  std::unique_ptr<endpoint> sender;
  std::unique_ptr<endpoint> receiver;
  std::vector<link_id> outs;
  std::vector<link_id> ins;
  std::vector<std::byte> source = std::vector<std::byte>(64, std::byte{1});
  std::vector<std::byte> target = std::vector<std::byte>(64);

  message letter() const { return {source.data(), source.size(), {}, false}; }
};

struct event {
  std::uint64_t at;
  rank who;
  std::uint64_t cookie;
  bool operator==(const event&) const = default;
};

/// Sends 16 messages. Returns the completions with their times.
std::vector<event> history_of(std::uint64_t seed, std::uint32_t* late_sends = nullptr, inproc_options options = {}) {
  pair_of_ranks it(seed, 16, 64, false, options);
  std::vector<std::byte> targets(16 * 64);
  arrival out{};
  for (std::uint32_t k = 0; k < 16; ++k) {
    EXPECT_FALSE(it.receiver->receive(it.ins[k], 1, targets.data() + 64 * k, out));
    if (!it.sender->send(it.outs[k], 1, it.letter()) && late_sends != nullptr) ++*late_sends;
  }
  std::vector<event> history;
  std::array<completion, 4> news{};
  for (int k = 0; k < 500; ++k)
    for (endpoint* who : {it.sender.get(), it.receiver.get()}) {
      const std::size_t found = who->poll(news);
      for (std::size_t i = 0; i < found; ++i) {
        history.push_back({it.world.now(), who->place().self, news[i].cookie});
        if (who == it.receiver.get() && news[i].cookie % 2 == 1) it.receiver->release(it.ins[news[i].cookie], 1);
      }
    }
  EXPECT_EQ(it.world.first_fault(), "");
  return history;
}

TEST(inproc, repeats_the_same_events_for_the_same_seed) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) EXPECT_EQ(history_of(seed), history_of(seed)) << "seed " << seed;
}

TEST(inproc, orders_events_differently_for_different_seeds) {
  const auto order_of = [](std::uint64_t seed) {
    std::vector<std::uint64_t> order;
    for (const event& it : history_of(seed))
      if (it.who == 1) order.push_back(it.cookie);
    EXPECT_EQ(order.size(), 16u);
    return order;
  };
  for (std::uint64_t seed = 0; seed < 10; ++seed) EXPECT_NE(order_of(seed), order_of(seed + 1)) << "seed " << seed;
}

TEST(inproc, completes_some_sends_at_once_and_some_later) {
  std::uint32_t late = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) history_of(seed, &late);
  EXPECT_GT(late, 40u);
  EXPECT_LT(late, 120u);
}

TEST(inproc, completes_all_sends_at_once_where_asked_to) {
  std::uint32_t late = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) history_of(seed, &late, {.late_sends = false});
  EXPECT_EQ(late, 0u);
}

TEST(inproc, is_time_driven_while_something_is_on_its_way) {
  pair_of_ranks it(1);
  EXPECT_FALSE(it.receiver->is_time_driven());
  it.sender->send(it.outs[0], 1, it.letter());
  EXPECT_TRUE(it.receiver->is_time_driven());
  for (int k = 0; k < 100; ++k) it.world.tick();
  EXPECT_FALSE(it.receiver->is_time_driven());
}

// --- detection of broken contracts -----------------------------------------------------------------------

// If a caller overwrites a source before the send has completed, the receiver gets the new contents. If the send
// completes at once, the transport has copied the message, so the receiver gets the old contents.
TEST(inproc, shows_a_source_that_was_overwritten_too_early) {
  int spoiled = 0;
  int late = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    pair_of_ranks it(seed);
    const bool done = it.sender->send(it.outs[0], 1, it.letter());
    std::ranges::fill(it.source, std::byte{2});
    for (int k = 0; k < 100; ++k) it.world.tick();
    arrival out{};
    ASSERT_TRUE(it.receiver->receive(it.ins[0], 1, it.target.data(), out));
    late += done ? 0 : 1;
    spoiled += it.target[63] == std::byte{2} ? 1 : 0;
  }
  EXPECT_GT(late, 0);
  EXPECT_EQ(spoiled, late);
}

// A send that does not complete at once completes either when the message arrives, or when the receiver releases the
// message. In the second case the receiver reads the source itself.
TEST(inproc, reads_some_sources_on_arrival_and_shows_others_until_release) {
  std::array<int, 2> late{};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    pair_of_ranks it(seed, 2);
    if (it.sender->send(it.outs[1], 1, it.letter())) continue;
    std::array<completion, 1> news{};
    std::size_t done = 0;
    for (int k = 0; k < 100; ++k) done += it.sender->poll(news);
    const bool shown = done == 0;
    ++late[shown ? 1 : 0];
    arrival out{};
    ASSERT_TRUE(it.receiver->receive(it.ins[1], 1, nullptr, out));
    EXPECT_EQ(out.data == it.source.data(), shown);
    for (int k = 0; k < 100; ++k) done += it.sender->poll(news);
    EXPECT_EQ(done, shown ? 0u : 1u) << "a source that is read must stay";
    it.receiver->release(it.ins[1], 1);
    for (int k = 0; k < 100; ++k) done += it.sender->poll(news);
    EXPECT_EQ(done, 1u);
  }
  EXPECT_GT(late[0], 3);
  EXPECT_GT(late[1], 3);
}

TEST(inproc, spoils_a_payload_once_it_was_released) {
  pair_of_ranks it(1, 2, 64, false, {.late_sends = false});
  it.sender->send(it.outs[1], 1, it.letter());
  for (int k = 0; k < 100; ++k) it.world.tick();
  arrival out{};
  ASSERT_TRUE(it.receiver->receive(it.ins[1], 1, nullptr, out));
  EXPECT_EQ(out.data[5], std::byte{1});
  it.receiver->release(it.ins[1], 1);
  EXPECT_NE(out.data[5], std::byte{1});
}

/// Expects that `what` breaks a rule, and that one endpoint then fails with the given reason. `what` returns true if
/// the sender's endpoint must fail, and false if the receiver's endpoint must fail.
template <class Breach>
void expect_fault(std::string_view reason, Breach&& what) {
  pair_of_ranks it(1, 2, 64, false, {.late_sends = false});
  const bool is_senders = what(it);
  EXPECT_EQ((is_senders ? it.sender : it.receiver)->liveness().health(), status::internal) << reason;
  EXPECT_EQ((is_senders ? it.receiver : it.sender)->liveness().health(), status::ok) << reason;
  EXPECT_NE(it.world.first_fault().find(reason), std::string::npos) << it.world.first_fault();
}

TEST(inproc, notices_sends_that_break_the_contract) {
  expect_fault("more than the edge carries", [](pair_of_ranks& it) {
    std::vector<std::byte> large(65);
    return it.sender->send(it.outs[0], 1, {large.data(), 65, {}, false});
  });
  for (const round_no earlier : {1u, 2u})
    expect_fault("not in a round that may follow", [&](pair_of_ranks& it) {
      it.sender->send(it.outs[0], 2, it.letter());
      return it.sender->send(it.outs[0], earlier, it.letter());
    });
  expect_fault("still in use", [](pair_of_ranks& it) {
    for (round_no round = 1; round <= 3; ++round) it.sender->send(it.outs[0], round, it.letter());
    return true;
  });
  expect_fault("does not send", [](pair_of_ranks& it) {
    it.receiver->send(it.ins[0], 1, it.letter());
    return false;
  });
}

TEST(inproc, notices_rounds_that_are_left_out_where_credits_count_them) {
  pair_of_ranks it(1, 2, 64, true, {.late_sends = false});
  it.sender->send(it.outs[0], 1, it.letter());
  EXPECT_EQ(it.sender->liveness().health(), status::ok);
  it.sender->send(it.outs[0], 3, it.letter());
  EXPECT_EQ(it.sender->liveness().health(), status::internal);
}

TEST(inproc, notices_receives_that_break_the_contract) {
  arrival out{};
  expect_fault("not in a round that may follow", [&](pair_of_ranks& it) {
    it.sender->send(it.outs[0], 2, it.letter());
    for (int k = 0; k < 100; ++k) it.world.tick();
    EXPECT_TRUE(it.receiver->receive(it.ins[0], 2, it.target.data(), out));
    it.receiver->receive(it.ins[0], 2, it.target.data(), out);
    return false;
  });
  expect_fault("earlier receive is under way", [&](pair_of_ranks& it) {
    it.receiver->receive(it.ins[0], 1, it.target.data(), out);
    it.receiver->receive(it.ins[0], 2, it.target.data(), out);
    return false;
  });
  expect_fault("without a target", [&](pair_of_ranks& it) {
    it.sender->send(it.outs[0], 1, it.letter());
    for (int k = 0; k < 100; ++k) it.world.tick();
    it.receiver->receive(it.ins[0], 1, nullptr, out);
    return false;
  });
  expect_fault("not held", [&](pair_of_ranks& it) {
    it.receiver->release(it.ins[1], 1);
    return false;
  });
  expect_fault("before a release", [&](pair_of_ranks& it) {
    for (round_no round = 1; round <= 2; ++round) it.sender->send(it.outs[1], round, it.letter());
    for (int k = 0; k < 100; ++k) it.world.tick();
    for (round_no round = 1; round <= 2; ++round) it.receiver->receive(it.ins[1], round, nullptr, out);
    return false;
  });
}

// --- ranks and peers -------------------------------------------------------------------------------------

TEST(inproc, gives_each_rank_once) {
  inproc_world world(3, 1);
  const auto first = world.open(2);
  ASSERT_TRUE(first);
  EXPECT_EQ(world.open(2).error().code, status::state);
  EXPECT_EQ(world.open(3).error().code, status::argument);
  EXPECT_EQ(world.open(-1).error().code, status::argument);
}

TEST(inproc, refuses_edges_that_cannot_be) {
  pair_of_ranks it(1);
  const edge_spec out{.outgoing = true, .peer = 1, .tag = 7, .capacity = 8};
  edge_spec outside = out;
  outside.peer = 2;
  EXPECT_EQ(it.sender->attach(0, k_both, false, {}).error().code, status::state);
  EXPECT_EQ(it.sender->attach(1, k_both, false, std::vector{out, outside}).error().code, status::argument);
  EXPECT_EQ(it.sender->attach(1, k_both, false, std::vector{out, out}).error().code, status::argument);
  EXPECT_EQ(it.sender->attach(1, std::array{0}, false, std::vector{out}).error().code, status::argument);
  EXPECT_EQ(it.world.edges(), 1u);
  EXPECT_TRUE(it.sender->attach(1, k_both, false, std::vector{out}));
}

TEST(inproc, does_not_link_ends_that_disagree_about_credits) {
  pair_of_ranks it(1);
  const edge_spec out{.outgoing = true, .peer = 1, .capacity = 8};
  const edge_spec in{.peer = 0, .capacity = 8};
  ASSERT_TRUE(it.sender->attach(1, k_both, true, std::vector{out}));
  ASSERT_TRUE(it.receiver->attach(1, k_both, false, std::vector{in}));
  const std::vector<member_address> all(2, {.near = 1});
  EXPECT_EQ(it.sender->link(1, all), status::unmatched);
  EXPECT_EQ(it.receiver->link(1, all), status::unmatched);
}

TEST(inproc, links_nothing_to_what_is_no_address) {
  pair_of_ranks it(1);
  ASSERT_TRUE(it.sender->attach(1, k_both, false, {}));
  ASSERT_TRUE(it.receiver->attach(2, k_both, false, {}));
  const member_address mine = it.sender->address_of(1);
  EXPECT_EQ(it.sender->link(1, std::array{mine}), status::internal);
  for (const std::uint64_t wrong : {std::uint64_t{1}, std::uint64_t{5}, std::uint64_t{9}})
    EXPECT_EQ(it.sender->link(1, std::array{mine, member_address{.near = wrong}}), status::unmatched) << wrong;
  const std::array all{mine, it.receiver->address_of(2)};
  EXPECT_EQ(it.receiver->link(2, all), status::ok);
  EXPECT_EQ(it.sender->link(1, std::array{mine, member_address{.near = 5}}), status::unmatched);
  EXPECT_EQ(it.sender->link(1, all), status::ok);
}

// The two instances have equal edges. The two ranks attach the instances in opposite order.
TEST(inproc, keeps_instances_of_the_same_ranks_apart) {
  pair_of_ranks it(1, 0, 64, false, {.late_sends = false});
  const std::vector<edge_spec> out{{.outgoing = true, .peer = 1, .capacity = 64}};
  const std::vector<edge_spec> in{{.peer = 0, .capacity = 64}};
  const link_id to_first = it.sender->attach(1, k_both, false, out)->front();
  const link_id to_second = it.sender->attach(2, k_both, false, out)->front();
  const link_id from_second = it.receiver->attach(1, k_both, false, in)->front();
  const link_id from_first = it.receiver->attach(2, k_both, false, in)->front();
  it.link(1, 2);
  it.link(2, 1);
  it.sender->send(to_first, 1, it.letter());
  it.source.assign(64, std::byte{2});
  it.sender->send(to_second, 1, it.letter());
  for (int k = 0; k < 100; ++k) it.world.tick();
  arrival got{};
  EXPECT_TRUE(it.receiver->receive(from_second, 1, it.target.data(), got));
  EXPECT_EQ(it.target[0], std::byte{2});
  EXPECT_TRUE(it.receiver->receive(from_first, 1, it.target.data(), got));
  EXPECT_EQ(it.target[0], std::byte{1});
  it.sender->cancel(1, {0});
  std::array<completion, 4> news{};
  for (int k = 0; k < 100; ++k) it.receiver->poll(news);
  EXPECT_EQ(it.receiver->take_cancellation().value_or(cancellation{}).instance, 2);
  EXPECT_FALSE(it.receiver->take_cancellation());
}

// One rank never links the instance. When both ranks have detached, the world must not keep any state of the instance.
TEST(inproc, forgets_an_instance_that_one_rank_has_never_linked) {
  pair_of_ranks it(1, 0);
  const std::vector<edge_spec> out{{.outgoing = true, .peer = 1, .capacity = 64}};
  const link_id to = it.sender->attach(1, k_both, false, out)->front();
  ASSERT_TRUE(it.receiver->attach(1, k_both, false, std::vector{edge_spec{.peer = 0, .capacity = 64}}));
  EXPECT_EQ(it.sender->link(1, std::vector<member_address>(2, {.near = 1})), status::ok);
  it.sender->send(to, 1, it.letter());
  it.sender->detach(1);
  EXPECT_EQ(it.world.edges(), 1u) << "the receiver may still read the message";
  it.receiver->detach(1);
  EXPECT_EQ(it.world.edges() + it.world.in_flight(), 0u);
}

TEST(inproc, publishes_with_the_link_what_was_cancelled_before) {
  pair_of_ranks it(1);
  ASSERT_TRUE(it.sender->attach(1, k_both, false, {}));
  ASSERT_TRUE(it.receiver->attach(2, k_both, false, {}));
  const auto hears = [&](endpoint& who) {
    std::array<completion, 1> news{};
    for (int k = 0; k < 100; ++k) who.poll(news);
    return who.take_cancellation().value_or(cancellation{}).reason.who;
  };
  it.receiver->cancel(2, {1});
  EXPECT_EQ(hears(*it.receiver), 1);
  EXPECT_EQ(hears(*it.sender), k_no_rank);
  it.link(1, 2);
  EXPECT_EQ(hears(*it.sender), 1);
  EXPECT_EQ(hears(*it.receiver), k_no_rank) << "the receiver has already learned of it";
}

TEST(inproc, finds_a_peer_that_went_without_closing) {
  pair_of_ranks it(1);
  EXPECT_EQ(it.receiver->liveness().find_dead_peer(), k_no_rank);
  it.sender.reset();
  EXPECT_EQ(it.receiver->liveness().find_dead_peer(), 0);
}

TEST(inproc, misses_a_closed_peer_only_when_something_waits_for_it) {
  pair_of_ranks it(1);
  it.sender->send(it.outs[0], 1, it.letter());
  it.sender->close();
  it.sender.reset();
  arrival out{};
  std::array<completion, 1> news{};
  EXPECT_FALSE(it.receiver->receive(it.ins[0], 1, it.target.data(), out));
  EXPECT_EQ(it.receiver->liveness().find_dead_peer(), k_no_rank);  // the message is still in flight
  for (int k = 0; k < 100 && it.receiver->poll(news) == 0; ++k) {
  }
  EXPECT_EQ(it.target[0], std::byte{1});
  EXPECT_FALSE(it.receiver->receive(it.ins[0], 2, it.target.data(), out));
  EXPECT_EQ(it.receiver->liveness().find_dead_peer(), 0);
}

// The sender closes its board or its endpoint and posts no record. The receiver's gather must name the sender.
TEST(inproc, hears_of_a_member_that_will_never_post_its_record) {
  for (const bool closes_all : {false, true}) {
    pair_of_ranks it(1);
    std::vector<std::byte> all(2 * board::record_bytes);
    rank missing = k_no_rank;
    auto leaves = it.sender->open_home_board();
    const auto stays = it.receiver->open_home_board();
    ASSERT_EQ(stays->post({}, &missing), status::ok);
    EXPECT_EQ(stays->gather(all, &missing), status::pending);
    EXPECT_EQ(missing, 0);
    if (closes_all)
      it.sender->close();
    else
      leaves.reset();
    missing = k_no_rank;
    EXPECT_EQ(stays->gather(all, &missing), status::peer);
    EXPECT_EQ(missing, 0);
  }
}

TEST(inproc, has_no_room_for_a_record_while_a_member_is_two_commits_behind) {
  pair_of_ranks it(1);
  std::vector<std::byte> all(2 * board::record_bytes);
  rank missing = k_no_rank;
  const auto fast = it.sender->open_home_board();
  const auto slow = it.receiver->open_home_board();
  for (const status expected : {status::ok, status::ok, status::pending}) {
    ASSERT_EQ(fast->post({}, &missing), expected);
    if (expected == status::pending) break;
    fast->give_up(1);
    EXPECT_EQ(fast->gather(all, &missing), status::timeout);
  }
  ASSERT_EQ(slow->post({}, &missing), status::ok);
  missing = k_no_rank;
  EXPECT_EQ(fast->post({}, &missing), status::pending);
  EXPECT_EQ(missing, 1);
  EXPECT_EQ(slow->gather(all, &missing), status::timeout);
  EXPECT_EQ(fast->post({}, &missing), status::ok);
}

TEST(inproc, joins_a_board_to_nothing_but_boards_of_the_members) {
  pair_of_ranks it(1);
  const auto mine = std::move(*it.sender->open_board(2));
  const auto theirs = std::move(*it.receiver->open_board(2));
  const auto narrow = std::move(*it.receiver->open_board(1));
  const auto home = it.receiver->open_home_board();
  const member_address own = mine->address();
  EXPECT_EQ(mine->join(k_both, std::array{own}), status::argument);
  for (const member_address& wrong :
       {member_address{}, member_address{.near = 99}, own, narrow->address(), home->address()})
    EXPECT_EQ(mine->join(k_both, std::array{own, wrong}), status::argument) << wrong.near;
  EXPECT_EQ(mine->join(k_both, std::array{own, theirs->address()}), status::ok);
}

}  // namespace
}  // namespace lsched
