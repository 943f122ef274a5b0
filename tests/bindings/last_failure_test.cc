// Tests of lsched_last_failure, which returns the details of the last failure of a function without a diagnostic
// parameter.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <latch>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "bindings/c/lsched_cuda.h"
#include "tests/support/barrier.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using refused_call = std::function<lsched_status()>;

bool last_failure_says(const std::string& words) {
  return std::string(lsched_last_failure()->text).find(words) != std::string::npos;
}

#define EXPECT_LAST_FAILURE(code, words)                                         \
  EXPECT_EQ(lsched_last_failure()->status, code) << lsched_last_failure()->text; \
  EXPECT_TRUE(last_failure_says(words)) << "the text is: " << lsched_last_failure()->text

/// Returns a failing call of each function without a diagnostic parameter. The calls are ordered by function name.
std::map<std::string, refused_call> calls_with_null() {
  return {
      {"lsched_node_of", [] { return lsched_node_of(nullptr, 0, nullptr); }},
      {"lsched_progress", [] { return lsched_progress(nullptr, nullptr); }},
      {"lsched_alloc", [] { return lsched_alloc(nullptr, 1, nullptr); }},
      {"lsched_free", [] { return lsched_free(nullptr, nullptr); }},
      {"lsched_get_stats", [] { return lsched_get_stats(nullptr, nullptr); }},
      {"lsched_grow_text", [] { return lsched_grow_text(nullptr, nullptr, 0, nullptr); }},
      {"lsched_world_describe", [] { return lsched_world_describe(nullptr, nullptr, 0); }},
      {"lsched_diagnose", [] { return lsched_diagnose(nullptr, nullptr, nullptr, 0, nullptr); }},
      {"lsched_trace_start", [] { return lsched_trace_start(nullptr, 0); }},
      {"lsched_world_set", [] { return lsched_world_set(nullptr, LSCHED_NONBLOCKING, 0); }},
      {"lsched_start", [] { return lsched_start(nullptr, nullptr); }},
      {"lsched_start_with", [] { return lsched_start_with(nullptr, nullptr, nullptr, nullptr, nullptr); }},
      {"lsched_test", [] { return lsched_test(lsched_ticket{}); }},
      {"lsched_rebind", [] { return lsched_rebind(nullptr, nullptr, nullptr); }},
      {"lsched_schedule_print", [] { return lsched_schedule_print(nullptr, LSCHED_PRINT_TEXT, nullptr, 0, nullptr); }},
      {"lsched_non_finite_tensors", [] { return lsched_non_finite_tensors(nullptr, 0, nullptr, nullptr); }},
      {"lsched_send_post", [] { return lsched_send_post(nullptr, 0, 0, nullptr, 0, nullptr); }},
      {"lsched_receive_post", [] { return lsched_receive_post(nullptr, 0, 0, nullptr, 0, nullptr); }},
      {"lsched_message_test", [] { return lsched_message_test(nullptr, nullptr); }},
      {"lsched_message_cancel", [] { return lsched_message_cancel(nullptr); }},
      {"lsched_sparse_get_stats", [] { return lsched_sparse_get_stats(nullptr, nullptr); }},
      {"lsched_schedule_save", [] { return lsched_schedule_save(nullptr, LSCHED_STATE_PENDING, nullptr, 1, nullptr); }},
      {"lsched_sparse_residual", [] { return lsched_sparse_residual(nullptr, nullptr, nullptr); }},
      {"lsched_convert", [] { return lsched_convert(LSCHED_F32, nullptr, 1, 1, LSCHED_F32, nullptr); }},
      {"lsched_offer", [] { return lsched_offer(nullptr, nullptr, nullptr); }},
      {"lsched_offer_bucket", [] { return lsched_offer_bucket(nullptr, 0, nullptr); }},
      {"lsched_offer_end", [] { return lsched_offer_end(nullptr, nullptr); }},
      {"lsched_offer_end_weighted", [] { return lsched_offer_end_weighted(nullptr, 1, nullptr); }},
      {"lsched_offer_weighted", [] { return lsched_offer_weighted(nullptr, nullptr, 1, nullptr); }},
      {"lsched_offer_fragment", [] { return lsched_offer_fragment(nullptr, 0, nullptr, 1, nullptr); }},
      {"lsched_skip", [] { return lsched_skip(nullptr, 1, nullptr); }},
      {"lsched_pending_load", [] { return lsched_pending_load(nullptr, nullptr, 0); }},
      {"lsched_withdraw", [] { return lsched_withdraw(nullptr, nullptr); }},
      {"lsched_leave", [] { return lsched_leave(nullptr); }},
      {"lsched_schedule_stats", [] { return lsched_schedule_stats(nullptr, nullptr); }},
      {"lsched_world_lost", [] { return lsched_world_lost(nullptr, nullptr, nullptr); }},
      {"lsched_builder_create", [] { return lsched_builder_create(0, 1, nullptr, nullptr); }},
      {"lsched_add_slot", [] { return lsched_add_slot(nullptr, LSCHED_INPUT, LSCHED_F32, 1, nullptr); }},
      {"lsched_add_nop", [] { return lsched_add_nop(nullptr, nullptr); }},
      {"lsched_add_send", [] { return lsched_add_send(nullptr, 0, 0, {}, nullptr); }},
      {"lsched_add_recv", [] { return lsched_add_recv(nullptr, 0, 0, {}, nullptr); }},
      {"lsched_add_reduce", [] { return lsched_add_reduce(nullptr, LSCHED_SUM, nullptr, {}, {}, {}, nullptr); }},
      {"lsched_add_copy", [] { return lsched_add_copy(nullptr, {}, {}, nullptr); }},
      {"lsched_add_dep", [] { return lsched_add_dep(nullptr, {}, {}); }},
      {"lsched_set_need", [] { return lsched_set_need(nullptr, {}, 1); }},
      {"lsched_cuda_alloc", [] { return lsched_cuda_alloc(nullptr, 1, nullptr); }},
      {"lsched_cuda_free", [] { return lsched_cuda_free(nullptr, nullptr); }},
      {"lsched_start_on_stream", [] { return lsched_start_on_stream(nullptr, nullptr, nullptr); }},
      {"lsched_wait_on_stream", [] { return lsched_wait_on_stream(lsched_ticket{}, nullptr); }},
  };
}

/// Returns the functions of the public headers that return a status and have no diagnostic parameter.
std::set<std::string> functions_without_diagnostic() {
  std::stringstream text;
  for (const char* header : {"lsched.h", "lsched_cuda.h"})
    text << std::ifstream(std::string(LSCHED_TEST_SOURCE_DIR) + "/bindings/c/" + header).rdbuf();
  const std::string all = text.str();
  const std::regex declaration(R"(LSCHED_(?:CHECKED|API) lsched_status (lsched_\w+)\(([^)]*)\))");
  std::set<std::string> found;
  for (std::sregex_iterator each(all.begin(), all.end(), declaration), end; each != end; ++each)
    if ((*each)[2].str().find("diagnostic") == std::string::npos) found.insert((*each)[1]);
  return found;
}

TEST(last_failure, is_kept_by_each_function_without_a_diagnostic) {
  const auto calls = calls_with_null();
  std::set<std::string> expected = functions_without_diagnostic();
  for (const char* succeeds_with_null : {"lsched_world_close", "lsched_mailbox_destroy"})
    EXPECT_EQ(expected.erase(succeeds_with_null), 1u);
  std::set<std::string> tried;
  for (const auto& [name, call] : calls) {
    tried.insert(name);
    std::thread([&] {  // a new thread has no last failure
      EXPECT_EQ(lsched_last_failure()->status, LSCHED_OK);
      EXPECT_EQ(call(), LSCHED_ERR_ARGUMENT) << name;
      EXPECT_EQ(lsched_last_failure()->status, LSCHED_ERR_ARGUMENT) << name;
      EXPECT_TRUE(last_failure_says("null") || last_failure_says("ticket names no schedule"))
          << name << ": " << lsched_last_failure()->text;
    })
        .join();
  }
  EXPECT_EQ(tried, expected);
}

TEST(last_failure, names_what_is_open_when_a_world_is_closed) {
  const world_of_threads one(1);
  lsched_world* world = nullptr;
  ASSERT_EQ(lsched_split(one.at(0), 0, 0, &world, nullptr), LSCHED_OK);
  lsched_schedule* barrier = nullptr;
  ASSERT_EQ(create_barrier(world, &barrier, nullptr), LSCHED_OK);
  lsched_mailbox* mailbox = nullptr;
  ASSERT_EQ(lsched_mailbox_create(world, &mailbox, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_world_close(world), LSCHED_ERR_BUSY);
  EXPECT_LAST_FAILURE(LSCHED_ERR_BUSY, "barrier/");
  EXPECT_LAST_FAILURE(LSCHED_ERR_BUSY, "a mailbox");
  EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_world_close(world), LSCHED_ERR_BUSY);
  EXPECT_FALSE(last_failure_says("barrier/")) << lsched_last_failure()->text;
  EXPECT_EQ(lsched_mailbox_destroy(mailbox), LSCHED_OK);
  EXPECT_EQ(lsched_world_close(world), LSCHED_OK);
}

TEST(last_failure, names_the_block_that_start_with_refuses) {
  std::latch has_tried_twice(1);
  as_ranks(3, [&](lsched_world* world, std::int32_t rank) {
    std::array<double, 12> send{}, recv{};
    lsched_collective_desc desc{};
    desc.struct_size = sizeof desc;
    desc.collective = "alltoallv";
    desc.dtype = LSCHED_F64;
    desc.capacity = 4;
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    desc.input = send.data();
    EXPECT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_TRUE(why.says("alltoallv has a capacity")) << why.text;
    EXPECT_FALSE(why.says("alltoallv: alltoallv")) << why.text;
    desc.input = nullptr;
    ASSERT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
    const std::array<std::uint64_t, 3> large{1, 5, 1}, small{1, 1, 1}, none{0, 0, 0};
    const void* input = send.data();
    void* output = recv.data();
    lsched_counts counts{};
    counts.struct_size = sizeof counts;
    lsched_ticket round;
    const auto start = [&](const auto& sent, const auto& received) {
      counts.send_counts = sent.data();
      counts.recv_counts = received.data();
      return lsched_start_with(schedule, &input, &output, &counts, &round);
    };
    EXPECT_EQ(start(large, small), LSCHED_ERR_BOUNDS);
    EXPECT_LAST_FAILURE(LSCHED_ERR_BOUNDS, "send_counts[1] is 5, above the capacity of 4");
    EXPECT_EQ(start(small, large), LSCHED_ERR_BOUNDS);
    EXPECT_LAST_FAILURE(LSCHED_ERR_BOUNDS, "recv_counts[1] is 5");
    EXPECT_EQ(start(small, none), LSCHED_ERR_BOUNDS);
    EXPECT_LAST_FAILURE(LSCHED_ERR_BOUNDS, "to itself, but recv_counts has room for");
    if (rank != 0) has_tried_twice.wait();  // rank 1 enters the round only after the second start of rank 0
    EXPECT_EQ(start(small, small), LSCHED_OK);
    if (rank == 0) {
      EXPECT_EQ(start(small, small), LSCHED_ERR_STATE);
      EXPECT_LAST_FAILURE(LSCHED_ERR_STATE, "a round is outstanding");
      has_tried_twice.count_down();
    }
    EXPECT_EQ(lsched_wait(round, k_limit_ns, &why), LSCHED_OK) << rank << ": " << why.text;
    EXPECT_EQ(lsched_rebind(schedule, &input, &output), LSCHED_ERR_UNSUPPORTED);
    EXPECT_LAST_FAILURE(LSCHED_ERR_UNSUPPORTED, "lsched_start_with");
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(last_failure, has_the_outcome_of_a_schedule_that_failed_before_the_start) {
  as_ranks(3, [](lsched_world* world, std::int32_t) {
    lsched_schedule* barrier = nullptr;
    diagnostic why;
    ASSERT_EQ(create_barrier(world, &barrier, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_cancel(barrier, &why), LSCHED_OK) << why.text;
    lsched_ticket round;
    EXPECT_EQ(lsched_start(barrier, &round), LSCHED_ERR_CANCELLED);
    EXPECT_LAST_FAILURE(LSCHED_ERR_CANCELLED, "has cancelled the schedule");
    EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

}  // namespace
}  // namespace lsched::testing
