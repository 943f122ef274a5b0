// Tests of inputs and outputs that share memory at an offset. verify() and the check of all interleavings
// (tests/verify_oracle) must treat shared memory as one memory.
#include "libsched/postcondition/aliasing.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "libsched/schedule/builder.h"
#include "libsched/verify/verify.h"
#include "tests/verify_oracle/interleavings.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_block = 2;
constexpr std::uint64_t k_all = k_block;

using rank_writer = std::function<void(builder&)>;

std::vector<schedule_ptr> write_world(rank size, const rank_writer& write) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    builder to({self, size});
    write(to);
    world.push_back(*to.compile());
  }
  return world;
}

schedule_ptr buffers(std::uint64_t input, std::uint64_t output, dtype type = dtype::i32) {
  builder to({0, 1});
  to.input(dtype::i32, input);
  to.output(type, output);
  to.nop();
  return *to.compile();
}

std::string misfit(const schedule_ptr& of, std::int64_t offset) {
  return words_for_misfit(*of, aliasing({offset})).value_or("");
}

std::string first_words(const verification& answer) {
  return answer.holds() ? "" : std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

struct verdicts {
  std::string proof, play;
};

verdicts judge(const std::vector<schedule_ptr>& world, const postcondition& promise, const aliasing& in_place) {
  const interleaving_verdict played = play(world, promise, {.in_place = in_place});
  return {first_words(verify(world, promise, {.in_place = in_place})),
          played.what == conclusion::holds ? "" : played.why};
}

void expect_holds(const verdicts& found) {
  EXPECT_EQ(found.proof, "");
  EXPECT_EQ(found.play, "");
}

void expect_words(const std::string& found, std::string_view words) {
  EXPECT_NE(found.find(words), std::string::npos) << "\"" << words << "\" is not in \"" << found << "\"";
}

// --- memory ------------------------------------------------------------------------------------------------

TEST(aliasing, says_where_buffers_lie) {
  builder to({0, 1});
  to.scratch(dtype::i32, 9);
  to.output(dtype::i32, 6);
  to.input(dtype::i32, 2);
  to.output(dtype::i32, 3);
  to.input(dtype::i32, 3);
  to.output(dtype::i32, 1);
  to.nop();
  const schedule_ptr program = *to.compile();
  const auto at = [&](const aliasing& in_place, std::size_t b) {
    const placement it = placements_of(*program, in_place)[b];
    return std::pair(it.memory, it.begin);
  };
  using pair = std::pair<std::size_t, std::uint64_t>;
  for (std::size_t b = 0; b < 6; ++b) EXPECT_EQ(at(false, b), pair(b, 0));
  EXPECT_EQ(at(aliasing({4}), 0), pair(0, 0));
  EXPECT_EQ(at(aliasing({4}), 1), pair(1, 0));
  EXPECT_EQ(at(aliasing({4}), 2), pair(1, 4));
  EXPECT_EQ(at(aliasing({4}), 3), pair(3, 0));  // without an offset, both buffers of a pair begin at the same address
  EXPECT_EQ(at(aliasing({4}), 4), pair(3, 0));
  EXPECT_EQ(at(aliasing({4}), 5), pair(5, 0));  // this buffer has no partner
  EXPECT_EQ(at(aliasing({-1}), 1), pair(1, 1));
  EXPECT_EQ(at(aliasing({-1}), 2), pair(1, 0));
  EXPECT_EQ(at(true, 2), pair(1, 0));
}

TEST(aliasing, one_buffer_lies_within_the_other) {
  EXPECT_EQ(misfit(buffers(2, 6), 4), "");
  EXPECT_EQ(misfit(buffers(6, 2), -4), "");
  EXPECT_EQ(misfit(buffers(6, 2), 0), "");
  EXPECT_EQ(misfit(buffers(2, 6), 0), "");
  EXPECT_EQ(misfit(buffers(0, 6), 6), "");
  EXPECT_EQ(misfit(buffers(0, 0), 0), "");
  expect_words(misfit(buffers(2, 6), 5), "neither buffer is within the other");
  expect_words(misfit(buffers(6, 2), -5), "neither buffer is within the other");
  expect_words(misfit(buffers(2, 6), -1), "neither buffer is within the other");
  expect_words(misfit(buffers(6, 2), 1), "neither buffer is within the other");
  expect_words(misfit(buffers(0, 6), 7), "neither buffer is within the other");
  expect_words(misfit(buffers(6, 6), std::numeric_limits<std::int64_t>::min()), "neither buffer is within the other");
  expect_words(misfit(buffers(2, 2, dtype::f32), 0), "are of different types");
  const auto world = std::vector{buffers(2, 6)};
  expect_words(judge(world, {}, aliasing({5})).proof, "form: rank 0 cannot work in place: input 0 and output 0");
  expect_words(judge(world, {}, aliasing({5})).play, "neither buffer is within the other");
}

// --- allgather: the input is a block of the output ---------------------------------------------------------

struct gather_slip {
  std::uint64_t by = 0;       ///< number of elements by which received blocks are misplaced
  bool copies = false;        ///< whether the rank copies its own block, although the output already contains it
  std::uint64_t shorter = 0;  ///< number of elements by which the copy and the messages are too short
};

std::vector<schedule_ptr> allgather(rank size, gather_slip slip = {}) {
  return write_world(size, [&](builder& to) {
    const rank self = to.place().self;
    const auto ranks = static_cast<std::uint64_t>(to.place().size);
    const std::uint64_t count = k_block - slip.shorter;
    const buffer_id in = to.input(dtype::i32, k_block), out = to.output(dtype::i32, ranks * k_block);
    if (slip.copies) to.copy({in, 0}, {out, static_cast<std::uint64_t>(self) * k_block + slip.by}, count);
    for (rank r = 0; r < to.place().size; ++r) {
      if (r == self) continue;
      to.send(r, 0, {in, 0}, count);
      to.recv(r, 0, {out, static_cast<std::uint64_t>(r) * k_block + slip.by}, count);
    }
  });
}

aliasing own_blocks(rank size) {
  std::vector<std::int64_t> offsets;
  for (rank r = 0; r < size; ++r) offsets.push_back(r * static_cast<std::int64_t>(k_block));
  return aliasing(std::move(offsets));
}

postcondition all_blocks(rank size) {
  postcondition promise;
  for (rank holder = 0; holder < size; ++holder)
    for (rank r = 0; r < size; ++r)
      promise.ranges.push_back({.holder = holder,
                                .begin = static_cast<std::uint64_t>(r) * k_block,
                                .end = static_cast<std::uint64_t>(r + 1) * k_block,
                                .what = promised_content::moved,
                                .source = r});
  return promise;
}

TEST(aliasing, an_input_that_is_a_block_of_the_output_needs_no_copy) {
  for (const rank size : {1, 2, 3}) expect_holds(judge(allgather(size), all_blocks(size), own_blocks(size)));
  for (const rank size : {5, 6, 7, 4, 8})
    EXPECT_EQ(first_words(verify(allgather(size), all_blocks(size), {.in_place = own_blocks(size)})), "");
  const verdicts apart = judge(allgather(3), all_blocks(3), false);
  expect_words(apart.proof, "contents: rank 0 output 0 elements [0, 2): no op has written these elements");
  EXPECT_NE(apart.play, "");
}

TEST(aliasing, a_wrong_offset_is_caught) {
  const verdicts together = judge(allgather(3), all_blocks(3), true);  // an offset of 0 is correct only for rank 0
  expect_words(together.proof, "hazard: rank 1 op");
  EXPECT_NE(together.play, "");
  for (const std::int64_t wrong : {1, 3, 4}) {
    const verdicts found = judge(allgather(3), all_blocks(3), aliasing({0, wrong, 4}));
    EXPECT_NE(found.proof, "") << wrong;
    EXPECT_NE(found.play, "") << wrong;
  }
  const auto alone = write_world(1, [](builder& to) {  // a world in which no other op can conflict
    to.input(dtype::i32, k_block);
    to.output(dtype::i32, 3 * k_block);
    to.nop();
  });
  postcondition promise;
  promise.ranges.push_back({.begin = 2, .end = 4, .what = promised_content::moved, .source = 0});
  expect_holds(judge(alone, promise, aliasing({2})));
  for (const std::int64_t wrong : {1, 3}) {
    const verdicts found = judge(alone, promise, aliasing({wrong}));
    expect_words(found.proof, "contents: rank 0 output 0 elements");
    EXPECT_NE(found.play, "");
  }
}

TEST(aliasing, a_write_that_overlaps_by_one_element_is_caught) {
  const verdicts late = judge(allgather(3, {.by = 1, .shorter = 1}), {}, own_blocks(3));
  expect_holds(late);  // each op writes one element, and never the first element of a block
  const auto world = write_world(2, [](builder& to) {
    const rank self = to.place().self, other = 1 - self;
    const buffer_id in = to.input(dtype::i32, k_block), out = to.output(dtype::i32, 2 * k_block + 1);
    to.send(other, 0, {in, 0}, k_all);
    to.recv(other, 0, {out, self == 0 ? 1u : 0u}, k_all);
  });
  const verdicts one = judge(world, {}, aliasing({0, 2}));
  expect_words(one.proof,
               "hazard: rank 0 op 0 (send to 1) and op 1 (recv from 1): one reads and the other writes elements [1, 2) "
               "of buffer 1");
  expect_words(one.play, "uses memory that rank 0, op");
  EXPECT_EQ(judge(world, {}, aliasing({3, 2})).proof, "");
}

TEST(aliasing, an_op_that_writes_to_a_part_of_what_it_reads_is_caught) {
  expect_holds(judge(allgather(1, {.copies = true}), all_blocks(1), own_blocks(1)));  // source and target are equal
  const auto world = write_world(1, [](builder& to) {
    const buffer_id in = to.input(dtype::i32, 3), out = to.output(dtype::i32, 3);
    to.copy({in, 0}, {out, 1}, k_all);
  });
  expect_holds(judge(world, {}, false));
  const verdicts shared = judge(world, {}, true);
  expect_words(shared.proof,
               "form: rank 0 op 0 (compute copy) is not valid: has two regions that overlap but are not equal");
  expect_words(shared.play, "rank 0, op 0 (compute) writes to a part of its operands");
}

TEST(aliasing, where_an_op_reads_and_writes_is_seen_in_the_memory) {
  const auto copied_to = [](std::uint64_t at) {
    return write_world(1, [at](builder& to) {
      const buffer_id in = to.input(dtype::i32, k_block), out = to.output(dtype::i32, 3 * k_block);
      to.copy({in, 0}, {out, at}, k_all);
    });
  };
  for (const std::uint64_t at : {0u, 2u, 4u}) expect_holds(judge(copied_to(at), {}, aliasing({2})));
  for (const std::uint64_t at : {1u, 3u}) {
    const verdicts found = judge(copied_to(at), {}, aliasing({2}));
    expect_words(found.proof, "has two regions that overlap but are not equal");
    expect_words(found.play, "writes to a part of its operands");
  }
}

// --- scatter: the output is a block of the input -----------------------------------------------------------

TEST(aliasing, an_output_that_is_a_block_of_the_input_needs_no_copy) {
  constexpr rank k_root = 1;
  const auto world = write_world(3, [](builder& to) {
    if (to.place().self == k_root) {
      const buffer_id in = to.input(dtype::i32, 3 * k_block);
      to.output(dtype::i32, k_block);
      to.send(0, 0, {in, 0}, k_all);
      to.send(2, 0, {in, 2 * k_block}, k_all);
    } else {
      to.recv(k_root, 0, {to.output(dtype::i32, k_block), 0}, k_all);
    }
  });
  postcondition promise;
  for (rank r = 0; r < 3; ++r)
    promise.ranges.push_back({.holder = r,
                              .end = k_block,
                              .what = promised_content::moved,
                              .input_begin = static_cast<std::uint64_t>(r) * k_block,
                              .source = k_root});
  expect_holds(judge(world, promise, aliasing({0, -2, 0})));
  expect_holds(judge(world, promise, aliasing({7, -2, 7})));  // ranks 0 and 2 have only one buffer and ignore their
                                                              // offsets
  for (const std::int64_t wrong : {0, -1, -3, -4}) {
    const verdicts found = judge(world, promise, aliasing({0, wrong, 0}));
    expect_words(found.proof,
                 "contents: rank 1 output 0 elements [0, 2): the contributions come from the wrong elements");
    EXPECT_NE(found.play, "");
  }
}

// --- reduce_scatter: the output is the input's beginning ---------------------------------------------------

/// Rank r writes the sum of block r of both inputs. If `waits` is set, the rank first waits until its send of the other
/// block has completed.
std::vector<schedule_ptr> reduce_scatter(bool waits) {
  return write_world(2, [&](builder& to) {
    const auto self = static_cast<std::uint64_t>(to.place().self);
    const rank other = 1 - to.place().self;
    const buffer_id in = to.input(dtype::i32, 2 * k_block), out = to.output(dtype::i32, k_block);
    const buffer_id got = to.scratch(dtype::i32, k_block);
    const op_id sent = to.send(other, 0, {in, (1 - self) * k_block}, k_all);
    const op_id came = to.recv(other, 0, {got, 0}, k_all);
    const region mine(in, self * k_block), others(got, 0);
    const op_id sum = to.reduce(kernel::sum, self == 0 ? mine : others, self == 0 ? others : mine, {out, 0}, k_all);
    to.dep(came, sum);
    if (waits) to.dep(sent, sum);
  });
}

TEST(aliasing, only_what_overlaps_conflicts) {
  postcondition promise{.is_same_everywhere = false};
  for (rank r = 0; r < 2; ++r)
    promise.ranges.push_back({.holder = r,
                              .end = k_block,
                              .what = promised_content::reduced,
                              .input_begin = static_cast<std::uint64_t>(r) * k_block,
                              .how = kernel::sum,
                              .is_in_rank_order = true});
  expect_holds(judge(reduce_scatter(true), promise, true));
  expect_holds(judge(reduce_scatter(false), promise, false));
  const verdicts hasty = judge(reduce_scatter(false), promise, true);
  expect_words(hasty.proof, "hazard: rank 1 op");  // only rank 1 overwrites the block that it sends
  expect_words(hasty.play, "uses memory that rank 1, op");
}

}  // namespace
}  // namespace lsched
