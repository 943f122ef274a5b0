#include "libsched/session/memory_layout.h"

#include <gtest/gtest.h>

#include <array>

#include "libsched/schedule/builder.h"

namespace lsched {
namespace {

using memory = std::span<const std::byte>;

TEST(memory_layout, memory_that_is_apart_may_not_overlap) {
  const std::array<std::byte, 12> all{};
  const memory whole(all);
  const memory_layout apart;
  EXPECT_TRUE(apart.fits(whole.first(6), whole.last(6)));
  EXPECT_TRUE(apart.fits(whole.last(6), whole.first(6)));
  EXPECT_FALSE(apart.fits(whole.first(7), whole.last(6)));
  EXPECT_FALSE(apart.fits(whole.last(6), whole.first(7)));
  EXPECT_FALSE(apart.fits(whole, whole));
}

TEST(memory_layout, memory_in_place_keeps_its_distance) {
  const std::array<std::byte, 12> all{};
  const memory whole(all);
  const memory_layout in_place{.in_place = true, .aliasing_bytes = 4};
  EXPECT_TRUE(in_place.fits(whole.subspan(4, 3), whole));
  EXPECT_FALSE(in_place.fits(whole.subspan(5, 3), whole));
  EXPECT_FALSE(in_place.fits(whole.first(3), whole.last(9)));
}

TEST(memory_layout, nothing_fits_anywhere) {
  const std::array<std::byte, 1> all{};
  for (const bool in_place : {false, true}) {
    EXPECT_TRUE((memory_layout{.in_place = in_place}.fits(memory(all), {})));
    EXPECT_TRUE((memory_layout{.in_place = in_place}.fits({}, memory(all))));
  }
}

/// Returns a schedule of two inputs and two outputs. Each has four bytes, but the second output has `last` bytes.
schedule_ptr two_pairs(std::uint64_t last = 4) {
  builder to({0, 1});
  for (int i = 0; i < 2; ++i) to.input(dtype::u8, 4);
  to.output(dtype::u8, 4);
  to.output(dtype::u8, last);
  to.nop();
  return *to.compile();
}

TEST(memory_layout, of_several_buffers_only_pairs_share_memory) {
  std::array<std::byte, 32> all{};
  const auto at = [&](std::size_t offset) { return all.data() + offset; };
  const schedule_ptr program = two_pairs();
  const memory_layout apart{}, in_place{.in_place = true}, shifted{.in_place = true, .aliasing_bytes = 2};
  const auto fits = [&](const memory_layout& wanted, std::array<std::size_t, 4> begins) {
    const auto why =
        wanted.words_for_misfit(*program, {{at(begins[0]), at(begins[1])}, {at(begins[2]), at(begins[3])}});
    return why.value_or("");
  };
  EXPECT_EQ(fits(apart, {0, 4, 8, 12}), "");
  EXPECT_EQ(fits(apart, {0, 0, 8, 12}), "") << "inputs may overlap";
  EXPECT_EQ(fits(apart, {0, 4, 8, 11}), "output 0 and output 1 overlap: pass separate memory")
      << "outputs must not overlap";
  EXPECT_EQ(fits(apart, {0, 4, 8, 8}), "output 0 and output 1 overlap: pass separate memory");
  EXPECT_EQ(fits(apart, {0, 8, 8, 12}),
            "input 1 and output 0 overlap, but are not in place: pass separate memory or the in-place addresses")
      << "an input overlaps the output of the other pair";
  EXPECT_EQ(fits(apart, {0, 12, 8, 12}),
            "input 1 and output 1 overlap, but are not in place: pass separate memory or the in-place addresses");
  EXPECT_EQ(fits(in_place, {0, 4, 0, 4}), "");
  EXPECT_EQ(fits(in_place, {0, 4, 0, 8}),
            "input 1 and output 1 are separate, but other buffers are in place: use all pairs in place, or none")
      << "one pair is in place, the other pair is not";
  EXPECT_EQ(fits(in_place, {0, 4, 4, 0}),
            "input 0 and output 0 are separate, but other buffers are in place: use all pairs in place, or none")
      << "the pairs are exchanged";
  EXPECT_EQ(fits(shifted, {2, 8, 0, 8}), "") << "the offset is that of the first pair";
  EXPECT_EQ(fits(shifted, {2, 10, 0, 8}),
            "input 1 and output 1 overlap, but are not in place: pass separate memory or the in-place addresses");
}

TEST(memory_layout, empty_buffers_of_several_fit_anywhere) {
  std::array<std::byte, 12> all{};
  const binding bound{{all.data(), all.data() + 4}, {all.data() + 8, all.data() + 4}};
  EXPECT_FALSE(memory_layout{}.words_for_misfit(*two_pairs(0), bound));
  EXPECT_TRUE(memory_layout{}.words_for_misfit(*two_pairs(), bound));
}

TEST(memory_layout, is_read_off_the_first_pair) {
  std::array<std::byte, 32> all{};
  const auto layout = [&](std::size_t input, std::size_t output) {
    return layout_of(*two_pairs(), {{all.data() + input, all.data() + 16}, {all.data() + output, all.data() + 24}});
  };
  EXPECT_FALSE(layout(0, 4).in_place);
  EXPECT_FALSE(layout(0, 3).in_place) << "neither lies within the other";
  EXPECT_FALSE(layout(3, 0).in_place);
  EXPECT_TRUE(layout(4, 4).in_place);
  EXPECT_EQ(layout(4, 4).aliasing_bytes, 0);
}

TEST(memory_layout, a_part_of_the_other_buffer_is_in_place_at_its_offset) {
  std::array<std::byte, 32> all{};
  const auto layout = [&](std::uint64_t inputs, std::uint64_t outputs, std::size_t input, std::size_t output) {
    builder to({0, 1});
    to.input(dtype::u8, inputs);
    to.output(dtype::u8, outputs);
    to.nop();
    return layout_of(**to.compile(), {{all.data() + input}, {all.data() + output}});
  };
  EXPECT_EQ(layout(2, 8, 6, 0).aliasing_bytes, 6);
  EXPECT_EQ(layout(8, 2, 0, 6).aliasing_bytes, -6);
  EXPECT_TRUE(layout(8, 2, 0, 6).in_place);
  EXPECT_FALSE(layout(2, 8, 7, 0).in_place);
}

TEST(memory_layout, a_part_is_in_place_only_with_elements_on_elements) {
  alignas(8) std::array<std::byte, 64> all{};
  const auto layout = [&](dtype output, std::size_t input_begin) {
    builder to({0, 1});
    to.input(dtype::i32, 2);
    to.output(output, 6);
    to.nop();
    return layout_of(**to.compile(), {{all.data() + input_begin}, {all.data()}});
  };
  EXPECT_EQ(layout(dtype::i32, 8).aliasing_bytes, 8);
  EXPECT_FALSE(layout(dtype::i32, 6).in_place);
  EXPECT_FALSE(layout(dtype::f32, 8).in_place) << "other element types cannot overlap at an offset";
  EXPECT_TRUE(layout(dtype::f32, 0).in_place);
}

TEST(memory_layout, an_empty_pair_says_nothing_of_the_others) {
  std::array<std::byte, 32> all{};
  const auto layout = [&](std::uint64_t first_input, std::uint64_t first_output, std::array<std::size_t, 4> begins) {
    builder to({0, 1});
    to.input(dtype::u8, first_input);
    to.input(dtype::u8, 4);
    to.output(dtype::u8, first_output);
    to.output(dtype::u8, 4);
    to.nop();
    const auto at = [&](std::size_t offset) { return all.data() + offset; };
    const binding bound{{at(begins[0]), at(begins[1])}, {at(begins[2]), at(begins[3])}};
    const memory_layout found = layout_of(**to.compile(), bound);
    EXPECT_EQ(found.words_for_misfit(**to.compile(), bound).value_or(""), "");
    EXPECT_EQ(found.aliasing_bytes, 0);
    return found.in_place;
  };
  EXPECT_TRUE(layout(0, 0, {0, 4, 0, 4}));
  EXPECT_TRUE(layout(0, 4, {0, 8, 0, 8}));
  EXPECT_FALSE(layout(0, 4, {0, 8, 0, 12}));
  EXPECT_FALSE(layout(0, 4, {2, 8, 0, 12}));
}

}  // namespace
}  // namespace lsched
