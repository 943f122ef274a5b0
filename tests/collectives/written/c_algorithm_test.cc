// Tests of user-defined algorithms through lsched.h and lsched.hpp: algorithms that are loaded from texts, and builders
// that need no world.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <string>
#include <vector>

#include "bindings/cpp/lsched.hpp"
#include "bindings/input_file.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

std::string ring() { return *content_of(LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg"); }

lsched_status load(const std::string& text, diagnostic& why) {
  return lsched_algorithm_load(text.data(), text.size(), &why);
}

/// Runs one round of an allreduce algorithm on all ranks, and expects that each rank gets the sum.
void expect_sums(const world_of_threads& world, const char* algorithm) {
  world.each([&](lsched_world* mine, std::int32_t r) {
    diagnostic why;
    std::vector<double> in(5, r + 1.0), out(5);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = in.data(),
                                      .output = out.data(),
                                      .count = in.size(),
                                      .dtype = LSCHED_F64,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = algorithm};
    lsched_schedule* made = nullptr;
    ASSERT_EQ(lsched_collective_create(mine, &desc, &made, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(made, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(out, std::vector<double>(5, world.size() * (world.size() + 1) / 2.0));
    EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(c_algorithm, a_loaded_text_runs_by_name) {
  diagnostic why;
  ASSERT_EQ(load(ring(), why), LSCHED_OK) << why.text;
  EXPECT_EQ(load(ring(), why), LSCHED_OK);
  for (const std::int32_t ranks : {1, 3, 5, 4}) {
    const world_of_threads world(ranks);
    expect_sums(world, "my_ring");
    expect_sums(world, "auto");
  }
}

TEST(c_algorithm, the_environment_loads_files) {
  setenv("LSCHED_ALGORITHM_FILES", ":" LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg:", 1);
  setenv("LSCHED_ALGORITHM", "allreduce=my_ring", 1);
  expect_sums(world_of_threads(3), "auto");
  unsetenv("LSCHED_ALGORITHM");
  setenv("LSCHED_ALGORITHM_FILES", "/nowhere", 1);
  lsched_world* world = nullptr;
  diagnostic why;
  const lsched_config config = test_config();
  EXPECT_EQ(lsched_world_open_threads(1, &config, &world, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("LSCHED_ALGORITHM_FILES: /nowhere: no such file")) << why.text;
  unsetenv("LSCHED_ALGORITHM_FILES");
}

TEST(c_algorithm, a_bad_text_has_a_place) {
  diagnostic why;
  EXPECT_EQ(lsched_algorithm_load(nullptr, 0, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(load("libsched algorithm 1\nname \"a\"\ncollective allreduce\nsend\n", why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("line 4, column 5: expected 'in', 'out' or a scratch vector")) << why.text;
  EXPECT_EQ(load("libsched algorithm 1\nname \"tree\"\ncollective allreduce\n", why), LSCHED_ERR_STATE);
  EXPECT_THROW(cpp::load_algorithm("libsched algorithm 9\n"), cpp::error);
}

/// Returns the text of a schedule in which each rank sends its vector to the next rank.
std::string shift(std::int32_t r, std::int32_t ranks) {
  cpp::builder to(r, ranks, "shift");
  const lsched_slot mine = to.input<float>(4), left = to.output<float>(4);
  to.send((r + 1) % ranks, 0, {mine, 0, 4});
  to.recv((r + ranks - 1) % ranks, 0, {left, 0, 4});
  return to.text();
}

TEST(c_algorithm, a_builder_without_a_world_writes_text_that_is_proved_and_runs) {
  std::string text;
  for (std::int32_t r = 0; r < 3; ++r) text += shift(r, 3);
  EXPECT_TRUE(cpp::verify_text(text).holds());
  const world_of_threads world(3);
  world.each([&](lsched_world* mine, std::int32_t r) {
    diagnostic why;
    const std::vector<float> in(4, static_cast<float>(r));
    std::vector<float> out(4, -1);
    const void* const inputs[] = {in.data()};
    void* const outputs[] = {out.data()};
    lsched_schedule* made = nullptr;
    ASSERT_EQ(lsched_schedule_load(mine, text.data(), text.size(), inputs, outputs, &made, &why), LSCHED_OK)
        << why.text;
    EXPECT_EQ(lsched_run(made, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(out, std::vector<float>(4, static_cast<float>((r + 2) % 3)));
    EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK);
  });
}

TEST(c_algorithm, a_builder_without_a_world_is_of_a_rank_and_is_not_committed) {
  lsched_builder* made = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_builder_create(3, 3, nullptr, &made), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_builder_create(-1, 3, nullptr, &made), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_builder_create(0, 1, nullptr, nullptr), LSCHED_ERR_ARGUMENT);
  ASSERT_EQ(lsched_builder_create(1, 3, nullptr, &made), LSCHED_OK);
  EXPECT_EQ(lsched_builder_print(made, nullptr, 1, nullptr, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_add_send(made, 1, 0, {{0}, 0, 1}, nullptr), LSCHED_ERR_ARGUMENT);
  std::size_t needed = 0;
  EXPECT_EQ(lsched_builder_print(made, nullptr, 0, &needed, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("slot 0 of a send does not exist")) << why.text;
  lsched_schedule* schedule = nullptr;
  EXPECT_EQ(lsched_builder_commit(made, nullptr, nullptr, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("without a world")) << why.text;
}

}  // namespace
}  // namespace lsched::testing
