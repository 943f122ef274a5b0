// Tests of the C interface: the documented behaviour and every documented error of each function. The tests use
// lsched.h only, and ranks are threads. Every wait has a timeout.
#include "bindings/c/lsched.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "build_options.h"
#include "tests/support/barrier.h"
#include "tests/support/one_bucket.h"
#include "tests/support/thread_ranks.h"

namespace {

using lsched::testing::create_barrier;
using lsched::testing::diagnostic;
using lsched::testing::k_limit_ns;  // timeout of waits that must succeed
using lsched::testing::one_bucket;
using lsched::testing::open_threads;
using lsched::testing::test_config;
using lsched::testing::world_of_threads;
constexpr std::uint64_t k_short_ns = 20'000'000;  // timeout of waits that must time out

using integers = std::vector<std::int64_t>;

/// Returns a value outside of the enum. C programs can pass such a value.
template <class Enum>
Enum any_value(int number) {
  Enum value;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&value, &number, sizeof value);
  return value;
}

#define EXPECT_SAYS(what, word) EXPECT_TRUE((what).says(word)) << "the text is: " << (what).text

lsched_collective_desc describe(const integers& input, integers& output) {
  lsched_collective_desc desc{};
  desc.struct_size = sizeof desc;
  desc.collective = "allreduce";
  desc.input = input.data();
  desc.output = output.data();
  desc.count = output.size();
  desc.dtype = LSCHED_I64;
  desc.reduction = LSCHED_SUM;
  return desc;
}

lsched_partial_desc describe_partial(std::uint64_t count, const char* activation, lsched_lag lag = LSCHED_LATEST) {
  lsched_partial_desc desc{};
  desc.struct_size = sizeof desc;
  desc.count = count;
  desc.dtype = LSCHED_I64;
  desc.reduction = LSCHED_SUM;
  desc.activation = activation;
  desc.lag = lag;
  return desc;
}

lsched_schedule* create(lsched_world* runtime, const lsched_collective_desc& desc) {
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
  return schedule;
}

lsched_schedule* create(lsched_world* runtime, const lsched_partial_desc& desc) {
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_partial_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
  return schedule;
}

void destroy(lsched_schedule* schedule) {
  diagnostic why;
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
}

/// Runs one allreduce on all ranks, to check that the world still works after a failure.
void expect_works(lsched_world* runtime) {
  integers input(3, lsched_rank(runtime) + 1);
  integers output(3);
  lsched_schedule* schedule = create(runtime, describe(input, output));
  if (schedule == nullptr) return;
  diagnostic why;
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  const int32_t ranks = lsched_size(runtime);
  EXPECT_EQ(output, integers(3, ranks * (ranks + 1) / 2));
  destroy(schedule);
}

/// An allreduce on two ranks. Only rank 0 has started its round.
struct half_started {
  half_started() {
    world.each(
        [&](lsched_world* runtime, int32_t r) { schedules[r] = create(runtime, describe(inputs[r], outputs[r])); });
    EXPECT_EQ(lsched_start(schedules[0], &ticket), LSCHED_OK);
  }
  void finish() {
    std::jthread other([&] { EXPECT_EQ(lsched_run(schedules[1], k_limit_ns, nullptr), LSCHED_OK); });
    EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(outputs[0], integers(4, 3));
  }
  ~half_started() {
    for (lsched_schedule* one : schedules) destroy(one);
  }
  world_of_threads world{2};
  integers inputs[2]{integers(4, 1), integers(4, 2)}, outputs[2]{integers(4), integers(4)};
  lsched_schedule* schedules[2]{};
  lsched_ticket ticket{};
};

// --- version, status -----------------------------------------------------------------------------------------

TEST(c_version, text_and_number_fit_the_header) {
  const std::string expected = std::to_string(LSCHED_VERSION_MAJOR) + "." + std::to_string(LSCHED_VERSION_MINOR) + "." +
                               std::to_string(LSCHED_VERSION_PATCH);
  EXPECT_EQ(lsched_version(), expected);
}

TEST(c_version, a_caller_with_another_abi_is_refused) {
  lsched_world* runtime = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open_abi(LSCHED_ABI + 1, nullptr, &runtime, &why), LSCHED_ERR_VERSION);
  EXPECT_EQ(why.status, LSCHED_ERR_VERSION);
  EXPECT_SAYS(why, std::to_string(LSCHED_ABI + 1));
  EXPECT_EQ(lsched_world_open_threads_abi(LSCHED_ABI - 1, 1, nullptr, &runtime, &why), LSCHED_ERR_VERSION);
  EXPECT_EQ(runtime, nullptr);
}

TEST(c_status, every_code_has_a_name_and_a_sentence) {
  EXPECT_STREQ(lsched_status_name(LSCHED_OK), "LSCHED_OK");
  EXPECT_STREQ(lsched_status_name(LSCHED_ERR_PEER), "LSCHED_ERR_PEER");
  std::vector<std::string> names;
  for (int code = LSCHED_ERR_DEVICE; code <= LSCHED_PENDING; ++code) {
    names.emplace_back(lsched_status_name(static_cast<lsched_status>(code)));
    EXPECT_GT(std::strlen(lsched_status_text(static_cast<lsched_status>(code))), 0u);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_NE(lsched_status_name(any_value<lsched_status>(-999)), nullptr);
  EXPECT_NE(lsched_status_text(any_value<lsched_status>(999)), nullptr);
}

TEST(c_status, a_diagnostic_of_another_size_is_left_alone) {
  diagnostic why;
  why.struct_size = sizeof(size_t);
  std::strcpy(why.text, "mine");
  EXPECT_EQ(lsched_world_open(nullptr, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_STREQ(why.text, "mine");
}

// --- runtime -------------------------------------------------------------------------------------------------

TEST(c_runtime, null_handles_are_errors_and_never_crash) {
  lsched_stats stats{sizeof stats, 0, 0, 0, 0, 0, 0, 0};
  char text[8];
  void* memory = nullptr;
  EXPECT_EQ(lsched_world_close(nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_rank(nullptr), -1);
  EXPECT_EQ(lsched_size(nullptr), 0);
  EXPECT_EQ(lsched_progress(nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_alloc(nullptr, 8, &memory), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_free(nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_get_stats(nullptr, &stats), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_describe(nullptr, text, sizeof text), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_open_threads(1, nullptr, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_open(nullptr, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  lsched_config_init(nullptr);
}

TEST(c_runtime, a_world_needs_at_least_one_rank) {
  lsched_world* runtime = nullptr;
  for (const int32_t ranks : {0, -1, std::numeric_limits<int32_t>::min()}) {
    diagnostic why;
    EXPECT_EQ(lsched_world_open_threads(ranks, nullptr, &runtime, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(why.status, LSCHED_ERR_ARGUMENT);
  }
}

TEST(c_runtime, a_wrong_configuration_is_refused_by_name) {
  lsched_world* runtime = nullptr;
  const auto expect_refusal = [&](const char* word, const std::function<void(lsched_config&)>& spoil) {
    lsched_config config = test_config();
    spoil(config);
    diagnostic why;
    EXPECT_EQ(lsched_world_open_threads(1, &config, &runtime, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_SAYS(why, word);
    EXPECT_EQ(lsched_world_open(&config, &runtime, nullptr), LSCHED_ERR_ARGUMENT);
  };
  expect_refusal("struct_size", [](lsched_config& c) { c.struct_size = 3; });
  expect_refusal("progress", [](lsched_config& c) { c.progress = any_value<lsched_progress_mode>(7); });
  expect_refusal("idle", [](lsched_config& c) { c.idle = any_value<lsched_idle_mode>(9); });
  expect_refusal("progress_core", [](lsched_config& c) { c.progress_core = 1 << 20; });
  expect_refusal("progress_core", [](lsched_config& c) { c.progress_core = -2; });
  for (const int32_t lane : {-3, 1025, INT32_MIN, INT32_MAX})
    expect_refusal("lane", [lane](lsched_config& c) { c.lane = lane; });
}

TEST(c_runtime, a_region_beyond_the_address_space_is_no_memory) {
  lsched_config config = test_config();
  config.region_bytes = std::uint64_t{1} << 62;
  lsched_world* runtime = nullptr;
  EXPECT_EQ(lsched_world_open_threads(2, &config, &runtime, nullptr), LSCHED_ERR_NOMEM);
}

TEST(c_runtime, alone_it_is_a_world_of_one) {
  const lsched_config config = test_config();
  lsched_world* runtime = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_world_open(&config, &runtime, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_rank(runtime), 0);
  EXPECT_EQ(lsched_size(runtime), 1);
  expect_works(runtime);
  EXPECT_EQ(lsched_world_close(runtime), LSCHED_OK);
}

TEST(c_runtime, a_number_of_the_environment_that_is_none_is_an_error) {
  const auto expect_error = [](const char* variable, const char* value, const char* words) {
    setenv(variable, value, 1);
    lsched_world* runtime = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_world_open(nullptr, &runtime, &why), LSCHED_ERR_ARGUMENT) << variable << "=" << value;
    EXPECT_SAYS(why, words);
    EXPECT_EQ(runtime, nullptr);
    unsetenv(variable);
  };
  for (const char* value : {"", "two", "2x", " 2", "-1", "99999999999999999999"}) {
    expect_error("PMI_SIZE", value, "PMI_SIZE is \"");
    setenv("LSCHED_RUN_RANK", "0", 1);
    expect_error("LSCHED_RUN_FD", value, "not a whole number from 0 to 2147483647");
    expect_error("LSCHED_RUN_FD", "7", "LSCHED_RUN_SIZE is not set");
    unsetenv("LSCHED_RUN_RANK");
  }
}

TEST(c_runtime, the_environment_changes_the_defaults) {
  setenv("LSCHED_PROGRESS", "caller", 1);
  setenv("LSCHED_IDLE", "park", 1);
  lsched_config config;
  lsched_config_init(&config);
  unsetenv("LSCHED_PROGRESS");
  unsetenv("LSCHED_IDLE");
  EXPECT_EQ(config.struct_size, sizeof config);
  EXPECT_EQ(config.progress, LSCHED_PROGRESS_CALLER);
  EXPECT_EQ(config.idle, LSCHED_IDLE_PARK);
  lsched_config_init(&config);
  EXPECT_EQ(config.progress, LSCHED_PROGRESS_THREAD);
  EXPECT_EQ(config.idle, LSCHED_IDLE_AUTO);
}

TEST(c_runtime, takes_its_lane_from_the_environment) {
  lsched_config config;
  for (const auto& [text, number] : {std::pair("auto", int32_t{LSCHED_LANE_AUTO}),
                                     {"inline", LSCHED_LANE_INLINE},
                                     {"tbb", LSCHED_LANE_TBB},
                                     {"tbb:7", 7}}) {
    setenv("LSCHED_LANE", text, 1);
    lsched_config_init(&config);
    EXPECT_EQ(config.lane, number) << text;
  }
  setenv("LSCHED_LANE", "tbb:many", 1);
  lsched_world* runtime = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open_threads(1, nullptr, &runtime, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_SAYS(why, "LSCHED_LANE");
  unsetenv("LSCHED_LANE");
  lsched_config_init(&config);
  EXPECT_EQ(config.lane, LSCHED_LANE_AUTO);
}

TEST(c_runtime, says_where_arithmetic_runs) {
  const auto about = [](int32_t lane) {
    lsched_config config = test_config();
    config.lane = lane;
    const world_of_threads world(1, config);
    char text[300];
    EXPECT_EQ(lsched_world_describe(world.at(0), text, sizeof text), LSCHED_OK);
    return std::string(text);
  };
  EXPECT_NE(about(LSCHED_LANE_INLINE).find("arithmetic inline: as requested"), std::string::npos)
      << about(LSCHED_LANE_INLINE);
#if LSCHED_HAVE_TBB
  EXPECT_NE(about(3).find("with 3 oneTBB workers"), std::string::npos) << about(3);
#else
  lsched_config config = test_config();
  config.lane = LSCHED_LANE_TBB;
  lsched_world* runtime = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open_threads(1, &config, &runtime, &why), LSCHED_ERR_UNSUPPORTED);
  EXPECT_SAYS(why, "oneTBB");
#endif
}

TEST(c_runtime, describes_itself_within_the_room_there_is) {
  const world_of_threads world(2);
  char text[200];
  ASSERT_EQ(lsched_world_describe(world.at(1), text, sizeof text), LSCHED_OK);
  EXPECT_NE(std::string(text).find("rank 1 of 2"), std::string::npos) << text;
  char little[5] = "####";
  EXPECT_EQ(lsched_world_describe(world.at(1), little, 4), LSCHED_OK);
  EXPECT_EQ(std::string(little), std::string(text).substr(0, 3));
  EXPECT_EQ(lsched_world_describe(world.at(1), text, 0), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_describe(world.at(1), nullptr, 5), LSCHED_ERR_ARGUMENT);
}

TEST(c_runtime, counts_what_it_does) {
  const world_of_threads world(2);
  world.each([](lsched_world* runtime, int32_t) { expect_works(runtime); });
  lsched_stats stats{};
  EXPECT_EQ(lsched_get_stats(world.at(0), &stats), LSCHED_ERR_ARGUMENT) << "struct_size is not set";
  stats.struct_size = sizeof stats;
  ASSERT_EQ(lsched_get_stats(world.at(0), &stats), LSCHED_OK);
  EXPECT_EQ(stats.rounds, 1u);
  EXPECT_EQ(stats.messages_sent, 1u);
  EXPECT_EQ(stats.bytes_sent, 3 * sizeof(std::int64_t));
  EXPECT_EQ(stats.nulls_sent, 0u);
  EXPECT_GT(stats.steps, 0u);
}

TEST(c_runtime, memory_is_aligned_given_back_and_refused_when_there_is_none) {
  const world_of_threads world(1);
  void* memory = nullptr;
  EXPECT_EQ(lsched_alloc(world.at(0), 8, nullptr), LSCHED_ERR_ARGUMENT);
  for (const std::uint64_t bytes : {0u, 1u, 100u, 1u << 20}) {
    ASSERT_EQ(lsched_alloc(world.at(0), bytes, &memory), LSCHED_OK);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
    std::memset(memory, 1, bytes);
    EXPECT_EQ(lsched_free(world.at(0), memory), LSCHED_OK);
  }
  for (const std::uint64_t bytes : {std::uint64_t{65} << 20, std::uint64_t{1} << 48, UINT64_MAX}) {
    memory = nullptr;
    EXPECT_EQ(lsched_alloc(world.at(0), bytes, &memory), LSCHED_ERR_NOMEM);
    EXPECT_EQ(memory, nullptr);
  }
  for (int i = 0; i < 200; ++i) {  // 200 MiB in total, from a region of 64 MiB, so freed memory must be reused
    ASSERT_EQ(lsched_alloc(world.at(0), 1 << 20, &memory), LSCHED_OK);
    ASSERT_EQ(lsched_free(world.at(0), memory), LSCHED_OK);
  }
  EXPECT_EQ(lsched_free(world.at(0), nullptr), LSCHED_OK);
}

TEST(c_runtime, is_not_closed_while_it_has_schedules) {
  const world_of_threads world(2);
  lsched_schedule* barriers[2]{};
  world.each(
      [&](lsched_world* runtime, int32_t r) { EXPECT_EQ(create_barrier(runtime, &barriers[r], nullptr), LSCHED_OK); });
  EXPECT_EQ(lsched_world_close(world.at(0)), LSCHED_ERR_BUSY);
  world.each([&](lsched_world*, int32_t r) { EXPECT_EQ(lsched_run(barriers[r], k_limit_ns, nullptr), LSCHED_OK); });
  for (lsched_schedule* one : barriers) destroy(one);
}

// Every schedule of a world has an id. New schedules take the ids of destroyed schedules one after the other. No new
// schedule may take the id of a schedule that still exists.
TEST(c_runtime, a_schedule_that_lives_is_in_no_others_way) {
  const world_of_threads world(3);
  world.each([&](lsched_world* runtime, int32_t r) {
    const integers input(1, r);
    integers output(1), other(1);
    lsched_schedule* lasting = create(runtime, describe(input, output));
    ASSERT_NE(lasting, nullptr);
    for (int i = 0; i < 4200; ++i) {
      lsched_schedule* passing = create(runtime, describe(input, other));
      ASSERT_NE(passing, nullptr) << i;
      destroy(passing);
    }
    EXPECT_EQ(lsched_run(lasting, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(output, integers(1, 3));
    destroy(lasting);
  });
}

// --- creating: this rank's arguments -------------------------------------------------------------------------

TEST(c_allreduce, bad_arguments_are_named_and_change_nothing) {
  const world_of_threads world(1);
  integers memory(10, 1);
  integers output(10);
  const auto expect_refusal = [&](const char* word, const std::function<void(lsched_collective_desc&)>& spoil) {
    lsched_collective_desc desc = describe(memory, output);
    spoil(desc);
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(world.at(0), &desc, &schedule, &why), LSCHED_ERR_ARGUMENT) << word;
    EXPECT_EQ(schedule, nullptr);
    EXPECT_SAYS(why, word);
  };
  using desc = lsched_collective_desc;
  expect_refusal("struct_size", [](desc& d) { d.struct_size = 0; });
  expect_refusal("null", [](desc& d) { d.input = nullptr; });
  expect_refusal("null", [](desc& d) { d.output = nullptr; });
  expect_refusal("dtype is not set", [](desc& d) { d.dtype = LSCHED_DTYPE_NONE; });
  expect_refusal("dtype", [](desc& d) { d.dtype = any_value<lsched_dtype>(LSCHED_F64 + 1); });
  expect_refusal("dtype", [](desc& d) { d.dtype = any_value<lsched_dtype>(-1); });
  expect_refusal("reduction", [](desc& d) { d.reduction = any_value<lsched_reduction>(1); });
  expect_refusal("reduction", [](desc& d) { d.reduction = any_value<lsched_reduction>(12); });
  expect_refusal("band", [](desc& d) { d.dtype = LSCHED_F64, d.reduction = LSCHED_BAND; });
  expect_refusal("2^48", [](desc& d) { d.count = std::uint64_t{1} << 48; });
  expect_refusal("overlap", [&](desc& d) { d.output = memory.data() + 1, d.count = 5; });
  expect_refusal("overlap", [&](desc& d) { d.input = memory.data() + 4, d.output = memory.data(), d.count = 5; });
  expect_refusal("no_such_thing", [](desc& d) { d.algorithm = "no_such_thing"; });
  expect_refusal("recursive_doubling", [](desc& d) { d.algorithm = ""; });
  expect_works(world.at(0));
}

TEST(c_allreduce, null_pointers_are_errors) {
  const world_of_threads world(1);
  integers memory(4), output(4);
  const lsched_collective_desc desc = describe(memory, output);
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_collective_create(nullptr, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_collective_create(world.at(0), nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_collective_create(world.at(0), &desc, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(create_barrier(nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(create_barrier(world.at(0), nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_partial_create(nullptr, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_partial_create(world.at(0), nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  expect_works(world.at(0));
}

TEST(c_allreduce, neighbouring_buffers_do_not_overlap_and_empty_ones_may_be_null) {
  const world_of_threads world(1);
  integers memory(10, 7);
  lsched_collective_desc desc = describe(memory, memory);
  desc.count = 5;
  desc.output = memory.data() + 5;
  destroy(create(world.at(0), desc));
  desc.count = 0;
  desc.input = desc.output = nullptr;
  lsched_schedule* empty = create(world.at(0), desc);
  EXPECT_EQ(lsched_run(empty, k_limit_ns, nullptr), LSCHED_OK);
  const void* inputs[] = {nullptr};
  void* outputs[] = {nullptr};
  EXPECT_EQ(lsched_rebind(empty, inputs, outputs), LSCHED_OK);
  EXPECT_EQ(lsched_run(empty, k_limit_ns, nullptr), LSCHED_OK);
  destroy(empty);
}

TEST(c_allreduce, more_than_the_region_holds_is_no_memory_on_every_rank) {
  const world_of_threads world(3);
  world.each([](lsched_world* runtime, int32_t) {
    integers memory(1);
    lsched_collective_desc desc = describe(memory, memory);
    desc.count = (std::uint64_t{1} << 48) - 1;
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_NOMEM) << why.text;
    expect_works(runtime);
  });
}

// --- creating: disagreements ---------------------------------------------------------------------------------

/// Checks that the create of every rank fails with `code` and a text that contains `words`, and that the next create
/// succeeds.
void expect_disagreement(
    lsched_status code, const std::vector<std::string>& words,
    const std::function<lsched_status(lsched_world*, int32_t, lsched_schedule**, lsched_diagnostic*)>& make) {
  const world_of_threads world(3);
  world.each([&](lsched_world* runtime, int32_t r) {
    for (int again = 0; again < 2; ++again) {
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(make(runtime, r, &schedule, &why), code) << "rank " << r << ": " << why.text;
      EXPECT_EQ(why.status, code);
      EXPECT_EQ(schedule, nullptr);
      for (const std::string& word : words) EXPECT_SAYS(why, word);
      expect_works(runtime);
    }
  });
}

void expect_allreduce_mismatch(const std::vector<std::string>& words,
                               const std::function<void(lsched_collective_desc&)>& change) {
  for (int32_t odd = 0; odd < 3; ++odd)
    expect_disagreement(LSCHED_ERR_MISMATCH, words,
                        [&](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                          integers input(8), output(8);
                          lsched_collective_desc desc = describe(input, output);
                          if (r == odd) change(desc);
                          return lsched_collective_create(runtime, &desc, schedule, why);
                        });
}

TEST(c_mismatch, counts) {
  expect_allreduce_mismatch({"count 8", "count 7"}, [](lsched_collective_desc& d) { d.count = 7; });
}
TEST(c_mismatch, dtypes) {
  expect_allreduce_mismatch({"i64", "f64"}, [](lsched_collective_desc& d) { d.dtype = LSCHED_F64; });
}
TEST(c_mismatch, reductions) {
  expect_allreduce_mismatch({"sum", "max"}, [](lsched_collective_desc& d) { d.reduction = LSCHED_MAX; });
}

TEST(c_mismatch, order) {
  expect_disagreement(LSCHED_ERR_MISMATCH, {"barrier", "allreduce"},
                      [](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                        integers input(8), output(8);
                        const lsched_collective_desc desc = describe(input, output);
                        return r == 1 ? create_barrier(runtime, schedule, why)
                                      : lsched_collective_create(runtime, &desc, schedule, why);
                      });
}

TEST(c_mismatch, activations_and_seeds) {
  for (const bool seeds : {false, true})
    expect_disagreement(LSCHED_ERR_MISMATCH, {"partial"},
                        [&](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                          lsched_partial_desc desc = describe_partial(4, "majority");
                          if (r == 2 && seeds) desc.seed = 5;
                          if (r == 2 && !seeds) desc.activation = "solo";
                          return lsched_partial_create(runtime, &desc, schedule, why);
                        });
}

TEST(c_mismatch, bad_arguments_of_one_rank_are_told_to_all) {
  const world_of_threads world(3);
  world.each([](lsched_world* runtime, int32_t r) {
    for (int32_t bad = 0; bad < 3; ++bad) {
      integers input(8), output(8);
      lsched_collective_desc desc = describe(input, output);
      if (r == bad) desc.input = nullptr;
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT);
      EXPECT_SAYS(why, "null");
      if (r != bad) {
        EXPECT_EQ(why.rank, bad);
        EXPECT_SAYS(why, "rank " + std::to_string(bad));
      }
      expect_works(runtime);
    }
  });
}

/// If one rank passes a null pointer for the result, the create fails on all ranks, and no other rank waits for this
/// rank.
TEST(c_mismatch, a_rank_without_room_for_its_schedule_takes_part) {
  integers input(4), output(4);
  const lsched_collective_desc sum = describe(input, output);
  const lsched_partial_desc partial = describe_partial(4, "solo");
  const auto by_hand = [](lsched_world* runtime, lsched_schedule** schedule, lsched_diagnostic* why) {
    lsched_builder* b = nullptr;
    EXPECT_EQ(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime), "nothing", &b), LSCHED_OK);
    return lsched_builder_commit(b, runtime, nullptr, nullptr, schedule, why);
  };
  using create_call = std::function<lsched_status(lsched_world*, lsched_schedule**, lsched_diagnostic*)>;
  for (const create_call& call :
       {create_call(create_barrier), create_call(by_hand), create_call([&](auto*runtime, auto**schedule, auto*why) {
          return lsched_collective_create(runtime, &sum, schedule, why);
        }),
        create_call([&](auto*runtime, auto**schedule, auto*why) {
          return lsched_partial_create(runtime, &partial, schedule, why);
        })})
    expect_disagreement(LSCHED_ERR_ARGUMENT, {"schedule is null"},
                        [&](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                          return call(runtime, r == 1 ? nullptr : schedule, why);
                        });
}

TEST(c_mismatch, a_rank_that_does_not_come_is_named_each_time) {
  lsched_config config = test_config();
  config.commit_timeout_ns = lsched::testing::until_named_ns(k_short_ns);
  const world_of_threads world(3, config);
  world.each([&](lsched_world* runtime, int32_t r) {
    for (int attempt = 0; r != 1 && attempt < 3; ++attempt) {
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      EXPECT_EQ(create_barrier(runtime, &schedule, &why), LSCHED_ERR_TIMEOUT);
      EXPECT_EQ(why.rank, 1);
      EXPECT_SAYS(why, "rank 1");
      EXPECT_EQ(schedule, nullptr);
    }
  });
}

TEST(c_mismatch, a_rank_that_has_closed_is_named_at_once) {
  world_of_threads world(2);
  std::vector<lsched_world*> pair(2);
  lsched_config config = test_config();
  ASSERT_EQ(open_threads(2, &config, pair.data(), nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_world_close(pair[1]), LSCHED_OK);
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(create_barrier(pair[0], &schedule, &why), LSCHED_ERR_PEER);
  EXPECT_EQ(why.rank, 1);
  EXPECT_SAYS(why, "closed");
  EXPECT_EQ(lsched_world_close(pair[0]), LSCHED_OK);
}

TEST(c_mismatch, a_commit_that_finds_a_rank_gone_ends_what_was_running) {
  lsched_config config = test_config();
  std::vector<lsched_world*> pair(2);
  ASSERT_EQ(open_threads(2, &config, pair.data(), nullptr), LSCHED_OK);
  lsched_schedule* barriers[2]{};
  {
    std::jthread other([&] { EXPECT_EQ(create_barrier(pair[1], &barriers[1], nullptr), LSCHED_OK); });
    EXPECT_EQ(create_barrier(pair[0], &barriers[0], nullptr), LSCHED_OK);
  }
  EXPECT_EQ(lsched_schedule_destroy(barriers[1], 0, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_world_close(pair[1]), LSCHED_OK);
  lsched_ticket ticket{};
  const lsched_status started = lsched_start(barriers[0], &ticket);  // PEER if this rank has already noticed the close
  EXPECT_TRUE(started == LSCHED_OK || started == LSCHED_ERR_PEER);
  lsched_schedule* another = nullptr;
  EXPECT_EQ(create_barrier(pair[0], &another, nullptr), LSCHED_ERR_PEER);
  EXPECT_EQ(lsched_schedule_destroy(barriers[0], 0, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_world_close(pair[0]), LSCHED_OK);
}

// --- running -------------------------------------------------------------------------------------------------

TEST(c_running, null_schedules_and_tickets_are_errors) {
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_start(nullptr, &ticket), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_test(ticket), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_wait(ticket, 0, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_run(nullptr, 0, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_rebind(nullptr, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_destroy(nullptr, 0, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_schedule_print(nullptr, LSCHED_PRINT_TEXT, nullptr, 0, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_offer(nullptr, one_bucket(&ticket), &ticket), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_collect(ticket, nullptr, 0, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_withdraw(nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_skip(nullptr, 0, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_leave(nullptr), LSCHED_ERR_ARGUMENT);
}

TEST(c_running, one_round_may_be_outstanding) {
  half_started it;
  lsched_ticket other{};
  diagnostic why;
  EXPECT_EQ(lsched_start(it.schedules[0], &other), LSCHED_ERR_STATE);
  EXPECT_EQ(other.schedule, nullptr);
  EXPECT_EQ(lsched_start(it.schedules[0], nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_run(it.schedules[0], 0, &why), LSCHED_ERR_STATE);
  EXPECT_SAYS(why, "outstanding");
  it.finish();
}

TEST(c_running, a_running_schedule_is_neither_rebound_nor_destroyed_and_still_works) {
  half_started it;
  integers other(4);
  const void* inputs[] = {it.inputs[0].data()};
  void* outputs[] = {other.data()};
  diagnostic why;
  EXPECT_EQ(lsched_rebind(it.schedules[0], inputs, outputs), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_schedule_destroy(it.schedules[0], 0, &why), LSCHED_ERR_BUSY);
  EXPECT_SAYS(why, "outstanding");
  it.finish();
}

TEST(c_running, a_timeout_names_schedule_round_ops_and_ranks_and_the_wait_may_be_repeated) {
  half_started it;
  EXPECT_EQ(lsched_test(it.ticket), LSCHED_PENDING);
  for (const std::uint64_t timeout : {std::uint64_t{0}, k_short_ns}) {
    diagnostic why;
    EXPECT_EQ(lsched_wait(it.ticket, timeout, &why), LSCHED_ERR_TIMEOUT);
    EXPECT_EQ(why.status, LSCHED_ERR_TIMEOUT);
    EXPECT_EQ(why.rank, 1);
    EXPECT_EQ(why.round, 1u);
    for (const char* word : {"allreduce", "round 1", "ops not started", "rank 1"}) EXPECT_SAYS(why, word);
  }
  EXPECT_EQ(lsched_wait(it.ticket, 0, nullptr), LSCHED_ERR_TIMEOUT);
  it.finish();
  EXPECT_EQ(lsched_test(it.ticket), LSCHED_OK);
  EXPECT_EQ(lsched_wait(it.ticket, 0, nullptr), LSCHED_OK);
}

TEST(c_running, a_run_that_times_out_leaves_its_round_outstanding) {
  half_started it;
  it.finish();
  diagnostic why;
  EXPECT_EQ(lsched_run(it.schedules[0], k_short_ns, &why), LSCHED_ERR_TIMEOUT);
  EXPECT_EQ(why.round, 2u);
  it.ticket = {it.schedules[0], why.round};
  it.finish();
}

TEST(c_running, a_ticket_of_a_round_nobody_has_started_is_an_error) {
  half_started it;
  it.finish();
  for (const std::uint64_t round : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{5}, UINT64_MAX}) {
    const lsched_ticket future{it.schedules[0], round};
    EXPECT_EQ(lsched_test(future), LSCHED_ERR_STATE);
    diagnostic why;
    EXPECT_EQ(lsched_wait(future, LSCHED_FOREVER, &why), LSCHED_ERR_STATE);
    EXPECT_SAYS(why, "round " + std::to_string(round) + " has not been started");
  }
}

TEST(c_running, rebinding_moves_a_schedule_and_refuses_what_it_was_not_compiled_for) {
  const world_of_threads world(3);
  world.each([](lsched_world* runtime, int32_t r) {
    integers input(4, r), output(4), other_input(4, 10 * r), other_output(4);
    lsched_schedule* schedule = create(runtime, describe(input, output));
    const void* inputs[] = {other_input.data()};
    void* outputs[] = {other_output.data()};
    const void* nothing_in[] = {nullptr};
    void* nothing_out[] = {nullptr};
    EXPECT_EQ(lsched_rebind(schedule, nullptr, outputs), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_rebind(schedule, inputs, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_rebind(schedule, nothing_in, outputs), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_rebind(schedule, inputs, nothing_out), LSCHED_ERR_ARGUMENT);
    const void* same[] = {other_output.data()};
    EXPECT_EQ(lsched_rebind(schedule, same, outputs), LSCHED_ERR_ARGUMENT);
    integers both(5);
    const void* lower[] = {both.data()};
    void* upper[] = {both.data() + 1};
    EXPECT_EQ(lsched_rebind(schedule, lower, upper), LSCHED_ERR_ARGUMENT) << "they overlap";
    EXPECT_EQ(lsched_rebind(schedule, inputs, outputs), LSCHED_OK);
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(other_output, integers(4, 30));
    EXPECT_EQ(output, integers(4));
    destroy(schedule);

    lsched_schedule* in_place = create(runtime, describe(input, input));
    EXPECT_EQ(lsched_rebind(in_place, inputs, outputs), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_rebind(in_place, same, outputs), LSCHED_OK);
    destroy(in_place);
  });
}

TEST(c_running, shared_memory_buffers_and_large_vectors) {
  const world_of_threads world(3);
  world.each([](lsched_world* runtime, int32_t r) {
    constexpr std::uint64_t count = 100'000;
    void* memory = nullptr;
    ASSERT_EQ(lsched_alloc(runtime, count * sizeof(std::int64_t), &memory), LSCHED_OK);
    auto* values = static_cast<std::int64_t*>(memory);
    integers unused(1);
    lsched_collective_desc desc = describe(unused, unused);
    desc.input = desc.output = memory;
    desc.count = count;
    lsched_schedule* schedule = create(runtime, desc);
    for (int round = 1; round <= 3; ++round) {
      for (std::uint64_t i = 0; i < count; ++i) values[i] = r + static_cast<std::int64_t>(i);
      EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
      for (std::uint64_t i = 0; i < count; ++i)
        if (values[i] != 3 + 3 * static_cast<std::int64_t>(i)) {
          ADD_FAILURE() << "element " << i;
          break;
        }
    }
    destroy(schedule);
    EXPECT_EQ(lsched_free(runtime, memory), LSCHED_OK);
  });
}

TEST(c_running, nobody_passes_a_barrier_alone) {
  const world_of_threads world(3);
  std::atomic<int> entered{0};
  world.each([&](lsched_world* runtime, int32_t) {
    lsched_schedule* barrier = nullptr;
    EXPECT_EQ(create_barrier(runtime, &barrier, nullptr), LSCHED_OK);
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      EXPECT_EQ(lsched_run(barrier, k_limit_ns, nullptr), LSCHED_OK);
      EXPECT_GE(entered.load(), 3 * round);
    }
    destroy(barrier);
  });
}

TEST(c_running, callers_drive_where_there_is_no_progress_thread) {
  lsched_config config = test_config();
  config.progress = LSCHED_PROGRESS_CALLER;
  const world_of_threads world(2, config);
  integers inputs[2]{integers(4, 1), integers(4, 2)}, outputs[2]{integers(4), integers(4)};
  lsched_schedule* schedules[2]{};
  lsched_ticket tickets[2]{};
  world.each(
      [&](lsched_world* runtime, int32_t r) { schedules[r] = create(runtime, describe(inputs[r], outputs[r])); });
  for (int r = 0; r < 2; ++r) ASSERT_EQ(lsched_start(schedules[r], &tickets[r]), LSCHED_OK);
  for (int i = 0; i < 1000 && lsched_test(tickets[0]) == LSCHED_PENDING; ++i)
    EXPECT_EQ(lsched_progress(world.at(1), nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_test(tickets[0]), LSCHED_OK);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(lsched_wait(tickets[r], k_limit_ns, nullptr), LSCHED_OK);
  EXPECT_EQ(outputs[1], integers(4, 3));
  for (lsched_schedule* one : schedules) destroy(one);
}

// --- printing ------------------------------------------------------------------------------------------------

TEST(c_printing, text_and_picture_fit_the_room_they_are_given) {
  const world_of_threads world(1);
  integers input(4), output(4);
  lsched_schedule* schedule = create(world.at(0), describe(input, output));
  for (const auto& [format, word] :
       {std::pair(LSCHED_PRINT_TEXT, "libsched schedule 3"), std::pair(LSCHED_PRINT_DOT, "digraph")}) {
    size_t needed = 0;
    ASSERT_EQ(lsched_schedule_print(schedule, format, nullptr, 0, &needed), LSCHED_OK);
    std::string text(needed, '#');
    ASSERT_EQ(lsched_schedule_print(schedule, format, text.data(), needed, nullptr), LSCHED_OK);
    EXPECT_EQ(text.find('\0'), needed - 1);
    EXPECT_NE(text.find(word), std::string::npos);
    char little[6] = "#####";
    ASSERT_EQ(lsched_schedule_print(schedule, format, little, 5, nullptr), LSCHED_OK);
    EXPECT_EQ(std::string(little), text.substr(0, 4));
  }
  EXPECT_EQ(lsched_schedule_print(schedule, any_value<lsched_print_format>(3), nullptr, 0, nullptr),
            LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, nullptr, 10, nullptr), LSCHED_ERR_ARGUMENT);
  destroy(schedule);
}

// --- partial -------------------------------------------------------------------------------------------------

TEST(c_partial, bad_arguments_are_named) {
  const world_of_threads world(1);
  const auto expect_refusal = [&](const char* word, const std::function<void(lsched_partial_desc&)>& spoil) {
    lsched_partial_desc desc = describe_partial(4, "solo");
    spoil(desc);
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_partial_create(world.at(0), &desc, &schedule, &why), LSCHED_ERR_ARGUMENT) << word;
    EXPECT_SAYS(why, word);
    EXPECT_EQ(schedule, nullptr);
  };
  using desc = lsched_partial_desc;
  expect_refusal("struct_size", [](desc& d) { d.struct_size = 1; });
  expect_refusal("activation", [](desc& d) { d.activation = nullptr; });
  for (const char* words :
       {"", "none", "Solo", "quorum", "quorum(0)", "quorum(2", "quorum(2)x", "quorum(-1)", "solo(1)", "solo+",
        "solo+every", "solo+every(0)", "solo+every(1)+every(2)", "first_of(99999999999)"})
    expect_refusal("is not an activation policy", [words](desc& d) { d.activation = words; });
  expect_refusal("quorum(2) needs a number from 1 to 1", [](desc& d) { d.activation = "quorum(2)"; });
  expect_refusal("lag", [](desc& d) { d.lag = any_value<lsched_lag>(3); });
  expect_refusal("only LSCHED_HISTORY has a history", [](desc& d) { d.history = 1; });
  expect_refusal("averages_weights", [](desc& d) { d.averages_weights = 1; });
  expect_refusal("averages_weights", [](desc& d) { d.dtype = LSCHED_F32, d.averages_weights = 2; });
  expect_refusal("averages_weights",
                 [](desc& d) { d.dtype = LSCHED_F32, d.reduction = LSCHED_MAX, d.averages_weights = 1; });
  for (const std::uint32_t history : {0u, 61u})
    expect_refusal("history is not from 1 to 60", [history](desc& d) { d.lag = LSCHED_HISTORY, d.history = history; });
  expect_refusal("dtype is not set", [](desc& d) { d.dtype = {}; });
  expect_refusal("dtype", [](desc& d) { d.dtype = any_value<lsched_dtype>(77); });
  expect_refusal("reduction", [](desc& d) { d.reduction = any_value<lsched_reduction>(77); });
  expect_refusal("2^48", [](desc& d) { d.count = UINT64_MAX; });
  expect_works(world.at(0));
}

lsched_report empty_report() {
  lsched_report report{};
  report.struct_size = sizeof report;
  return report;
}

TEST(c_partial, ordinary_and_partial_functions_refuse_each_others_schedules) {
  const world_of_threads world(1);
  integers input(4, 1), output(4);
  lsched_schedule* ordinary = create(world.at(0), describe(input, output));
  lsched_schedule* partial = create(world.at(0), describe_partial(4, "solo"));
  lsched_ticket ticket{};
  const void* inputs[] = {input.data()};
  void* outputs[] = {output.data()};
  EXPECT_EQ(lsched_start(partial, &ticket), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_run(partial, 0, nullptr), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_rebind(partial, inputs, outputs), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(lsched_offer(ordinary, one_bucket(input.data()), &ticket), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_withdraw(ordinary, nullptr), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_skip(ordinary, 0, nullptr), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_leave(ordinary), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_start(ordinary, &ticket), LSCHED_OK);
  EXPECT_EQ(lsched_collect(ticket, one_bucket(output.data()), 0, nullptr, nullptr), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
  destroy(ordinary);
  destroy(partial);
}

TEST(c_partial, what_is_offered_is_collected_once) {
  const world_of_threads world(1);
  lsched_schedule* schedule = create(world.at(0), describe_partial(4, "solo"));
  integers gradient(4, 5), result(4, -1);
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), nullptr), LSCHED_ERR_ARGUMENT);
  ASSERT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
  lsched_report report{};
  EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_ERR_ARGUMENT)
      << "struct_size is not set";
  report = empty_report();
  ASSERT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
  EXPECT_EQ(result, gradient);
  EXPECT_EQ(report.from, 0u);
  EXPECT_EQ(report.to, 1u);
  EXPECT_EQ(report.last.contributors, 1u);
  EXPECT_EQ(report.offers, 1u);
  EXPECT_EQ(report.mine, 1u);
  EXPECT_EQ(report.last.ranks, 1);
  EXPECT_EQ(report.has_result, 1);

  std::ranges::fill(result, -1);
  ASSERT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
  EXPECT_EQ(report.from, report.to);
  EXPECT_EQ(report.to, 1u);
  EXPECT_EQ(report.has_result, 0);
  EXPECT_EQ(result, integers(4, -1));
  destroy(schedule);
}

TEST(c_partial, everything_offered_arrives_on_every_rank) {
  for (const char* activation : {"full", "solo", "majority", "first_of(2)", "all_of(2)", "quorum(2)+every(3)"}) {
    const world_of_threads world(3);
    integers totals(3);
    world.each([&](lsched_world* runtime, int32_t r) {
      lsched_schedule* schedule = create(runtime, describe_partial(2, activation, LSCHED_ACCUMULATE));
      const integers gradient(2, r + 1);
      integers result(2);
      lsched_ticket ticket{};
      const auto collect = [&] {
        lsched_report report = empty_report();
        EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
        if (report.has_result != 0) totals[static_cast<std::size_t>(r)] += result[0];
      };
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
        collect();
      }
      EXPECT_EQ(lsched_leave(schedule), LSCHED_OK);
      EXPECT_EQ(lsched_leave(schedule), LSCHED_OK);
      lsched_ticket none{};
      EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &none), LSCHED_ERR_STATE);
      ticket.round = UINT64_MAX;  // UINT64_MAX stands for all rounds
      collect();
      destroy(schedule);
    });
    EXPECT_EQ(totals, integers(3, 50 * (1 + 2 + 3)));
  }
}

// --- collective calls -----------------------------------------------------------------------------------------------

/// A rank that offers values and adds up the results that it collects. Ranks call with different frequencies.
struct trainee {
  lsched_schedule* schedule;
  integers result = integers(2);
  std::int64_t total = 0;
  std::uint64_t last = 0;

  void take(const lsched_report& report) {
    EXPECT_EQ(report.from, last) << "intervals are adjacent";
    last = report.to;
    if (report.has_result != 0) total += result[0];
  }
  lsched_ticket offer(std::int64_t value) {
    const integers gradient(2, value);
    lsched_ticket ticket{};
    EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
    return ticket;
  }
  bool collect(lsched_ticket ticket) {
    lsched_report report = empty_report();
    EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
    take(report);
    return report.to != report.from;
  }
  /// Flushes the schedule and collects all results. Returns the last round that all ranks have finished.
  std::uint64_t flush() {
    lsched_report report = empty_report();
    diagnostic why;
    EXPECT_EQ(lsched_flush(schedule, one_bucket(result.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
    take(report);
    while (last < report.round) EXPECT_TRUE(collect({schedule, report.round}));  // there may be several results
    return report.round;
  }
};

TEST(c_partial, after_a_flush_all_ranks_are_at_the_same_round_and_have_everything) {
  for (const char* activation : {"full", "solo", "majority", "all_of(2)", "quorum(3)", "solo+every(4)"})
    for (const lsched_lag lag : {LSCHED_ACCUMULATE, LSCHED_HISTORY}) {
      const world_of_threads world(5);
      integers totals(5), rounds(5);
      std::int64_t offered = 0;
      for (int32_t r = 0; r < 5; ++r)
        for (int i = 0; i < 3 * (10 + (std::string(activation) == "full" ? 0 : r)); ++i) offered += r + 1;
      world.each([&](lsched_world* runtime, int32_t r) {
        lsched_partial_desc desc = describe_partial(2, activation, lag);
        desc.history = lag == LSCHED_HISTORY ? 7 : 0;
        trainee it{create(runtime, desc)};
        const bool is_full = std::string(activation) == "full";
        for (int epoch = 0; epoch < 3; ++epoch) {
          for (int i = 0; i < 10 + (is_full ? 0 : r); ++i) {
            const lsched_ticket ticket = it.offer(r + 1);
            if (is_full || (i % 3 == 0 && i < 9)) it.collect(ticket);
          }
          rounds[static_cast<std::size_t>(r)] = static_cast<std::int64_t>(it.flush());
        }
        totals[static_cast<std::size_t>(r)] = it.total;
        std::uint64_t pending = 99;
        EXPECT_EQ(lsched_withdraw(it.schedule, &pending), LSCHED_OK);
        EXPECT_EQ(pending, 0u);
        destroy(it.schedule);
      });
      EXPECT_EQ(totals, integers(5, offered)) << activation;
      EXPECT_EQ(rounds, integers(5, rounds[0])) << activation;
    }
}

TEST(c_partial, a_flush_waits_for_every_rank_and_goes_on_after_a_timeout) {
  const world_of_threads world(2);
  lsched_schedule* schedules[2]{};
  world.each([&](lsched_world* runtime, int32_t r) {
    schedules[r] = create(runtime, describe_partial(2, "solo", LSCHED_ACCUMULATE));
  });
  integers result(2);
  trainee first{schedules[0]};
  first.collect(first.offer(1));
  lsched_ticket ticket{};
  for (int again = 0; again < 3; ++again) {
    diagnostic why;
    EXPECT_EQ(lsched_flush(schedules[0], one_bucket(result.data()), k_short_ns, nullptr, &why), LSCHED_ERR_TIMEOUT);
    EXPECT_EQ(lsched_offer(schedules[0], one_bucket(result.data()), &ticket), LSCHED_ERR_STATE);
    EXPECT_EQ(lsched_withdraw(schedules[0], nullptr), LSCHED_ERR_STATE);
    EXPECT_EQ(lsched_model_sync(schedules[0], result.data(), k_short_ns, nullptr, &why), LSCHED_ERR_STATE);
  }
  trainee second{schedules[1]};
  second.offer(5);
  world.each([&](lsched_world*, int32_t r) { (r == 0 ? first : second).flush(); });
  EXPECT_EQ(first.total, 6);
  EXPECT_EQ(second.total, 6);
  EXPECT_EQ(first.last, second.last);
  world.each([&](lsched_world*, int32_t r) { destroy(schedules[r]); });
}

TEST(c_partial, those_who_stay_flush_without_those_who_left) {
  const world_of_threads world(3);
  world.each([&](lsched_world* runtime, int32_t r) {
    trainee it{create(runtime, describe_partial(2, "quorum(2)", LSCHED_ACCUMULATE))};
    it.offer(r + 1);
    it.flush();
    EXPECT_EQ(it.total, 6);
    if (r == 2) {
      EXPECT_EQ(lsched_leave(it.schedule), LSCHED_OK);
      EXPECT_EQ(lsched_flush(it.schedule, nullptr, k_short_ns, nullptr, nullptr), LSCHED_ERR_STATE);
    } else {
      for (int i = 0; i < 4; ++i) {
        it.offer(10);
        it.flush();
      }
      EXPECT_EQ(it.total, 6 + 8 * 10);
    }
    destroy(it.schedule);
  });
}

TEST(c_partial, model_sync_averages_the_weights_and_forgets_what_is_pending) {
  for (const char* activation : {"full", "solo", "quorum(2)", "majority+every(2)"}) {
    const world_of_threads world(3);
    std::vector<std::vector<double>> weights(3);
    world.each([&](lsched_world* runtime, int32_t r) {
      lsched_partial_desc desc = describe_partial(4, activation, LSCHED_ACCUMULATE);
      desc.dtype = LSCHED_F64;
      desc.averages_weights = 1;
      lsched_schedule* schedule = create(runtime, desc);
      const std::vector<double> gradient(4, 1000);
      std::vector<double>& mine = weights[static_cast<std::size_t>(r)];
      for (int epoch = 1; epoch <= 5; ++epoch) {
        lsched_ticket ticket{};
        for (int i = 0; i < 3 * r + 1; ++i)
          EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
        mine.assign(4, epoch * 3.0 * r);
        lsched_report report = empty_report();
        diagnostic why;
        EXPECT_EQ(lsched_model_sync(schedule, mine.data(), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(report.last.contributors, 3u);
        EXPECT_EQ(mine, std::vector<double>(4, epoch * 3.0)) << activation;
      }
      destroy(schedule);
    });
  }
}

/// If a rank calls more often than rounds end, the rank adds to its pending offer. A round captures (takes) the pending
/// offer. The captured offer has all values that were added before, even if the rank adds another value meanwhile.
TEST(c_partial, a_capture_finds_what_was_offered_before_while_more_is_added) {
  constexpr std::uint64_t k_long = 50'000;
  const world_of_threads world(2);
  world.each([&](lsched_world* runtime, int32_t r) {
    lsched_partial_desc desc = describe_partial(k_long, "solo+every(1)", LSCHED_HISTORY);
    desc.history = 30;
    lsched_schedule* schedule = create(runtime, desc);
    const integers gradient(k_long, 1);
    integers result(k_long);
    lsched_ticket ticket{};
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
      lsched_report report = empty_report();
      if (r == 1) {
        EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
      }
      EXPECT_EQ(report.staleness, 0u);
      if (i == 0 && r == 1) {
        EXPECT_EQ(report.last.contributors, 2u);
      }
    }
    for (lsched_report report = empty_report(); report.to < 30;) {
      EXPECT_EQ(lsched_collect({schedule, 30}, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(report.staleness, 0u);
      if (report.to == report.from) break;
    }
    destroy(schedule);
  });
}

/// Rank 2 calls later than the other ranks. Rank 2 leaves while its offer is pending and the other ranks average their
/// weights.
TEST(c_partial, weights_are_averaged_right_though_a_rank_leaves_in_the_middle) {
  for (const char* activation : {"solo", "quorum(2)"}) {
    const world_of_threads world(3);
    std::vector<lsched_schedule*> schedules(3);
    world.each([&](lsched_world* runtime, int32_t r) {
      lsched_partial_desc desc = describe_partial(2, activation, LSCHED_ACCUMULATE);
      desc.dtype = LSCHED_F64, desc.averages_weights = 1;
      schedules[static_cast<std::size_t>(r)] = create(runtime, desc);
    });
    const std::vector<double> gradient(2, 1000);
    std::vector<std::vector<double>> weights{{10, 10}, {20, 20}, {30, 30}};
    std::vector<double> sum(2);
    lsched_ticket ticket{};
    for (int i = 0; i < 3; ++i) EXPECT_EQ(lsched_offer(schedules[0], one_bucket(gradient.data()), &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_offer(schedules[2], one_bucket(gradient.data()), &ticket), LSCHED_OK);
    for (const std::size_t r : {1u, 2u})
      EXPECT_EQ(lsched_model_sync(schedules[r], weights[r].data(), 0, nullptr, nullptr), LSCHED_ERR_TIMEOUT);
    world.each([&](lsched_world*, int32_t r) {
      const auto place = static_cast<std::size_t>(r);
      if (r == 2) {
        EXPECT_EQ(lsched_leave(schedules[place]), LSCHED_OK);
      }
      lsched_report report = empty_report();
      diagnostic why;
      if (r != 2) {
        EXPECT_EQ(lsched_model_sync(schedules[place], weights[place].data(), k_limit_ns, &report, &why), LSCHED_OK)
            << why.text;
        EXPECT_EQ(report.last.contributors, 2u);
        EXPECT_EQ(weights[place], std::vector<double>(2, 15)) << activation;
      }
      destroy(schedules[place]);
    });
  }
}

/// A flush that times out loses no result, and does not write the output.
TEST(c_partial, what_a_flush_has_taken_can_be_collected) {
  const world_of_threads world(2);
  lsched_schedule* schedules[2]{};
  world.each([&](lsched_world* runtime, int32_t r) {
    schedules[r] = create(runtime, describe_partial(2, "solo", LSCHED_ACCUMULATE));
  });
  integers result(2, -1);
  trainee first{schedules[0]}, second{schedules[1]};
  first.offer(3);
  std::jthread other([&] { second.flush(); });
  lsched_status answer = LSCHED_ERR_TIMEOUT;
  while (answer == LSCHED_ERR_TIMEOUT) {
    answer = lsched_flush(schedules[0], one_bucket(result.data()), 1000, nullptr, nullptr);
    if (answer == LSCHED_ERR_TIMEOUT) {
      EXPECT_EQ(result, integers(2, -1));
    }
  }
  EXPECT_EQ(answer, LSCHED_OK);
  EXPECT_EQ(result, integers(2, 3));
  other.join();
  EXPECT_EQ(second.total, 3);
  world.each([&](lsched_world*, int32_t r) { destroy(schedules[r]); });
}

TEST(c_partial, weights_are_averaged_where_that_was_asked_for) {
  const world_of_threads world(1);
  integers weights(4);
  lsched_schedule* schedule = create(world.at(0), describe_partial(4, "solo"));
  diagnostic why;
  EXPECT_EQ(lsched_model_sync(schedule, weights.data(), k_limit_ns, nullptr, &why), LSCHED_ERR_UNSUPPORTED);
  EXPECT_SAYS(why, "created without averages_weights");
  destroy(schedule);
  EXPECT_EQ(lsched_flush(nullptr, nullptr, 0, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_model_sync(nullptr, nullptr, 0, nullptr, &why), LSCHED_ERR_ARGUMENT);
}

TEST(c_partial, a_history_hands_out_one_round_after_the_other) {
  const world_of_threads world(1);
  lsched_partial_desc desc = describe_partial(2, "solo", LSCHED_HISTORY);
  desc.history = 4;
  trainee it{create(world.at(0), desc)};
  lsched_ticket last{};
  const auto run_rounds = [&](std::int64_t values) {
    for (std::int64_t value = 1; value <= values; ++value) {
      last = it.offer(value);
      EXPECT_EQ(lsched_wait(last, k_limit_ns, nullptr), LSCHED_OK);
    }
  };
  run_rounds(4);
  for (std::int64_t value = 1; value <= 4; ++value) {
    EXPECT_TRUE(it.collect(last));
    EXPECT_EQ(it.result, integers(2, value));
  }
  EXPECT_FALSE(it.collect(last));
  run_rounds(6);
  const std::int64_t before = it.total;
  for (std::int64_t value = 1; value <= 3; ++value) EXPECT_TRUE(it.collect(last));
  EXPECT_TRUE(it.collect(last));
  EXPECT_EQ(it.result, integers(2, 4 + 5 + 6)) << "the last of four results, and the later results";
  EXPECT_EQ(it.total - before, 21);
  destroy(it.schedule);
}

TEST(c_partial, results_are_divided_and_what_a_round_was_is_told_in_the_same_bytes_everywhere) {
  const world_of_threads world(3);
  const std::pair<lsched_divisor, double> expected[] = {{LSCHED_DIVIDE_BY_NONE, 9},
                                                        {LSCHED_DIVIDE_BY_RANKS, 3},
                                                        {LSCHED_DIVIDE_BY_CONTRIBUTORS, 3},
                                                        {LSCHED_DIVIDE_BY_OFFERS, 3}};
  for (const auto& [by, value] : expected) {
    std::array<lsched_round_report, 3> told{};
    world.each([&, divisor = by, wanted = value](lsched_world* runtime, int32_t r) {
      lsched_partial_desc desc = describe_partial(2, "full");
      desc.dtype = LSCHED_F64;
      desc.divisor = divisor;
      lsched_schedule* const schedule = create(runtime, desc);
      const std::vector<double> mine(2, 2.0 + r);
      lsched_ticket ticket{};
      EXPECT_EQ(lsched_offer(schedule, one_bucket(mine.data()), &ticket), LSCHED_OK);
      std::vector<double> result(2, -1);
      lsched_report report{.struct_size = sizeof report};
      EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(result, std::vector<double>(2, wanted));
      told[static_cast<std::size_t>(r)] = report.last;
      destroy(schedule);
    });
    EXPECT_EQ(std::memcmp(&told[0], &told[1], sizeof told[0]), 0);
    EXPECT_EQ(std::memcmp(&told[0], &told[2], sizeof told[0]), 0);
    EXPECT_EQ(told[0].ranks, 3u);
    EXPECT_EQ(told[0].contributors, 3u);
  }
}

TEST(c_partial, one_rank_divides_what_it_has_offered) {
  const world_of_threads world(1);
  for (const lsched_divisor by :
       {LSCHED_DIVIDE_BY_NONE, LSCHED_DIVIDE_BY_RANKS, LSCHED_DIVIDE_BY_CONTRIBUTORS, LSCHED_DIVIDE_BY_OFFERS})
    for (const lsched_lag lag : {LSCHED_LATEST, LSCHED_ACCUMULATE}) {
      lsched_partial_desc desc = describe_partial(1, "solo", lag);
      desc.dtype = LSCHED_F64;
      desc.divisor = by;
      if (by == LSCHED_DIVIDE_BY_CONTRIBUTORS && lag != LSCHED_LATEST) {
        lsched_schedule* none = nullptr;
        diagnostic why;
        EXPECT_EQ(lsched_partial_create(world.at(0), &desc, &none, &why), LSCHED_ERR_ARGUMENT);
        EXPECT_SAYS(why, "divide by ranks or by offers");
        continue;
      }
      lsched_schedule* const schedule = create(world.at(0), desc);
      const double one = 1, three = 3;
      lsched_ticket ticket{};
      EXPECT_EQ(lsched_offer(schedule, one_bucket(&one), &ticket), LSCHED_OK);
      double result = -1;
      EXPECT_EQ(lsched_collect(ticket, one_bucket(&result), k_limit_ns, nullptr, nullptr), LSCHED_OK);
      EXPECT_EQ(result, 1);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(lsched_offer(schedule, one_bucket(&three), &ticket), LSCHED_OK);
        EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
      }
      lsched_report report{.struct_size = sizeof report};
      EXPECT_EQ(lsched_collect(ticket, one_bucket(&result), k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(result, lag == LSCHED_LATEST || by == LSCHED_DIVIDE_BY_OFFERS ? three : 2 * three);
      EXPECT_EQ(report.last.contributors, 1u);
      EXPECT_EQ(report.last.offers, 1u);
      EXPECT_EQ(report.offers, lag == LSCHED_LATEST ? 1u : 2u);

      EXPECT_EQ(lsched_offer(schedule, one_bucket(&three), &ticket), LSCHED_OK);
      EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
      EXPECT_EQ(lsched_flush(schedule, one_bucket(&result), k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(result, three);
      EXPECT_EQ(report.last.contributors, 0u)
          << "the round of the flush itself: the result is that of the previous round";
      destroy(schedule);
    }
}

TEST(c_partial, a_view_is_this_ranks_until_it_collects_something_newer) {
  const world_of_threads world(1);
  for (const lsched_lag lag : {LSCHED_LATEST, LSCHED_ACCUMULATE, LSCHED_HISTORY}) {
    lsched_partial_desc desc = describe_partial(2, "solo", lag);
    desc.history = lag == LSCHED_HISTORY ? 3 : 0;
    trainee it{create(world.at(0), desc)};
    lsched_report report{.struct_size = sizeof report};
    diagnostic why;
    EXPECT_EQ(lsched_collect({}, nullptr, 0, &report, &why), LSCHED_ERR_ARGUMENT);
    for (std::int64_t value = 1; value <= 20; ++value) {
      ASSERT_EQ(lsched_collect(it.offer(value), nullptr, k_limit_ns, &report, nullptr), LSCHED_OK);
      auto* const lies_at = static_cast<const std::int64_t*>(report.result);
      ASSERT_NE(lies_at, nullptr);
      EXPECT_EQ(lies_at[0], value);
      const lsched_ticket later = it.offer(100);
      EXPECT_EQ(lsched_wait(later, k_limit_ns, nullptr), LSCHED_OK);
      EXPECT_EQ(lies_at[0], value) << "a lent result was overwritten";
      EXPECT_EQ(lies_at[1], value);
      integers result(2);
      ASSERT_EQ(lsched_collect(later, one_bucket(result.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(result, integers(2, 100));
      EXPECT_EQ(report.result, nullptr) << "the result was copied";
      ASSERT_EQ(lsched_collect(later, nullptr, k_limit_ns, &report, nullptr), LSCHED_OK);
      EXPECT_EQ(report.result, nullptr) << "there is no new result";
      EXPECT_EQ(report.from, report.to);
    }
    destroy(it.schedule);
  }
}

/// The vector is offered in three buckets of 2, 0 and 3 elements, each in separate memory. The empty bucket has no
/// memory.
TEST(c_partial, buckets_in_memory_of_their_own_are_one_vector) {
  constexpr std::uint64_t counts[] = {2, 0, 3};
  for (const char* start : {"full", "solo", "quorum(2)"}) {
    const world_of_threads world(3);
    world.each([&](lsched_world* runtime, int32_t r) {
      lsched_partial_desc desc = describe_partial(5, start);
      desc.buckets = counts;
      desc.bucket_count = 3;
      lsched_schedule* const schedule = create(runtime, desc);
      const integers first{r + 1, 10}, last{100, 1000, r};
      const void* const given[] = {first.data(), nullptr, last.data()};
      lsched_ticket ticket{};
      ASSERT_EQ(lsched_offer(schedule, given, &ticket), LSCHED_OK);
      lsched_report report{.struct_size = sizeof report};
      integers whole(5, -1);
      void* const flushed[] = {whole.data(), nullptr, whole.data() + 2};
      ASSERT_EQ(lsched_flush(schedule, flushed, k_limit_ns, &report, nullptr), LSCHED_OK);
      if (std::string_view(start) == "full") {
        EXPECT_EQ(whole, (integers{1 + 2 + 3, 30, 300, 3000, 0 + 1 + 2}));
      }

      ASSERT_EQ(lsched_offer(schedule, given, &ticket), LSCHED_OK);
      integers front(2, -1), back(3, -1);
      void* const taken[] = {front.data(), nullptr, back.data()};
      report = {.struct_size = sizeof report};
      ASSERT_EQ(lsched_collect(ticket, taken, k_limit_ns, &report, nullptr), LSCHED_OK);
      if (report.has_result) {
        const auto all = static_cast<std::int64_t>(report.offers);
        EXPECT_EQ(front[1], 10 * all);
        EXPECT_EQ(back[0], 100 * all);
        EXPECT_EQ(back[1], 1000 * all);
      }
      destroy(schedule);
    });
  }
}

/// The schedule has more buckets than the error text of a commit can list.
TEST(c_partial, ranks_that_differ_in_one_of_many_buckets_or_in_the_seed_are_told) {
  const world_of_threads world(3);
  for (const bool is_seed : {false, true})
    world.each([&](lsched_world* runtime, int32_t r) {
      std::vector<std::uint64_t> counts(400, 1);
      if (!is_seed && r == 2) counts[398] = 0, counts[399] = 2;
      lsched_partial_desc desc = describe_partial(400, "majority");
      desc.seed = is_seed && r == 2 ? 1 : 0;
      desc.buckets = counts.data();
      desc.bucket_count = 400;
      lsched_schedule* none = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_partial_create(runtime, &desc, &none, &why), LSCHED_ERR_MISMATCH);
      EXPECT_SAYS(why, is_seed ? "seed 1" : "their difference is not part of these descriptions");
    });
}

TEST(c_partial, bad_buckets_are_refused_and_change_nothing) {
  const world_of_threads world(1);
  lsched_partial_desc desc = describe_partial(5, "solo");
  const std::uint64_t counts[] = {2, 3};
  const auto refused = [&](const char* words) {
    lsched_schedule* none = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_partial_create(world.at(0), &desc, &none, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_SAYS(why, words);
    EXPECT_EQ(none, nullptr);
  };
  desc.bucket_count = 2, refused("set both, or none");
  desc.bucket_count = 0, desc.buckets = counts, refused("set both, or none");
  desc.bucket_count = 1, refused("ends 3 elements before");
  desc.collective = "allgather", refused("partial_allgather has no buckets");
  desc.collective = "allgather", desc.buckets = nullptr, desc.bucket_count = 0;
  desc.lag = LSCHED_ACCUMULATE, desc.reduction = LSCHED_MAX, refused("only by addition");
  desc.lag = LSCHED_LATEST, desc.reduction = LSCHED_SUM;
  desc.collective = "bcast", desc.buckets = nullptr, desc.bucket_count = 0, refused("\"bcast\" has no partial form");
  desc.collective = nullptr, desc.buckets = counts, desc.bucket_count = 2;
  lsched_schedule* const schedule = create(world.at(0), desc);
  const integers value(5, 1);
  const void* const half[] = {value.data(), nullptr};
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer(schedule, half, &ticket), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_offer(nullptr, half, &ticket), LSCHED_ERR_ARGUMENT);
  const void* const given[] = {value.data(), value.data() + counts[0]};
  EXPECT_EQ(lsched_offer(schedule, given, &ticket), LSCHED_OK);
  diagnostic why;
  integers result(5);
  void* const missing[] = {result.data(), nullptr};
  EXPECT_EQ(lsched_collect(ticket, missing, k_limit_ns, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_SAYS(why, "the pointer to a bucket is null");
  void* const taken[] = {result.data(), result.data() + counts[0]};
  EXPECT_EQ(lsched_collect(ticket, taken, k_limit_ns, nullptr, nullptr), LSCHED_OK);
  EXPECT_EQ(result, value);
  destroy(schedule);
}

TEST(c_partial, an_allgather_and_a_reduce_scatter_start_by_policy_too) {
  const world_of_threads world(3);
  world.each([&](lsched_world* runtime, int32_t r) {
    lsched_partial_desc desc = describe_partial(2, "full");
    desc.collective = "allgather";
    lsched_schedule* const gather = create(runtime, desc);
    const integers mine{r, 7};
    lsched_ticket ticket{};
    ASSERT_EQ(lsched_offer(gather, one_bucket(mine.data()), &ticket), LSCHED_OK);
    integers all(6, -1);
    lsched_report report{.struct_size = sizeof report};
    ASSERT_EQ(lsched_collect(ticket, one_bucket(all.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
    EXPECT_EQ(all, (integers{0, 7, 1, 7, 2, 7}));
    EXPECT_EQ(report.last.contributors, 3u);

    desc.collective = "reduce_scatter_block";
    lsched_schedule* const scatter = create(runtime, desc);
    const integers blocks{1, r, 2, r, 3, r};
    ASSERT_EQ(lsched_offer(scatter, one_bucket(blocks.data()), &ticket), LSCHED_OK);
    integers part(2, -1);
    ASSERT_EQ(lsched_flush(scatter, one_bucket(part.data()), k_limit_ns, &report, nullptr), LSCHED_OK);
    EXPECT_EQ(part, (integers{3 * (r + 1), 3}));
    EXPECT_EQ(report.offers, 3u);
    destroy(gather);
    destroy(scatter);
  });
}

// Rounds of a schedule with activation "full" wait for all ranks. Rank 1 never calls, so the first round stays open and
// rank 0's later offers are pending.
TEST(c_partial, a_pending_offer_may_be_withdrawn) {
  const world_of_threads world(2);
  lsched_schedule* schedules[2]{};
  world.each([&](lsched_world* runtime, int32_t r) { schedules[r] = create(runtime, describe_partial(2, "full")); });
  const integers gradient(2, 4);
  lsched_ticket first{}, ticket{};
  EXPECT_EQ(lsched_offer(schedules[0], one_bucket(gradient.data()), &first),
            LSCHED_OK);  // the first round takes this offer at once
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lsched_offer(schedules[0], one_bucket(gradient.data()), &ticket), LSCHED_OK);
  diagnostic why;
  EXPECT_EQ(lsched_collect(first, nullptr, k_short_ns, nullptr, &why), LSCHED_ERR_TIMEOUT);
  EXPECT_EQ(why.rank, 1);
  std::uint64_t offers = 0;
  EXPECT_EQ(lsched_withdraw(schedules[0], &offers), LSCHED_OK);
  EXPECT_EQ(offers, 3u);
  EXPECT_EQ(lsched_withdraw(schedules[0], &offers), LSCHED_OK);
  EXPECT_EQ(offers, 0u);
  world.each([&](lsched_world*, int32_t r) { destroy(schedules[r]); });
}

TEST(c_partial, destroying_times_out_until_everybody_has_left_and_then_succeeds) {
  const world_of_threads world(2);
  lsched_schedule* schedules[2]{};
  world.each([&](lsched_world* runtime, int32_t r) { schedules[r] = create(runtime, describe_partial(2, "solo")); });
  for (int i = 0; i < 2; ++i) {
    diagnostic why;
    EXPECT_EQ(lsched_schedule_destroy(schedules[0], k_short_ns, &why), LSCHED_ERR_TIMEOUT);
    EXPECT_SAYS(why, "partial_allreduce");
  }
  const integers gradient(2, 4);
  integers result(2);
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer(schedules[1], one_bucket(gradient.data()), &ticket),
            LSCHED_OK);  // rank 0 still takes part in rounds after its destroy has timed out
  EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, nullptr, nullptr), LSCHED_OK);
  world.each([&](lsched_world*, int32_t r) { destroy(schedules[r]); });
}

TEST(c_partial, callers_drive_a_solo_schedule_if_they_ask_for_it) {
  lsched_config config = test_config();
  config.progress = LSCHED_PROGRESS_CALLER;
  const world_of_threads world(2, config);
  world.each([](lsched_world* runtime, int32_t) {
    lsched_schedule* schedule = create(runtime, describe_partial(2, "solo"));
    const integers gradient(2, 4);
    lsched_ticket ticket{};
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
      EXPECT_EQ(lsched_collect(ticket, nullptr, k_limit_ns, nullptr, nullptr), LSCHED_OK);
    }
    destroy(schedule);
  });
}

// --- statistics ----------------------------------------------------------------------------------------------

lsched_partial_stats stats_of(const lsched_schedule* schedule) {
  lsched_partial_stats stats{};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(lsched_schedule_stats(schedule, &stats), LSCHED_OK);
  return stats;
}

std::uint64_t values_in(const lsched_histogram& it) {
  return std::accumulate(std::begin(it.bins), std::end(it.bins), std::uint64_t{0});
}

TEST(c_partial_stats, wrong_arguments_and_ordinary_schedules_are_refused) {
  const world_of_threads world(1);
  integers input(4, 1), output(4);
  lsched_schedule* ordinary = create(world.at(0), describe(input, output));
  lsched_schedule* partial = create(world.at(0), describe_partial(4, "solo"));
  lsched_partial_stats stats{};
  EXPECT_EQ(lsched_schedule_stats(partial, &stats), LSCHED_ERR_ARGUMENT) << "struct_size is not set";
  stats.struct_size = sizeof stats;
  EXPECT_EQ(lsched_schedule_stats(nullptr, &stats), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_stats(partial, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_stats(ordinary, &stats), LSCHED_ERR_STATE);
  EXPECT_EQ(lsched_schedule_stats(partial, &stats), LSCHED_OK);
  char text[8] = "nothing";
  EXPECT_EQ(lsched_schedule_print(nullptr, LSCHED_PRINT_STATS, text, sizeof text, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_print(partial, LSCHED_PRINT_STATS, nullptr, 8, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_print(ordinary, LSCHED_PRINT_STATS, text, sizeof text, nullptr), LSCHED_ERR_STATE);
  EXPECT_STREQ(text, "nothing");
  EXPECT_EQ(lsched_schedule_print(partial, LSCHED_PRINT_STATS, text, sizeof text, nullptr), LSCHED_OK);
  EXPECT_STREQ(text, "{\"sched") << "truncated and terminated";
  destroy(ordinary);
  destroy(partial);
}

/// A partial schedule of two ranks. Rank 0 starts three rounds alone. Then rank 1 calls for the same three rounds and
/// for a fourth round.
struct one_rank_behind {
  explicit one_rank_behind(std::uint64_t count) : gradient(count, 1) {
    world.each(
        [&](lsched_world* runtime, int32_t r) { schedules[r] = create(runtime, describe_partial(count, "solo")); });
    lsched_ticket ticket{};
    for (int round = 1; round <= 3; ++round) arrive(0);
    EXPECT_EQ(lsched_wait({schedules[1], 3}, k_limit_ns, nullptr), LSCHED_OK);
    before = stats_of(schedules[1]);
    for (int call = 1; call <= 3; ++call)
      EXPECT_EQ(lsched_offer(schedules[1], one_bucket(gradient.data()), &ticket), LSCHED_OK);
    between = stats_of(schedules[1]);
    arrive(1);
    EXPECT_EQ(lsched_wait({schedules[0], 4}, k_limit_ns, nullptr), LSCHED_OK);
  }
  ~one_rank_behind() {
    world.each([&](lsched_world*, int32_t r) { destroy(schedules[r]); });
  }
  void arrive(int r) {
    lsched_ticket ticket{};
    EXPECT_EQ(lsched_offer(schedules[r], one_bucket(gradient.data()), &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_collect(ticket, nullptr, k_limit_ns, nullptr, nullptr), LSCHED_OK);
  }
  world_of_threads world{2};
  integers gradient;
  lsched_schedule* schedules[2]{};
  lsched_partial_stats before{}, between{};
};

TEST(c_partial_stats, who_came_late_is_told_from_who_was_in_time) {
  for (const std::uint64_t count : {0u, 2u}) {
    const one_rank_behind it(count);
    EXPECT_EQ(it.before.rounds, 3u);
    EXPECT_EQ(it.before.uncalled, 3u);
    EXPECT_EQ(it.between.late, 3u);
    EXPECT_EQ(it.between.uncalled, 0u);
    const lsched_partial_stats first = stats_of(it.schedules[0]), second = stats_of(it.schedules[1]);
    EXPECT_EQ(first.rounds, 4u);
    EXPECT_EQ(first.in_time, 3u);
    EXPECT_EQ(first.late, 0u);
    EXPECT_EQ(first.uncalled, 1u);
    EXPECT_EQ(second.rounds, 4u);
    EXPECT_EQ(second.in_time, 1u);
    EXPECT_EQ(second.late, 3u);
    EXPECT_EQ(second.uncalled, 0u);
    for (const lsched_partial_stats& stats : {first, second}) {
      EXPECT_EQ(stats.contributors[1], 4u);
      EXPECT_EQ(stats.contributors_sum, 4u);
      EXPECT_EQ(stats.contributors_min, 1u);
      EXPECT_EQ(stats.contributors_max, 1u);
      EXPECT_EQ(values_in(stats.early_ns), stats.in_time);
      EXPECT_EQ(values_in(stats.late_ns), stats.late);
      EXPECT_EQ(values_in(stats.completion_ns), 4u);
    }
    EXPECT_EQ(first.staleness.bins[0], 3u);
    EXPECT_EQ(second.staleness.bins[2], 1u) << "called for round 1, sent in round 4";
    EXPECT_EQ(second.staleness.max, 3u);
  }
}

TEST(c_partial_stats, messages_are_those_of_the_runtime_and_null_saves_their_bytes) {
  const one_rank_behind it(2);
  for (const int r : {0, 1}) {
    const lsched_partial_stats seen = stats_of(it.schedules[r]);
    lsched_stats counted{};
    counted.struct_size = sizeof counted;
    ASSERT_EQ(lsched_get_stats(it.world.at(r), &counted), LSCHED_OK);
    EXPECT_EQ(seen.messages_sent, counted.messages_sent);
    EXPECT_EQ(seen.nulls_sent, counted.nulls_sent);
    EXPECT_EQ(seen.bytes_sent, counted.bytes_sent);
    EXPECT_EQ(seen.bytes_sent + seen.bytes_saved, seen.messages_sent * 2 * sizeof(std::int64_t));
    EXPECT_GT(seen.bytes_saved, 0u);
  }
}

TEST(c_partial_stats, a_flush_calls_for_all_rounds_up_to_it) {
  const one_rank_behind it(2);
  it.world.each([&](lsched_world*, int32_t r) {
    diagnostic why;
    EXPECT_EQ(lsched_flush(it.schedules[r], nullptr, k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
  });
  for (const int r : {0, 1}) {
    const lsched_partial_stats seen = stats_of(it.schedules[r]);
    EXPECT_EQ(seen.rounds, 5u);
    EXPECT_EQ(seen.uncalled, 0u);
  }
}

TEST(c_partial_stats, as_json_they_are_the_same) {
  const one_rank_behind it(2);
  for (const int r : {0, 1}) {
    const lsched_partial_stats seen = stats_of(it.schedules[r]);
    std::size_t needed = 0;
    ASSERT_EQ(lsched_schedule_print(it.schedules[r], LSCHED_PRINT_STATS, nullptr, 0, &needed), LSCHED_OK);
    std::string text(needed, '\0');
    ASSERT_EQ(lsched_schedule_print(it.schedules[r], LSCHED_PRINT_STATS, text.data(), text.size(), &needed), LSCHED_OK);
    ASSERT_EQ(needed, text.size()) << "the statistics must not change meanwhile";
    const nlohmann::json told = nlohmann::json::parse(text.c_str());
    EXPECT_EQ(told["schedule"].get<std::string>().rfind("partial_allreduce", 0), 0u) << told;
    EXPECT_EQ(told["rank"], r);
    EXPECT_EQ(told["ranks"], 2);
    const std::vector<std::pair<const char*, std::uint64_t>> numbers{{"rounds", seen.rounds},
                                                                     {"contributors_sum", seen.contributors_sum},
                                                                     {"contributors_min", seen.contributors_min},
                                                                     {"contributors_max", seen.contributors_max},
                                                                     {"in_time", seen.in_time},
                                                                     {"late", seen.late},
                                                                     {"uncalled", seen.uncalled},
                                                                     {"messages_sent", seen.messages_sent},
                                                                     {"nulls_sent", seen.nulls_sent},
                                                                     {"bytes_sent", seen.bytes_sent},
                                                                     {"bytes_saved", seen.bytes_saved}};
    for (const auto& [name, number] : numbers) EXPECT_EQ(told[name], number) << name;
    EXPECT_EQ(told["contributors"], (std::vector<std::uint64_t>{0, 4}));
    const std::vector<std::pair<const char*, const lsched_histogram*>> histograms{
        {"staleness", &seen.staleness},
        {"early_ns", &seen.early_ns},
        {"late_ns", &seen.late_ns},
        {"completion_ns", &seen.completion_ns}};
    for (const auto& [name, histogram] : histograms) {
      EXPECT_EQ(told[name]["sum"], histogram->sum) << name;
      EXPECT_EQ(told[name]["max"], histogram->max) << name;
      auto bins = told[name]["bins"].get<std::vector<std::uint64_t>>();
      EXPECT_TRUE(bins.empty() || bins.back() != 0) << name;
      bins.resize(LSCHED_HISTOGRAM_BINS);
      EXPECT_TRUE(std::ranges::equal(bins, histogram->bins)) << name;
    }
    EXPECT_EQ(told.size(), 3 + 1 + numbers.size() + histograms.size());
  }
}

TEST(c_partial_stats, add_up_while_rounds_go_on) {
  const world_of_threads world(3);
  world.each([](lsched_world* runtime, int32_t r) {
    lsched_schedule* schedule = create(runtime, describe_partial(2, "quorum(2)"));
    std::atomic<bool> is_over{false};
    std::jthread onlooker([&] {
      do {
        const lsched_partial_stats seen = stats_of(schedule);
        EXPECT_EQ(seen.in_time + seen.late + seen.uncalled, seen.rounds);
        EXPECT_EQ(values_in(seen.completion_ns), seen.rounds);
        EXPECT_LE(values_in(seen.early_ns), seen.in_time);
        EXPECT_LE(values_in(seen.late_ns), seen.late);
      } while (!is_over.load());
    });
    const integers gradient(2, 4);
    lsched_ticket ticket{};
    for (int i = 0; i < 300; ++i) {
      EXPECT_EQ(lsched_offer(schedule, one_bucket(gradient.data()), &ticket), LSCHED_OK);
      if (i % (r + 1) == 0) {
        EXPECT_EQ(lsched_collect(ticket, nullptr, k_limit_ns, nullptr, nullptr), LSCHED_OK);
      }
    }
    is_over.store(true);
    onlooker.join();
    destroy(schedule);
  });
}

// --- schedules by hand ---------------------------------------------------------------------------------------

/// A builder for a hand-written schedule with one input and one output of four integers.
struct hand {
  explicit hand(lsched_world* world) : runtime(world) {
    EXPECT_EQ(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime), "by_hand", &b), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_INPUT, LSCHED_I64, 4, &in), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_I64, 4, &out), LSCHED_OK);
  }
  lsched_status commit(lsched_schedule** schedule, lsched_diagnostic* why) {
    const void* inputs[] = {input.data()};
    void* outputs[] = {output.data()};
    return lsched_builder_commit(b, runtime, inputs, outputs, schedule, why);
  }
  lsched_world* runtime;
  lsched_builder* b = nullptr;
  lsched_slot in{}, out{};
  integers input = integers(4, 5), output = integers(4);
};

void expect_refused_commit(lsched_status code, const char* word, const std::function<void(hand&)>& write) {
  const world_of_threads world(1);
  hand h(world.at(0));
  write(h);
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(h.commit(&schedule, &why), code) << why.text;
  EXPECT_SAYS(why, word);
  EXPECT_LT(why.rank, 1) << "there is no such rank";
  EXPECT_EQ(schedule, nullptr);
  expect_works(world.at(0));
}

TEST(c_builder, null_arguments_are_errors) {
  const world_of_threads world(1);
  lsched_builder* b = nullptr;
  lsched_slot slot{};
  lsched_schedule* schedule = nullptr;
  EXPECT_EQ(lsched_builder_create(-1, 0, nullptr, &b), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_builder_create(0, 1, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_slot(nullptr, LSCHED_INPUT, LSCHED_I64, 4, &slot), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_slot(nullptr, LSCHED_OUTPUT, LSCHED_I64, 4, &slot), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_slot(nullptr, LSCHED_SCRATCH, LSCHED_I64, 4, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_nop(nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_send(nullptr, 0, 0, {}, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_recv(nullptr, 0, 0, {}, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_reduce(nullptr, LSCHED_SUM, nullptr, {}, {}, {}, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_copy(nullptr, {}, {}, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_dep(nullptr, {}, {}), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_set_need(nullptr, {}, 1), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_builder_commit(nullptr, world.at(0), nullptr, nullptr, &schedule, nullptr), LSCHED_ERR_ARGUMENT);
  lsched_builder_destroy(nullptr);
  ASSERT_EQ(lsched_builder_create(0, 1, nullptr, &b), LSCHED_OK);
  lsched_builder_destroy(b);
}

TEST(c_builder, the_first_error_is_kept_until_commit) {
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "dtype", [](hand& h) {
    lsched_slot slot{};
    EXPECT_EQ(lsched_add_slot(h.b, LSCHED_SCRATCH, any_value<lsched_dtype>(50), 4, &slot), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_add_nop(h.b, nullptr), LSCHED_ERR_ARGUMENT);
  });
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "2^48", [](hand& h) {
    lsched_slot slot{};
    EXPECT_EQ(lsched_add_slot(h.b, LSCHED_SCRATCH, LSCHED_U8, std::uint64_t{1} << 48, &slot), LSCHED_ERR_ARGUMENT);
  });
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "a slot's dtype is not set", [](hand& h) {
    lsched_slot slot{};
    EXPECT_EQ(lsched_add_slot(h.b, LSCHED_SCRATCH, LSCHED_DTYPE_NONE, 4, &slot), LSCHED_ERR_ARGUMENT);
  });
  for (const std::uint32_t unknown : {2u, 7u, 65535u, 70000u}) {
    const std::string text = "slot " + std::to_string(unknown) + " of a ";
    const auto expect_unknown = [&](const char* op, const std::function<lsched_status(hand&, lsched_slot)>& add) {
      expect_refused_commit(LSCHED_ERR_ARGUMENT, (text + op + " does not exist: this builder has 2").c_str(),
                            [&](hand& h) { EXPECT_EQ(add(h, {unknown}), LSCHED_ERR_ARGUMENT); });
    };
    expect_unknown("copy", [](hand& h, lsched_slot no) {
      return lsched_add_copy(h.b, {no, 0, 4}, {h.out, 0, 4}, nullptr);
    });
    expect_unknown("reduce", [](hand& h, lsched_slot no) {
      return lsched_add_reduce(h.b, LSCHED_SUM, nullptr, {h.in, 0, 4}, {h.in, 0, 4}, {no, 0, 4}, nullptr);
    });
    expect_unknown("send", [](hand& h, lsched_slot no) { return lsched_add_send(h.b, 1, 0, {no, 0, 4}, nullptr); });
    expect_unknown("receive", [](hand& h, lsched_slot no) { return lsched_add_recv(h.b, 1, 0, {no, 0, 4}, nullptr); });
  }
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "counts", [](hand& h) {
    EXPECT_EQ(lsched_add_copy(h.b, {h.in, 0, 3}, {h.out, 0, 4}, nullptr), LSCHED_ERR_ARGUMENT);
  });
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "reduction", [](hand& h) {
    EXPECT_EQ(lsched_add_reduce(h.b, any_value<lsched_reduction>(0), nullptr, {h.in, 0, 4}, {h.in, 0, 4}, {h.out, 0, 4},
                                nullptr),
              LSCHED_ERR_ARGUMENT);
  });
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "dep",
                        [](hand& h) { EXPECT_EQ(lsched_add_dep(h.b, {7}, {8}), LSCHED_ERR_ARGUMENT); });
}

TEST(c_builder, what_needs_the_whole_schedule_is_judged_at_commit) {
  expect_refused_commit(LSCHED_ERR_CYCLE, "waits for itself", [](hand& h) {
    lsched_op x{}, y{};
    lsched_add_nop(h.b, &x);
    lsched_add_nop(h.b, &y);
    lsched_add_dep(h.b, x, y);
    lsched_add_dep(h.b, y, x);
  });
  expect_refused_commit(LSCHED_ERR_BOUNDS, "exceeds its buffer", [](hand& h) {
    lsched_add_copy(h.b, {h.in, 1, 4}, {h.out, 0, 4}, nullptr);
  });
  for (const int32_t peer : {1, -1, 0})  // peers outside of the world, and the rank itself
    expect_refused_commit(LSCHED_ERR_ARGUMENT, "peer", [&](hand& h) {
      lsched_add_send(h.b, peer, 0, {h.in, 0, 4}, nullptr);
    });
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "input", [](hand& h) {
    lsched_add_copy(h.b, {h.out, 0, 4}, {h.in, 0, 4}, nullptr);
  });
  expect_refused_commit(LSCHED_ERR_ARGUMENT, "need", [](hand& h) {
    lsched_op x{};
    lsched_add_nop(h.b, &x);
    lsched_set_need(h.b, x, 3);
  });
}

TEST(c_builder, slots_need_memory) {
  const world_of_threads world(1);
  hand h(world.at(0));
  lsched_add_copy(h.b, {h.in, 0, 4}, {h.out, 0, 4}, nullptr);
  const void* inputs[] = {h.input.data()};
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_builder_commit(h.b, h.runtime, inputs, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_SAYS(why, "memory");
}

TEST(c_builder, outputs_overlap_with_nothing_but_in_place) {
  const world_of_threads world(1);
  integers all(12);
  const auto commit = [&](std::size_t input, std::size_t output, lsched_schedule** schedule, diagnostic& why) {
    const hand h(world.at(0));
    lsched_add_copy(h.b, {h.in, 0, 4}, {h.out, 0, 4}, nullptr);
    const void* inputs[] = {&all[input]};
    void* outputs[] = {&all[output]};
    return lsched_builder_commit(h.b, h.runtime, inputs, outputs, schedule, &why);
  };
  const auto rebind = [&](lsched_schedule* schedule, std::size_t input, std::size_t output) {
    const void* inputs[] = {&all[input]};
    void* outputs[] = {&all[output]};
    return lsched_rebind(schedule, inputs, outputs);
  };
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(commit(3, 0, &schedule, why), LSCHED_ERR_ARGUMENT);
  EXPECT_SAYS(why, "input 0 and output 0 overlap, but are not in place");
  EXPECT_EQ(schedule, nullptr);
  ASSERT_EQ(commit(4, 0, &schedule, why), LSCHED_OK) << why.text;
  EXPECT_EQ(rebind(schedule, 5, 8), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(rebind(schedule, 8, 8), LSCHED_ERR_ARGUMENT) << "bound apart, and in place now";
  EXPECT_EQ(rebind(schedule, 8, 4), LSCHED_OK);
  destroy(schedule);
  ASSERT_EQ(commit(0, 0, &schedule, why), LSCHED_OK) << why.text;
  EXPECT_EQ(rebind(schedule, 8, 4), LSCHED_ERR_ARGUMENT) << "bound in place, and apart now";
  EXPECT_EQ(rebind(schedule, 4, 4), LSCHED_OK);
  destroy(schedule);
}

TEST(c_builder, a_tag_is_used_once_per_peer_and_direction) {
  expect_disagreement(LSCHED_ERR_ARGUMENT, {"tag"},
                      [](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                        hand h(runtime);
                        for (int twice = 0; r == 0 && twice < 2; ++twice)
                          lsched_add_send(h.b, 1, 3, {h.in, 0, 4}, nullptr);
                        return h.commit(schedule, why);
                      });
}

TEST(c_builder, a_send_without_a_receive_is_unmatched_on_every_rank) {
  expect_disagreement(LSCHED_ERR_UNMATCHED, {"rank 0", "rank 1", "32 bytes of i64 with tag"},
                      [](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                        hand h(runtime);
                        if (r == 0) lsched_add_send(h.b, 1, 0, {h.in, 0, 4}, nullptr);
                        if (r == 1) lsched_add_recv(h.b, 0, 1, {h.out, 0, 4}, nullptr);
                        return h.commit(schedule, why);
                      });
}

/// Builds by hand a schedule that combines the contributions of all ranks, and commits the schedule.
lsched_status commit_combination(lsched_world* runtime, lsched_dtype dtype, lsched_reduction by,
                                 lsched_schedule** schedule, lsched_diagnostic* why) {
  lsched_builder* b = nullptr;
  lsched_slot own{}, all{};
  EXPECT_EQ(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime), "by_hand", &b), LSCHED_OK);
  EXPECT_EQ(lsched_add_slot(b, LSCHED_SCRATCH, dtype, 4, &own), LSCHED_OK);
  EXPECT_EQ(lsched_add_slot(b, LSCHED_SCRATCH, dtype, 4, &all), LSCHED_OK);
  lsched_op last{};
  EXPECT_EQ(lsched_add_copy(b, {own, 0, 4}, {all, 0, 4}, &last), LSCHED_OK);
  for (int32_t r = 0; r < lsched_size(runtime); ++r) {
    if (r == lsched_rank(runtime)) continue;
    lsched_slot theirs{};
    lsched_op got{}, sum{};
    EXPECT_EQ(lsched_add_slot(b, LSCHED_SCRATCH, dtype, 4, &theirs), LSCHED_OK);
    EXPECT_EQ(lsched_add_send(b, r, 0, {own, 0, 4}, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_add_recv(b, r, 0, {theirs, 0, 4}, &got), LSCHED_OK);
    EXPECT_EQ(lsched_add_reduce(b, by, nullptr, {all, 0, 4}, {theirs, 0, 4}, {all, 0, 4}, &sum), LSCHED_OK);
    EXPECT_EQ(lsched_add_dep(b, got, sum), LSCHED_OK);
    EXPECT_EQ(lsched_add_dep(b, last, sum), LSCHED_OK);
    last = sum;
  }
  return lsched_builder_commit(b, runtime, nullptr, nullptr, schedule, why);
}

TEST(c_builder, dtypes_and_reductions_must_agree) {
  for (int32_t odd = 0; odd < 3; ++odd) {
    expect_disagreement(LSCHED_ERR_UNMATCHED, {"f32", "i32"},
                        [&](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                          return commit_combination(runtime, r == odd ? LSCHED_I32 : LSCHED_F32,
                                                    r == odd ? LSCHED_MAX : LSCHED_SUM, schedule, why);
                        });
    expect_disagreement(LSCHED_ERR_MISMATCH, {"f32 by sum", "rank " + std::to_string(odd) + " reduces f32 by max"},
                        [&](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                          return commit_combination(runtime, LSCHED_F32, r == odd ? LSCHED_MAX : LSCHED_SUM, schedule,
                                                    why);
                        });
  }
}

TEST(c_builder, names_must_agree) {
  expect_disagreement(LSCHED_ERR_MISMATCH, {"by_hand", "custom"},
                      [](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                        if (r != 2) return hand(runtime).commit(schedule, why);
                        lsched_builder* b = nullptr;
                        EXPECT_EQ(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime), nullptr, &b),
                                  LSCHED_OK);
                        return lsched_builder_commit(b, runtime, nullptr, nullptr, schedule, why);
                      });
}

TEST(c_builder, ranks_must_be_those_of_the_world) {
  expect_disagreement(LSCHED_ERR_ARGUMENT,
                      {"the builder is for rank 1 of 4, but in the world the caller is rank 1 of 3"},
                      [](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                        lsched_builder* b = nullptr;
                        EXPECT_EQ(lsched_builder_create(r, r == 1 ? 4 : 3, nullptr, &b), LSCHED_OK);
                        return lsched_builder_commit(b, runtime, nullptr, nullptr, schedule, why);
                      });
}

// Ranks 1 and 2 send to rank 0. Rank 0 continues after the first message that arrives.
TEST(c_builder, an_op_may_wait_for_any_of_its_deps) {
  const world_of_threads world(3);
  std::vector<std::unique_ptr<hand>> hands(3);
  lsched_schedule* schedules[3]{};
  world.each([&](lsched_world* runtime, int32_t r) {
    hands[static_cast<std::size_t>(r)] = std::make_unique<hand>(runtime);
    hand& h = *hands[static_cast<std::size_t>(r)];
    if (r == 0) {
      lsched_op got[2]{}, first{}, answer{};
      for (int32_t peer = 1; peer < 3; ++peer)
        EXPECT_EQ(lsched_add_recv(h.b, peer, 0, {h.out, static_cast<std::uint64_t>(peer) - 1, 1}, &got[peer - 1]),
                  LSCHED_OK);
      EXPECT_EQ(lsched_add_nop(h.b, &first), LSCHED_OK);
      for (const lsched_op op : got) EXPECT_EQ(lsched_add_dep(h.b, op, first), LSCHED_OK);
      EXPECT_EQ(lsched_set_need(h.b, first, 1), LSCHED_OK);
      EXPECT_EQ(lsched_add_send(h.b, 1, 1, {h.in, 0, 1}, &answer), LSCHED_OK);
      EXPECT_EQ(lsched_add_dep(h.b, first, answer), LSCHED_OK);
    } else {
      EXPECT_EQ(lsched_add_send(h.b, 0, 0, {h.in, 0, 1}, nullptr), LSCHED_OK);
      if (r == 1) {
        EXPECT_EQ(lsched_add_recv(h.b, 0, 1, {h.out, 0, 1}, nullptr), LSCHED_OK);
      }
    }
    diagnostic why;
    EXPECT_EQ(h.commit(&schedules[r], &why), LSCHED_OK) << why.text;
  });
  for (int round = 0; round < 3; ++round) {
    lsched_ticket zero{};
    EXPECT_EQ(lsched_start(schedules[0], &zero), LSCHED_OK);
    EXPECT_EQ(lsched_run(schedules[1], k_limit_ns, nullptr), LSCHED_OK);  // this run ends before rank 2 starts its
                                                                          // round
    EXPECT_EQ(lsched_test(zero), LSCHED_PENDING);
    EXPECT_EQ(lsched_run(schedules[2], k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_wait(zero, k_limit_ns, nullptr), LSCHED_OK);
  }
  EXPECT_EQ(hands[0]->output, (integers{5, 5, 0, 0}));
  for (lsched_schedule* one : schedules) destroy(one);
}

// --- schedules from text -------------------------------------------------------------------------------------

/// Every rank sends its four integers to the next rank.
std::string shift_text(int32_t rank, int32_t ranks, const std::string& name = "shift") {
  const std::string right = std::to_string((rank + 1) % ranks);
  const std::string left = std::to_string((rank + ranks - 1) % ranks);
  return "libsched schedule 2\nname \"" + name + "\"\nrank " + std::to_string(rank) + " of " + std::to_string(ranks) +
         "\nflags\nactivation none seed 0\nbuffer 0 input host i64 4\nbuffer 1 output host i64 4\n"
         "op 0 send i64 b0[0 +4] to " +
         right + " tag 0 then 2\nop 1 recv i64 b1[0 +4] from " + left + " tag 0 then 2\nop 2 nop\nexit 2\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

/// The text of a rank's schedule, and memory for one input and one output of four integers.
struct loading {
  explicit loading(std::string of) : text(std::move(of)) {}
  lsched_status load(lsched_world* runtime, lsched_schedule** schedule, lsched_diagnostic* why) {
    const void* inputs[] = {input.data()};
    void* outputs[] = {output.data()};
    return lsched_schedule_load(runtime, text.data(), text.size(), inputs, outputs, schedule, why);
  }
  std::string text;
  integers input = integers(4), output = integers(4);
};

std::string printed(lsched_schedule* schedule) {
  std::size_t needed = 0;
  EXPECT_EQ(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, nullptr, 0, &needed), LSCHED_OK);
  std::string text(needed, '\0');
  EXPECT_EQ(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, text.data(), text.size(), nullptr), LSCHED_OK);
  text.resize(needed - 1);
  return text;
}

TEST(c_load, each_rank_takes_its_own_text_or_its_part_of_a_worlds) {
  for (const int32_t ranks : {2, 3, 5}) {
    const world_of_threads world(ranks);
    std::string all;
    for (int32_t r = 0; r < ranks; ++r) all += shift_text(r, ranks);
    world.each([&](lsched_world* runtime, int32_t r) {
      loading mine(r == 1 ? shift_text(r, ranks) : all);
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      ASSERT_EQ(mine.load(runtime, &schedule, &why), LSCHED_OK) << why.text;
      for (int64_t round = 1; round <= 3; ++round) {
        mine.input.assign(4, 100 * round + r);
        EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
        EXPECT_EQ(mine.output, integers(4, 100 * round + (r + ranks - 1) % ranks));
      }
      destroy(schedule);
    });
  }
}

TEST(c_load, what_is_printed_can_be_loaded_and_computes_the_same) {
  const world_of_threads world(3);
  world.each([](lsched_world* runtime, int32_t r) {
    integers input(4, r + 1), output(4);
    lsched_schedule* sum = create(runtime, describe(input, output));
    loading copy(printed(sum));
    copy.input = input;
    lsched_schedule* again = nullptr;
    diagnostic why;
    ASSERT_EQ(copy.load(runtime, &again, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(printed(again), copy.text);
    EXPECT_EQ(lsched_run(again, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(copy.output, integers(4, 6));
    destroy(again);
    destroy(sum);
  });
}

TEST(c_load, null_arguments_are_errors) {
  const world_of_threads world(1);
  loading one(shift_text(0, 1));
  lsched_schedule* schedule = nullptr;
  EXPECT_EQ(one.load(nullptr, &schedule, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(one.load(world.at(0), nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_load(world.at(0), nullptr, 5, nullptr, nullptr, &schedule, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(schedule, nullptr);
  expect_works(world.at(0));
}

TEST(c_load, buffers_need_memory) {
  const world_of_threads world(1);
  const std::string text =
      "libsched schedule 2\nname \"\"\nrank 0 of 1\nflags\nactivation none seed 0\n"
      "buffer 0 input host u8 1\nop 0 nop\nexit 0\n";
  const void* nowhere[] = {nullptr};
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_schedule_load(world.at(0), text.data(), text.size(), nullptr, nullptr, &schedule, &why),
            LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_schedule_load(world.at(0), text.data(), text.size(), nowhere, nullptr, &schedule, &why),
            LSCHED_ERR_ARGUMENT);
  EXPECT_SAYS(why, "memory");
}

/// Checks that loading the texts fails on all ranks with `code` and an error text that contains `words`.
void expect_refused_load(lsched_status code, const std::vector<std::string>& words,
                         const std::function<std::string(int32_t)>& text) {
  expect_disagreement(code, words,
                      [&](lsched_world* runtime, int32_t r, lsched_schedule** schedule, lsched_diagnostic* why) {
                        return loading(text(r)).load(runtime, schedule, why);
                      });
}

TEST(c_load, bad_text_of_one_rank_is_told_to_all_with_its_place) {
  for (int32_t odd = 0; odd < 3; ++odd)
    expect_refused_load(
        LSCHED_ERR_ARGUMENT, {"line 9, column 6: expected a kind of op but found 'rcv'"},
        [&](int32_t r) { return r == odd ? replaced(shift_text(r, 3), "recv", "rcv") : shift_text(r, 3); });
  expect_refused_load(LSCHED_ERR_BOUNDS, {"line 8, column 1: op 0 (send)"},
                      [](int32_t r) { return r == 2 ? replaced(shift_text(r, 3), "+4", "+5") : shift_text(r, 3); });
  expect_refused_load(LSCHED_ERR_UNSUPPORTED, {"version 4"}, [](int32_t r) {
    return r == 0 ? replaced(shift_text(r, 3), "schedule 2", "schedule 4") : shift_text(r, 3);
  });
}

TEST(c_load, text_for_another_rank_or_world_is_a_mismatch) {
  expect_refused_load(LSCHED_ERR_MISMATCH, {"for rank 1 of 3, but this is rank 0 of 3"},
                      [](int32_t r) { return shift_text(r == 0 ? 1 : r, 3); });
  expect_refused_load(LSCHED_ERR_MISMATCH, {"for rank 0 of 2, but this is rank"},
                      [](int32_t) { return shift_text(0, 2) + shift_text(1, 2); });
  expect_refused_load(LSCHED_ERR_MISMATCH, {"shift", "other"},
                      [](int32_t r) { return shift_text(r, 3, r == 1 ? "other" : "shift"); });
}

TEST(c_load, a_world_that_does_not_pair_up_is_unmatched) {
  expect_refused_load(LSCHED_ERR_UNMATCHED, {"rank 0", "rank 1", "32 bytes of i64 with tag"}, [](int32_t r) {
    return r == 0 ? replaced(shift_text(r, 3), "tag 0", "tag 7") : shift_text(r, 3);
  });
}

TEST(c_load, partial_schedules_and_captures_are_refused) {
  const world_of_threads world(1);
  lsched_schedule* partial = create(world.at(0), describe_partial(4, "solo"));
  loading copy(printed(partial));
  destroy(partial);
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(copy.load(world.at(0), &schedule, &why), LSCHED_ERR_UNSUPPORTED);
  EXPECT_SAYS(why, "partial");
  copy.text = replaced(copy.text, "solo", "none");
  EXPECT_EQ(copy.load(world.at(0), &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_SAYS(why, "capture");
  expect_works(world.at(0));
}

TEST(c_load, memory_that_was_never_written_may_be_read) {
  const world_of_threads world(1);
  loading copy(
      "libsched schedule 2\nname \"\"\nrank 0 of 1\nflags\nactivation none seed 0\nbuffer 0 scratch host i64 4\n"
      "buffer 1 output host i64 4\nop 0 compute i64 b1[0 +4] = copy b0[0 +4]\nexit 0\n");
  lsched_schedule* schedule = nullptr;
  ASSERT_EQ(copy.load(world.at(0), &schedule, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
  destroy(schedule);
}

// --- more than 2 GiB -----------------------------------------------------------------------------------------

// This test needs about 15 GiB of memory, for two inputs, two outputs, and a copy of each input that the other rank can
// read.
TEST(large_message_soak, an_allreduce_of_more_than_two_gibibytes_gets_every_byte_right) {
  constexpr std::uint64_t count = (std::uint64_t{1} << 31) + 17;
  lsched_config config = test_config();
  config.region_bytes = 0;
  const world_of_threads world(2, config);
  world.each([](lsched_world* runtime, int32_t r) {
    std::vector<std::uint8_t> input(count), output(count);
    const std::uint64_t factor = r == 0 ? 0x9e3779b97f4a7c15u : 0xbf58476d1ce4e5b9u;
    const auto value = [](std::uint64_t by, std::uint64_t i) { return static_cast<std::uint8_t>((i * by) >> 56); };
    for (std::uint64_t i = 0; i < count; ++i) input[i] = value(factor, i);
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = "allreduce",
                                .input = input.data(),
                                .output = output.data(),
                                .count = count,
                                .dtype = LSCHED_U8,
                                .reduction = LSCHED_SUM};
    lsched_schedule* schedule = create(runtime, desc);
    if (schedule == nullptr) return;
    diagnostic why;
    EXPECT_EQ(lsched_run(schedule, 20 * k_limit_ns, &why), LSCHED_OK) << why.text;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < count; ++i)
      if (output[i] != static_cast<std::uint8_t>(value(0x9e3779b97f4a7c15u, i) + value(0xbf58476d1ce4e5b9u, i)))
        ++wrong;
    EXPECT_EQ(wrong, 0u);
    destroy(schedule);
  });
}

}  // namespace
