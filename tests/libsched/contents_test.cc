// What is nobody's contribution, or a multiple of one, is no contribution: verify() notices both wherever they enter.
#include "libsched/contents.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/activation.h"
#include "collectives/allreduce.h"
#include "libsched/builder.h"
#include "libsched/interleavings.h"
#include "libsched/verify.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_count = 6;

using rank_writer = std::function<void(builder&)>;

std::vector<schedule_ptr> written(rank size, const rank_writer& write) {
  return whole_world(size, [&](world place) {
    builder to(place);
    write(to);
    return to.compile();
  });
}

std::string text_of(const verification& answer) {
  std::string text;
  for (const finding& it : answer.findings) text.append(name_of(it.what)).append(": ").append(it.text).append("\n");
  return text;
}

void expect_finding(const verification& answer, std::string_view words) {
  EXPECT_FALSE(answer.holds());
  EXPECT_NE(text_of(answer).find(words), std::string::npos) << "no \"" << words << "\" in:\n" << text_of(answer);
}

/// An allreduce whose result a rank changes before it gives it out. All ranks do the same, so all hold the same.
struct ending {
  builder& to;
  buffer_id sum, out;
  op_id done;  ///< `sum` is there
  dtype type;

  buffer_id more(std::uint64_t count = k_count) const { return to.scratch(type, count); }
  void give(buffer_id from, op_id after) const { to.copy({from, 0}, {out, 0}, k_count, {after}); }
  /// The first elements of the sum and `other`, added; the others as they are.
  void give_sum_with(buffer_id other, std::uint64_t count, op_id after) const {
    to.reduce(kernel::sum, {sum, 0}, {other, 0}, {out, 0}, count, {done, after});
    to.copy({sum, count}, {out, count}, k_count - count, {done});
  }
};

verification proof_of(rank size, dtype type, const std::function<void(const ending&)>& end) {
  const auto world = written(size, [&](builder& to) {
    const buffer_id in = to.input(type, k_count), out = to.output(type, k_count), sum = to.scratch(type, k_count);
    const fragment all = add_allreduce(to, {.count = k_count, .type = type, .what = kernel::sum}, in, sum, k_no_op);
    end({to, sum, out, all.exit, type});
    to.declare_synchronising();
  });
  return verify(world, reduced_everywhere(size, k_count, kernel::sum, false));
}

// --- what sums are made by ---------------------------------------------------------------------------------------

/// Two ranks' adaptive sum, by sums that `change` may do something to. Answers when they are there.
verification adaptive(bool by_row, const std::function<op_id(builder&, buffer_id sums, op_id made)>& change) {
  const auto world = written(2, [&](builder& to) {
    const auto mine = static_cast<std::uint64_t>(to.place().self);
    const buffer_id in = to.input(dtype::f64, k_count), out = to.output(dtype::f64, k_count);
    const buffer_id both = to.scratch(dtype::f64, 2 * k_count);
    const buffer_id sums = to.scratch(dtype::f64, by_row ? gram_sums(2) : k_dot_sums);
    const region lower(both, 0), higher(both, k_count);
    to.send(1 - to.place().self, 0, {in, 0}, k_count);
    const op_id got = to.recv(1 - to.place().self, 0, {both, (1 - mine) * k_count}, k_count);
    const op_id all = to.nop({got, to.copy({in, 0}, {both, mine * k_count}, k_count)});
    const op_id made = by_row ? to.gram(2, lower, higher, {sums, 0}, k_count, {all})
                              : to.dot_norms(lower, higher, {sums, 0}, k_count, {all});
    const op_id changed = change(to, sums, made);
    by_row ? to.gram_adasum({2, 1}, lower, higher, {sums, 0}, {out, 0}, k_count, {changed})
           : to.adasum(lower, higher, {sums, 0}, {out, 0}, k_count, {changed});
  });
  postcondition promise = reduced_everywhere(2, k_count, kernel::adasum, true);
  for (promised_range& it : promise.ranges) it.tree = adasum_expression(leaf_tree(0, 0), leaf_tree(1, 0), 0, k_count);
  return verify(world, promise);
}

// --- multiples ---------------------------------------------------------------------------------------------------

/// So many times one is one again modulo 2^61-1, in which fingerprints add up.
constexpr unsigned k_doublings_to_one = 61;

op_id doubled(builder& to, buffer_id it, std::uint64_t count, unsigned times, op_id after) {
  for (unsigned i = 0; i < times; ++i) after = to.reduce(kernel::sum, {it, 0}, {it, 0}, {it, 0}, count, {after});
  return after;
}

/// 2^125 - 2^64 + 1 times, which is 1 modulo 2^61-1 and modulo 2^64: those are the powers 64 to 124, and 1.
TEST(contents, a_contribution_is_once_in_it_whatever_numbers_wrap_around) {
  for (const rank size : {1, 2, 3, 5})
    expect_finding(proof_of(size, dtype::i64,
                            [&](const ending& it) {
                              const buffer_id power = it.more(), all = it.more();
                              op_id last = it.to.copy({it.sum, 0}, {all, 0}, k_count, {it.done});
                              op_id made = it.to.copy({it.sum, 0}, {power, 0}, k_count, {it.done});
                              made = doubled(it.to, power, k_count, 64, made);
                              for (unsigned i = 64; i < 125; ++i) {
                                last = it.to.reduce(kernel::sum, {all, 0}, {power, 0}, {all, 0}, k_count, {last, made});
                                made = doubled(it.to, power, k_count, 1, last);
                              }
                              it.give(all, last);
                            }),
                   "the contribution of rank 0 is in it at least 18446744073709551615 times");
}

TEST(contents, products_are_once_in_the_sums_whatever_numbers_wrap_around) {
  expect_finding(adaptive(false, [](builder& to, buffer_id sums,
                                    op_id made) { return doubled(to, sums, k_dot_sums, k_doublings_to_one, made); }),
                 "combined in another shape than the one promised");
}

/// A partial round, whose functions go by the sum of both contributions: who is in that is who is counted.
TEST(contents, who_is_counted_is_counted_once_whatever_numbers_wrap_around) {
  const auto of = [](unsigned doublings) {
    const auto world = written(2, [&](builder& to) {
      const rank other = 1 - to.place().self;
      const auto mine = static_cast<std::uint64_t>(to.place().self);
      const buffer_id in = to.input(dtype::i64, 1), part = to.scratch(dtype::i64, 1), both = to.scratch(dtype::i64, 2);
      const buffer_id everybody = to.scratch(dtype::i64, 1), out = to.output(dtype::i64, 1);
      const fragment awake = add_activation(to, {.policy = activation_policy::solo}, kernel::sum, in, 1);
      const shape one{.count = 1, .type = dtype::i64, .what = kernel::sum};
      const op_id summed = add_allreduce(to, one, in, everybody, awake.exit).exit;
      const op_id counted = doubled(to, everybody, 1, doublings, summed);
      to.set_first_tag(9);
      const op_id taken = to.apply(kernel::split, 0, in, k_no_buffer, part, {awake.exit});
      const op_id sent = to.send(other, 0, {part, 0}, 1, {taken});
      const op_id got = to.recv(other, 0, {both, 1 - mine}, 1, {awake.exit});
      const op_id all = to.nop({got, to.copy({part, 0}, {both, mine}, 1, {taken}), counted});
      to.set_exit(to.nop({to.apply(kernel::fold, 1, both, everybody, out, {all}), sent}));
      to.set_activation({activation_policy::solo});
      to.declare_synchronising();
    });
    postcondition promise = reduced_everywhere(2, 1, kernel::fold, true);
    for (promised_range& it : promise.ranges) it.merged = kernel::sum;
    return verify(world, promise);
  };
  EXPECT_TRUE(of(0).holds()) << text_of(of(0));
  expect_finding(of(k_doublings_to_one), "those who are counted are others");
}

/// In exact terms, too: 2^16 + 1 times.
TEST(contents, exact_terms_do_not_wrap_around) {
  const auto world = written(1, [](builder& to) {
    const buffer_id in = to.input(dtype::i64, 1), power = to.scratch(dtype::i64, 1), out = to.output(dtype::i64, 1);
    const op_id last = doubled(to, power, 1, 16, to.copy({in, 0}, {power, 0}, 1));
    to.reduce(kernel::sum, {in, 0}, {power, 0}, {out, 0}, 1, {last});
  });
  const interleaving_verdict answer = play(world, reduced_everywhere(1, 1, kernel::sum, false));
  EXPECT_EQ(answer.what, conclusion::fails);
  EXPECT_NE(answer.why.find("rank 0's contribution"), std::string::npos) << answer.why;
}

}  // namespace
}  // namespace lsched::testing
