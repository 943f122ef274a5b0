// Tests of the state that a sparse allreduce keeps between rounds: its initial value, and its image.
#include "collectives/sparse/steps/state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

namespace lsched {
namespace {

sparse_problem some_problem() { return {.count = 1000, .k = 10, .place = {1, 3}}; }

/// Changes every member of a new state.
void play(sparse_state& state, std::uint64_t count) {
  const std::array<std::uint64_t, 4> boundaries{0, 5, 500, count};
  state.hint.least = 77;
  state.finish_round(boundaries);
  state.finish_round(boundaries, {.local = 11, .global = 22, .left = 33});
  auto* const residual = static_cast<float*>(state.residual());
  for (std::uint64_t i = 0; i < count; ++i) residual[i] = static_cast<float>(i) - 3;
}

std::vector<std::uint64_t> boundaries_of(const sparse_state& state) {
  return {state.boundaries().begin(), state.boundaries().end()};
}

TEST(sparse_state, begins_with_nothing_and_equal_regions) {
  for (const std::uint64_t count : {0u, 1u, 2u, 1000u}) {
    const sparse_state state({.count = count, .place = {0, 3}});
    EXPECT_EQ(state.rounds(), 0u);
    EXPECT_EQ(state.hint.least, 0u);
    EXPECT_EQ(state.boundaries().front(), 0u);
    EXPECT_EQ(state.boundaries()[1], (count + 2) / 3);
    EXPECT_EQ(state.boundaries().back(), count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(state.residual()) % 64, 0u);
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(static_cast<const float*>(state.residual())[i], 0.0F);
  }
}

TEST(sparse_state, has_a_residual_as_wide_as_its_arithmetic) {
  const auto type_for = [](dtype type) { return sparse_state({.type = type}).residual_type(); };
  EXPECT_EQ(type_for(dtype::f16), dtype::f32);
  EXPECT_EQ(type_for(dtype::f32), dtype::f32);
  EXPECT_EQ(type_for(dtype::f64), dtype::f64);
}

std::int64_t resident_pages() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST(sparse_state, takes_no_memory_before_it_is_touched) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer's allocator touches the memory";
#endif
  const std::int64_t before = resident_pages();
  const sparse_state state({.count = std::uint64_t{1} << 28});
  EXPECT_LT(resident_pages() - before, 1000) << "of 262144";
}

TEST(sparse_state, comes_back_from_its_image) {
  sparse_state state(some_problem()), other(some_problem());
  play(state, 1000);
  EXPECT_FALSE(other.load(state.save()));
  EXPECT_EQ(other.rounds(), 2u);
  EXPECT_EQ(other.hint.least, 77u);
  EXPECT_EQ(other.thresholds(), (reused_thresholds{11, 22, 33}));
  EXPECT_EQ(boundaries_of(other), boundaries_of(state));
  EXPECT_EQ(std::memcmp(other.residual(), state.residual(), 4000), 0);
}

void expect_refused(const sparse_problem& of, const std::vector<std::byte>& image, status why) {
  sparse_state state(of);
  const std::vector<std::byte> before = state.save();
  const auto refused = state.load(image);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, why) << refused->text;
  EXPECT_EQ(state.save(), before);
}

TEST(sparse_state, refuses_images_of_others) {
  sparse_state state(some_problem());
  play(state, 1000);
  const std::vector<std::byte> image = state.save();
  const auto expect_mismatch = [&](const sparse_problem& of) { expect_refused(of, image, status::mismatch); };
  expect_mismatch({.count = 999, .place = {1, 3}});
  expect_mismatch({.count = 1000, .place = {1, 4}});
  expect_mismatch({.count = 1000, .place = {1, 3}, .type = dtype::bf16});
}

TEST(sparse_state, refuses_what_is_no_image) {
  sparse_state state(some_problem());
  play(state, 1000);
  const std::vector<std::byte> image = state.save();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{7}, std::size_t{60}, image.size() - 1})
    expect_refused(some_problem(), {image.begin(), image.begin() + static_cast<std::ptrdiff_t>(bytes)},
                   status::argument);
  auto longer = image;
  longer.emplace_back();
  expect_refused(some_problem(), longer, status::argument);
  const auto with = [&](std::size_t at, int value) {
    auto changed = image;
    changed[at] = static_cast<std::byte>(value);
    return changed;
  };
  expect_refused(some_problem(), with(0, 'L'), status::argument);
  expect_refused(some_problem(), with(8, 9), status::version);
  const std::size_t boundaries = image.size() - 4000 - 4 * 8;
  // Thresholds with these values would never expire.
  expect_refused(some_problem(), with(boundaries - 1, 1), status::argument);
  expect_refused(some_problem(), with(boundaries, 1), status::argument);
  expect_refused(some_problem(), with(boundaries + 9, 200), status::argument);
  expect_refused(some_problem(), with(boundaries + 24, 1), status::argument);
}

TEST(sparse_problem, is_objected_to_where_nothing_can_be_done) {
  EXPECT_FALSE(validate(some_problem()));
  const auto code_of = [](const sparse_problem& it) { return validate(it)->code; };
  EXPECT_EQ(code_of({.place = {3, 3}}), status::argument);
  EXPECT_EQ(code_of({.type = dtype::i32}), status::argument);
  EXPECT_EQ(code_of({.count = (std::uint64_t{1} << 32) + 1}), status::argument);
  EXPECT_EQ(code_of({.period = 0}), status::argument);
  EXPECT_EQ(code_of({.reuse = 0}), status::argument);
  EXPECT_EQ(code_of({.reuse = 1u << 21}), status::argument);
  EXPECT_EQ(code_of({.scale = HUGE_VAL}), status::argument);
}

}  // namespace
}  // namespace lsched
