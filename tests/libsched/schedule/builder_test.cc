// Tests of the builder: ids, default values, and errors. Later errors do not replace the first error.
#include "libsched/schedule/builder.h"

#include <gtest/gtest.h>

namespace lsched {
namespace {

bool says(const builder& it, std::string_view phrase) {
  return it.error() != nullptr && it.error()->text.find(phrase) != std::string::npos;
}

TEST(builder, numbers_ops_and_buffers_in_the_order_they_are_added) {
  builder b({0, 3});
  EXPECT_EQ(b.input(dtype::f32, 1), 0);
  EXPECT_EQ(b.scratch(dtype::f32, 1), 1);
  EXPECT_EQ(b.nop(), 0u);
  EXPECT_EQ(b.signal_send(1, 0), 1u);
  EXPECT_EQ(b.op_count(), 2u);
  EXPECT_EQ(b.error(), nullptr);
}

TEST(builder, remembers_what_a_buffer_was_declared_as) {
  builder b({0, 3});
  const buffer_id id = b.declare(buffer_role::output, dtype::bf16, 7, memory_space::device);
  EXPECT_EQ(b.at(id), (buffer{buffer_role::output, memory_space::device, dtype::bf16, 7}));
  EXPECT_EQ(b.at(id).bytes(), 14u);
}

TEST(builder, shows_an_empty_buffer_where_none_was_declared) {
  builder b({0, 3});
  b.input(dtype::f32, 4);
  EXPECT_EQ(b.at(1), buffer{});
  EXPECT_EQ(b.at(k_no_buffer), buffer{});
}

TEST(builder, declares_lists_with_room) {
  builder b({0, 3});
  const buffer_id apart = b.lists(buffer_role::input, dtype::f32, 3, {.room = 5, .typical = 2});
  const buffer_id packed = b.lists(buffer_role::scratch, dtype::i64, 3, {.room = 5, .total = 7});
  EXPECT_EQ(b.error(), nullptr);
  EXPECT_TRUE(b.at(apart).has_lists() && !b.at(apart).is_packed());
  EXPECT_EQ(b.at(apart).bytes(), 3u * 5u * 4u);
  EXPECT_TRUE(b.at(packed).is_packed());
  EXPECT_EQ(b.at(packed).most_items(1), 5u);
  EXPECT_EQ(b.at(packed).bytes(), 7u * 8u);
}

TEST(builder, refuses_lists_without_room_or_beyond_it) {
  const auto refusal = [](const list_layout& layout, std::uint64_t count, std::uint64_t unit = 1) {
    builder b({0, 3});
    b.set_unit(unit);
    b.lists(buffer_role::scratch, dtype::f32, count, layout);
    return b.error() == nullptr ? std::string() : b.error()->text;
  };
  EXPECT_EQ(refusal({.room = 0}, 1), "buffer 0: each list has room for 0 items: use a room of 1 or more");
  EXPECT_EQ(refusal({.room = k_max_count}, 1), "");
  EXPECT_EQ(refusal({.room = k_max_count}, 2),
            "buffer 0: the lists have room for more than 2^48-1 items: use a smaller room");
  EXPECT_EQ(refusal({.room = k_max_count, .total = k_max_count}, 2), "");
  EXPECT_EQ(refusal({.room = 1, .total = k_max_count + 1}, 2),
            "buffer 0: the lists have room for more than 2^48-1 items: use a smaller room");
  EXPECT_EQ(refusal({.room = 4, .typical = 5}, 1), "buffer 0: the typical list is longer than the room of a list");
  EXPECT_EQ(refusal({.room = 4}, 1, 2), "buffer 0: lists cannot have units");
}

TEST(builder, shares_equal_guards_and_refuses_periods_without_sense) {
  builder b({0, 2});
  const buffer_id s = b.scratch(dtype::f32, 4);
  const op_id one = b.send(1, 0, {s, 0}, 4), other = b.send(1, 1, {s, 0}, 4), third = b.send(1, 2, {s, 0}, 4);
  b.set_guard(one, {.every = 4});
  b.set_guard(other, {.every = 2});
  b.set_guard(third, {.every = 4});
  b.declare_synchronising();
  const auto made = b.compile();
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ((*made)->guards().size(), 2u);
  EXPECT_EQ((*made)->guard_of((*made)->ops()[0])->every, 4u);
  EXPECT_EQ((*made)->guard_of((*made)->ops()[1])->every, 2u);
  EXPECT_EQ((*made)->guard_of((*made)->ops()[2])->every, 4u);
  for (const std::uint32_t every : {0u, k_longest_period + 1}) {
    builder wrong({0, 2});
    wrong.set_guard(wrong.nop(), {.every = every});
    EXPECT_TRUE(says(wrong, "the period of the guard is " + std::to_string(every) + " rounds"));
  }
  builder late({0, 2});
  late.set_guard(late.nop(), {.every = 4, .phase = 4});
  EXPECT_TRUE(says(late, "the phase of the guard is 4; use 0 to 3, because the period is 4 rounds"));
}

TEST(builder, ignores_a_dep_on_or_of_no_op) {
  builder b({0, 3});
  const op_id first = b.nop({k_no_op});
  b.dep(first, k_no_op);
  b.dep(k_no_op, first);
  const auto made = b.compile();
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->dep_count(), 0u);
}

TEST(builder, compiles_the_same_schedule_twice_and_lets_one_go_on_appending) {
  builder b({0, 3}, "growing");
  const op_id first = b.nop();
  const auto once = b.compile();
  const auto twice = b.compile();
  b.nop({first});
  const auto longer = b.compile();
  ASSERT_TRUE(once && twice && longer);
  EXPECT_EQ(**once, **twice);
  EXPECT_EQ((*once)->ops().size(), 1u);
  EXPECT_EQ((*longer)->ops().size(), 2u);
}

// --- errors ------------------------------------------------------------------------------------------------

TEST(builder, keeps_its_first_error_and_hands_it_out_at_compile) {
  builder b({0, 3});
  const op_id good = b.nop();
  b.dep(good, 7);
  b.set_need(9, 1);
  ASSERT_NE(b.error(), nullptr);
  EXPECT_TRUE(says(b, "op 7"));
  const auto made = b.compile();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, status::argument);
  EXPECT_EQ(made.error().text, b.error()->text);
  EXPECT_EQ(made.error().op, 7u);
}

TEST(builder, keeps_its_first_error_when_a_declaration_is_wrong_too) {
  builder b({5, 3});
  b.scratch(dtype::u8, k_max_count + 1);
  b.lists(buffer_role::scratch, dtype::u8, 1, {});
  EXPECT_TRUE(says(b, "rank 5 is outside a world of 3"));
}

TEST(builder, hands_out_harmless_ids_after_an_error) {
  builder b({0, 3});
  const buffer_id x = b.input(dtype::f32, 4);
  b.set_exit(0);
  const op_id lost = b.send(1, 0, {x, 0}, 4);
  EXPECT_EQ(lost, k_no_op);
  EXPECT_EQ(b.op_count(), 0u);
  b.dep(lost, lost);
  b.set_need(lost, 1);
  b.set_exit(lost);
  EXPECT_EQ(b.at(b.scratch(dtype::f64, 2)).count, 2u);
  EXPECT_TRUE(says(b, "set_exit names op 0"));
}

TEST(builder, hands_out_no_id_for_the_op_whose_own_dep_is_wrong) {
  builder b({0, 3});
  EXPECT_EQ(b.nop({5}), k_no_op);
  EXPECT_TRUE(says(b, "op 0 has a dep on op 5"));
}

TEST(builder, refuses_a_place_outside_its_world) {
  for (const world place : {world{3, 3}, world{-1, 3}, world{0, 0}, world{0, -1}}) {
    const builder b(place);
    ASSERT_NE(b.error(), nullptr);
    EXPECT_EQ(b.error()->code, status::argument);
    EXPECT_TRUE(says(b, "rank " + std::to_string(place.self) + " is outside a world of " + std::to_string(place.size)));
  }
}

TEST(builder, refuses_the_need_of_an_op_that_does_not_exist) {
  builder b({0, 3});
  b.set_need(0, 1);
  EXPECT_TRUE(says(b, "set_need names op 0"));
  EXPECT_EQ(b.error()->code, status::argument);
}

TEST(builder, refuses_a_reduction_by_a_kernel_that_is_none) {
  for (const kernel what : {kernel::none, kernel::copy}) {
    builder b({0, 3});
    const buffer_id x = b.scratch(dtype::f32, 4);
    EXPECT_EQ(b.reduce(what, {x, 0}, {x, 0}, {x, 0}, 4), k_no_op);
    EXPECT_TRUE(says(b, "op 0 (compute): the kernel is not a reduction"));
    EXPECT_EQ(b.error()->op, 0u);
  }
}

TEST(builder, refuses_a_buffer_above_the_largest_count) {
  builder large({0, 3});
  large.scratch(dtype::u8, k_max_count);
  EXPECT_EQ(large.error(), nullptr);
  builder larger({0, 3});
  larger.scratch(dtype::u8, k_max_count + 1);
  EXPECT_TRUE(says(larger, "buffer 0"));
}

TEST(builder, refuses_more_buffers_than_a_region_can_name) {
  builder b({0, 3});
  for (std::uint32_t i = 0; i < k_no_buffer; ++i) EXPECT_EQ(b.scratch(dtype::u8, 1), i);
  EXPECT_EQ(b.error(), nullptr);
  EXPECT_EQ(b.scratch(dtype::u8, 1), k_no_buffer);
  EXPECT_TRUE(says(b, "more than 65535 buffers"));
}

TEST(builder, keeps_the_tags_and_the_offsets_of_buckets_apart) {
  builder b({0, 2});
  const buffer_id input = b.input(dtype::f32, 5), output = b.output(dtype::f32, 5), held = b.scratch(dtype::f32, 2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    b.set_bucket({.number = i, .of = 2, .first_signal_tag = 3 * i, .input_begin = 3 * i, .output_begin = 3 * i});
    b.send(1, 1, {input, 1}, 1);
    b.recv(1, 1, {held, i}, 1);
    b.recv(1, 2, {output, 0}, 1);
    b.signal_send(1, 2);
  }
  const auto made = b.compile();
  ASSERT_TRUE(made) << made.error().text;
  const auto ops = (*made)->ops();
  for (std::uint32_t i = 0; i < 2; ++i) {
    const op* const mine = &ops[4 * i];
    EXPECT_EQ(mine[0].a, (region{input, 1 + 3 * i}));
    EXPECT_EQ(mine[0].tag, 2 + i);
    EXPECT_EQ(mine[1].c, (region{held, i}));
    EXPECT_EQ(mine[2].c, (region{output, 3 * i}));
    EXPECT_EQ(mine[2].tag, 4 + i);
    EXPECT_EQ(mine[3].tag, 2 + 3 * i);
  }
}

TEST(builder, lets_those_ops_wait_for_an_entry_that_wait_for_nothing) {
  builder b({0, 1});
  b.nop();
  const op_id entry = b.nop();
  const auto first = static_cast<op_id>(b.op_count());
  const op_id root = b.nop(), other = b.nop(), last = b.nop({root});
  b.set_entry(first, entry);
  b.set_exit(b.nop({last, other}));
  const auto made = b.compile();
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ((*made)->roots().size(), 2u);
  EXPECT_EQ(std::vector<op_id>((*made)->successors(entry).begin(), (*made)->successors(entry).end()),
            (std::vector<op_id>{root, other}));
}

}  // namespace
}  // namespace lsched
