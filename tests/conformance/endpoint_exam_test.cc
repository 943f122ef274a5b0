// Tests of the conformance tests for transports (the exam): every question must detect a planted fault.
#include "tests/conformance/endpoint_exam.h"

#include <gtest/gtest.h>

#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/support/faulty_endpoint.h"

namespace lsched {
namespace {

using testing::fault;
using testing::faulty_endpoint;

/// A world of correct endpoints to which the same fault is added. The endpoints stage their payloads, because the fault
/// `shares_what_differs` needs staged payloads.
class faulty_world final : public exam::exam_world {
 public:
  explicit faulty_world(fault what) : fault_(what) {}
  std::vector<endpoint*> make(rank ranks) override {
    const std::shared_ptr<shm_segment> segment = *shm_segment::create(ranks, std::size_t{64} << 20);
    std::vector<endpoint*> all;
    for (rank r = 0; r < ranks; ++r) {
      good_.push_back(std::move(*shm_endpoint::open(segment, r, {.reads_processes = false})));
      faulty_.push_back(std::make_unique<faulty_endpoint>(*good_.back(), fault_));
      all.push_back(faulty_.back().get());
    }
    return all;
  }
  std::chrono::milliseconds patience() const override {
    return std::chrono::milliseconds(fault_ == fault::none ? 20'000 : 100);
  }

 private:
  fault fault_;
  std::vector<std::unique_ptr<shm_endpoint>> good_;
  std::vector<std::unique_ptr<faulty_endpoint>> faulty_;
};

struct sabotage {
  fault what;
  std::string_view noticed_by;
};

constexpr sabotage k_sabotages[]{
    {fault::says_sent_too_early, "payloads_arrive_when_sent_first"},
    {fault::writes_beside, "payloads_arrive_when_sent_first"},
    {fault::says_sent_too_early, "payloads_arrive_when_received_first"},
    {fault::writes_beside, "payloads_arrive_when_received_first"},
    {fault::ignores_room, "messages_without_room_are_dropped"},
    {fault::fetches_nothing, "announced_messages_are_brought_when_asked_for"},
    {fault::ignores_room, "announced_messages_without_room_are_dropped"},
    {fault::drops_null, "null_moves_nothing_but_its_tally"},
    {fault::loses_tally, "null_moves_nothing_but_its_tally"},
    {fault::repeats_old_message, "rounds_run_back_to_back"},
    {fault::loses_completion, "rounds_run_back_to_back"},
    {fault::loses_what_follows_a_gap, "rounds_may_leave_edges_out"},
    {fault::ignores_credits, "nothing_is_overwritten_with_credits"},
    {fault::swaps_messages, "messages_of_one_edge_arrive_in_order"},
    {fault::repeats_old_message, "messages_of_one_edge_arrive_in_order"},
    {fault::crosses_tags, "edges_between_one_pair_are_told_apart_by_tag"},
    {fault::loses_completion, "a_narrow_poll_loses_nothing"},
    {fault::miscounts_when_narrow, "a_narrow_poll_loses_nothing"},
    {fault::repeats_completion, "payloads_arrive_when_received_first"},
    {fault::loses_first_message, "a_fast_rank_may_send_before_its_peer_has_linked"},
    {fault::loses_signals, "a_signal_wakes_whoever_is_armed_once"},
    {fault::repeats_completion, "a_signal_wakes_whoever_is_armed_once"},
    {fault::wakes_early, "a_register_satisfies_every_round_up_to_its_own"},
    {fault::loses_signals, "signals_may_merge_but_never_sink"},
    {fault::truncates_last_round, "the_last_round_satisfies_every_round"},
    {fault::keeps_first_arm, "arming_again_replaces_the_round"},
    {fault::keeps_disarmed, "disarming_drops_the_completion"},
    {fault::keeps_disarmed, "registers_do_not_disturb_each_other"},
    {fault::mixes_records, "records_are_exchanged_again_and_again"},
    {fault::gathers_too_early, "an_exchange_is_pending_while_a_record_is_missing"},
    {fault::settles_twice, "a_commit_is_settled_once"},
    {fault::sorts_members, "worlds_of_some_ranks_exchange"},
    {fault::ignores_keys, "members_meet_by_a_key"},
    {fault::keeps_offers, "members_meet_by_a_key"},
    {fault::links_anything, "edges_that_do_not_match_are_not_linked"},
    {fault::never_detaches, "instances_that_come_and_go_leave_nothing"},
    {fault::never_listens, "listening_means_that_something_may_come"},
    {fault::misaligns_memory, "allocated_memory_is_aligned_and_apart"},
    {fault::overlooks_closed, "a_closed_peer_is_found_where_something_waits_for_it"},
    {fault::shares_what_differs, "payloads_arrive_when_sent_first"},
    {fault::shares_what_differs, "edges_of_one_source_carry_the_same"},
    {fault::never_rings, "a_message_rings_a_bell_that_somebody_sleeps_on"},
    {fault::forgets_to_flush, "a_message_rings_a_bell_that_somebody_sleeps_on"},
    {fault::loses_cancellations, "a_cancellation_reaches_every_rank_once"},
    {fault::never_cancels, "a_cancellation_reaches_every_rank_once"},
    {fault::abandons_nothing, "what_was_abandoned_is_not_written"},
    {fault::overlooks_readers, "a_reader_is_waited_for"},
    {fault::stays_open, "what_was_closed_is_not_read"},
    {fault::never_cancels, "what_was_given_up_is_not_read"},
    {fault::ill, "messages_of_one_edge_arrive_in_order"},
};

std::string answer_of(const exam::question& question, fault what) {
  faulty_world world(what);
  return exam::ask(question, world);
}

TEST(endpoint_exam, notices_every_planted_fault) {
  for (const sabotage& it : k_sabotages) {
    const auto question = std::ranges::find(exam::k_questions, it.noticed_by, &exam::question::name);
    ASSERT_NE(question, std::end(exam::k_questions)) << it.noticed_by;
    EXPECT_NE(answer_of(*question, it.what), "") << it.noticed_by << ", fault " << static_cast<int>(it.what);
  }
}

TEST(endpoint_exam, has_a_fault_for_every_question) {
  for (const exam::question& it : exam::k_questions)
    EXPECT_NE(std::ranges::find(k_sabotages, std::string_view(it.name), &sabotage::noticed_by), std::end(k_sabotages))
        << it.name;
}

void sends_again_too_soon(exam::bench& b) {
  b.start(2);
  b.connect({{.capacity = 20000}});
  b.post_send(0, 1, {20000, 1});
  b.post_send(0, 2, {20000, 2});
}

TEST(endpoint_exam, does_not_let_its_questions_break_the_contract) {
  EXPECT_NE(
      answer_of({"sends_again_too_soon", sends_again_too_soon}, fault::none).find("before the last send has completed"),
      std::string::npos);
}

void waits_for_nothing(exam::bench& b) {
  b.start(2);
  b.until([] { return false; }, "nothing");
}

TEST(endpoint_exam, does_not_wait_for_an_ill_endpoint) {
  EXPECT_NE(answer_of({"waits_for_nothing", waits_for_nothing}, fault::ill).find("good health"), std::string::npos);
}

TEST(endpoint_exam, is_passed_without_a_fault) {
  for (const exam::question& it : exam::k_questions) EXPECT_EQ(answer_of(it, fault::none), "") << it.name;
}

}  // namespace
}  // namespace lsched
