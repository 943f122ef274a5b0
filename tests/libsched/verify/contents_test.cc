// Tests of the contents that verify() proves. verify() must detect multiples of contributions, and values that are not
// contributions, wherever they enter the result.
#include "libsched/verify/contents.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/activation/activation.h"
#include "collectives/allreduce/allreduce.h"
#include "libsched/schedule/builder.h"
#include "libsched/verify/verify.h"
#include "tests/support/symbolic_world.h"
#include "tests/verify_oracle/interleavings.h"

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

/// The last part of an allreduce, which changes the result and writes it to the output. All ranks make the same change,
/// so all results are equal.
struct ending {
  builder& to;
  buffer_id sum, out;
  op_id done;  ///< op that completes `sum`
  dtype type;

  buffer_id more(std::uint64_t count = k_count) const { return to.scratch(type, count); }
  void give(buffer_id from, op_id after) const { to.copy({from, 0}, {out, 0}, k_count, {after}); }
  /// Writes the sum to the output, and adds `other` to the first `count` elements.
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

struct planted {
  std::string_view op;
  dtype type;
  std::function<void(const ending&)> end;
};

// --- values that are not contributions ---------------------------------------------------------------------------

const std::vector<planted>& nobodys() {
  static const std::vector<planted> all{
      {"compute dot_norms", dtype::f64,
       [](const ending& it) {
         const buffer_id sums = it.more(k_dot_sums);
         const op_id made = it.to.dot_norms({it.sum, 0}, {it.sum, 0}, {sums, 0}, k_count, {it.done});
         it.give_sum_with(sums, k_dot_sums, made);
       }},
      {"compute measure", dtype::u64,
       [](const ending& it) {
         const buffer_id lists = it.to.lists(buffer_role::input, dtype::u64, 1, {.room = 5});
         const buffer_id length = it.more(1);
         it.give_sum_with(length, 1, it.to.measure({lists, 0}, {length, 0}, 1));
       }},
      {"compute derive", dtype::f32,
       [](const ending& it) {
         const buffer_id numbers = it.more();
         it.give_sum_with(numbers, k_count, it.to.apply(kernel::derive, 0, it.sum, k_no_buffer, numbers, {it.done}));
       }},
      {"compute derive", dtype::f32, [](const ending& it) {
         const buffer_id numbers = it.more(), doubled = it.more(), joined = it.more();
         const op_id made = it.to.apply(kernel::derive, 0, it.sum, k_no_buffer, numbers, {it.done});
         const op_id twice = it.to.reduce(kernel::sum, {numbers, 0}, {numbers, 0}, {doubled, 0}, k_count, {made});
         const op_id moved = it.to.divide({doubled, 0}, {doubled, 0}, k_count, 2, {twice});
         it.give_sum_with(joined, k_count, it.to.apply(kernel::join, 1, doubled, k_no_buffer, joined, {moved}));
       }}};
  return all;
}

TEST(contents, what_is_nobodys_contribution_is_in_no_promised_range) {
  for (const planted& it : nobodys())
    for (const rank size : {1, 2, 3, 5})
      expect_finding(proof_of(size, it.type, it.end), "(" + std::string(it.op) + "), which is not a contribution");
}

TEST(contents, what_a_function_made_is_no_sum) {
  for (const kernel how : {kernel::split, kernel::join})
    for (const rank size : {1, 2, 3, 5})
      expect_finding(proof_of(size, dtype::f32,
                              [&](const ending& it) {
                                const buffer_id made = it.more();
                                it.give(made, it.to.apply(how, 0, it.sum, k_no_buffer, made, {it.done}));
                              }),
                     "(compute " + std::string(name_of(how)) + "), which a function may have computed");
}

/// Verifies an allreduce, followed by `times` divisions of the first `count` elements of the result by `by`.
verification proof_of_mean(rank size, std::uint64_t by, std::uint64_t promised, unsigned times = 1,
                           std::uint64_t count = k_count) {
  const auto world = written(size, [&](builder& to) {
    const buffer_id in = to.input(dtype::f32, k_count), out = to.output(dtype::f32, k_count);
    const shape data{.count = k_count, .type = dtype::f32, .what = kernel::sum};
    op_id last = add_allreduce(to, data, in, out, k_no_op).exit;
    for (unsigned i = 0; i < times; ++i) last = to.divide({out, 0}, {out, 0}, count, by, {last});
    to.declare_synchronising();
  });
  postcondition promise = reduced_everywhere(size, k_count, kernel::sum, false);
  for (promised_range& range : promise.ranges) range.divisor = promised;
  return verify(world, promise);
}

TEST(contents, means_are_sums_that_are_divided_once_by_what_was_promised) {
  for (const rank size : {2, 3, 5}) {
    const auto ranks = static_cast<std::uint64_t>(size);
    EXPECT_TRUE(proof_of_mean(size, ranks, ranks).holds()) << text_of(proof_of_mean(size, ranks, ranks));
    const std::string why = "not divided by " + std::to_string(ranks) + " at the end";
    expect_finding(proof_of_mean(size, ranks + 1, ranks), why);
    expect_finding(proof_of_mean(size, ranks, ranks, 0), why);
    expect_finding(proof_of_mean(size, ranks, ranks, 1, k_count - 1), why);
    expect_finding(proof_of_mean(size, ranks, ranks, 2), "combined by another kernel than sum");
    expect_finding(proof_of_mean(size, ranks, 0), "combined by another kernel than sum");
  }
}

TEST(contents, a_sum_of_means_is_no_mean_of_sums) {
  const auto world = written(3, [](builder& to) {
    const buffer_id in = to.input(dtype::f32, k_count), out = to.output(dtype::f32, k_count);
    const buffer_id part = to.scratch(dtype::f32, k_count);
    to.divide({in, 0}, {part, 0}, k_count, 3);
    add_allreduce(to, {.count = k_count, .type = dtype::f32, .what = kernel::sum}, part, out, 0);
    to.declare_synchronising();
  });
  postcondition promise = reduced_everywhere(3, k_count, kernel::sum, false);
  for (promised_range& range : promise.ranges) range.divisor = 3;
  expect_finding(verify(world, promise), "not divided by 3 at the end");
}

/// A broadcast whose root changes the data before it sends them.
TEST(contents, what_moves_may_not_have_been_changed) {
  const auto of = [](bool changes) {
    return verify(written(3,
                          [&](builder& to) {
                            const buffer_id in = to.input(dtype::f32, k_count), out = to.output(dtype::f32, k_count);
                            if (to.place().self != 0) to.recv(0, 0, {out, 0}, k_count);
                            if (to.place().self != 0) return;
                            const buffer_id other = to.scratch(dtype::f32, k_count);
                            op_id last = to.apply(kernel::derive, 0, in, k_no_buffer, other);
                            last = changes ? to.reduce(kernel::sum, {in, 0}, {other, 0}, {out, 0}, k_count, {last})
                                           : to.copy({in, 0}, {out, 0}, k_count);
                            for (const rank peer : {1, 2}) to.send(peer, 0, {out, 0}, k_count, {last});
                          }),
                  {.ranges = {{.holder = 2, .end = k_count, .what = promised_content::moved, .source = 0}}});
  };
  EXPECT_TRUE(of(false).holds()) << text_of(of(false));
  expect_finding(of(true), "contains the result of rank 0 op 0 (compute derive), which is not a contribution");
}

// --- parts that functions leave out ------------------------------------------------------------------------------

/// Faults of an allreduce that consists of functions. Every rank splits its input into one part for each rank. The rank
/// folds (adds up) the parts that it receives. Then it joins the folds of all ranks.
struct by_functions {
  std::uint64_t unused_parts = 0;   ///< number of parts that no rank receives
  std::uint64_t lost_folds = 0;     ///< number of folds that are not joined
  std::uint64_t lost_elements = 0;  ///< number of elements of the input that no part contains
  bool folds_numbers = false;       ///< also folds numbers that are derived from the input
};

void write(builder& to, const by_functions& how) {
  const rank self = to.place().self, size = to.place().size;
  const auto wide = [](rank r) { return static_cast<std::uint64_t>(r); };
  const std::uint64_t ranks = wide(size), parts_made = ranks + how.unused_parts;
  const std::uint64_t folded_parts = ranks + (how.folds_numbers ? 1 : 0);
  const buffer_id in = to.input(dtype::f64, ranks), out = to.output(dtype::f64, ranks);
  const buffer_id taken = to.scratch(dtype::f64, ranks - how.lost_elements);
  const buffer_id parts = to.scratch(dtype::f64, parts_made), received = to.scratch(dtype::f64, folded_parts);
  const buffer_id fold = to.scratch(dtype::f64, 1), folds = to.scratch(dtype::f64, ranks - how.lost_folds);
  const op_id first = to.copy({in, 0}, {taken, 0}, ranks - how.lost_elements);
  const op_id split = to.apply(kernel::split, 0, taken, k_no_buffer, parts, {first});
  op_id last = to.nop({split, to.copy({parts, wide(self)}, {received, wide(self)}, 1, {split})});
  for (rank r = 0; r < size; ++r) {
    if (r == self) continue;
    to.send(r, 0, {parts, wide(r)}, 1, {split});
    last = to.nop({last, to.recv(r, 0, {received, wide(r)}, 1)});
  }
  if (how.folds_numbers) {
    const buffer_id numbers = to.scratch(dtype::f64, ranks);
    if (self == 0) last = to.apply(kernel::derive, 3, in, k_no_buffer, numbers, {last});
    if (self != 0) last = to.nop({last, to.recv(0, 2, {numbers, 0}, ranks)});
    for (rank r = 1; self == 0 && r < size; ++r) to.send(r, 2, {numbers, 0}, ranks, {last});
    last = to.copy({numbers, wide(self)}, {received, ranks}, 1, {last});
  }
  last = to.apply(kernel::fold, 1, received, k_no_buffer, fold, {last});
  op_id all = to.nop({last});
  for (rank r = 0; r < size; ++r) {
    const bool is_lost = wide(r) >= ranks - how.lost_folds;
    const bool was_lost = wide(self) >= ranks - how.lost_folds;
    if (r == self && !is_lost) all = to.nop({all, to.copy({fold, 0}, {folds, wide(r)}, 1, {last})});
    if (r == self) continue;
    if (!was_lost) to.send(r, 1, {fold, 0}, 1, {last});
    if (!is_lost) all = to.nop({all, to.recv(r, 1, {folds, wide(r)}, 1)});
  }
  to.apply(kernel::join, 2, folds, k_no_buffer, out, {all});
}

verification proof_of(rank size, const by_functions& how) {
  return verify(written(size, [&](builder& to) { write(to, how); }),
                reduced_everywhere(size, static_cast<std::uint64_t>(size), kernel::fold, false));
}

TEST(contents, functions_that_take_apart_fold_and_join_all_are_proved) {
  for (const rank size : {1, 2, 3, 5}) EXPECT_TRUE(proof_of(size, {}).holds()) << text_of(proof_of(size, {}));
}

TEST(contents, functions_leave_no_part_out) {
  for (const rank size : {2, 3, 5}) {
    expect_finding(proof_of(size, {.unused_parts = 1}), "joins data that is not all parts of one value in order");
    expect_finding(proof_of(size, {.lost_folds = 1}), "joins data that is not all parts of one value in order");
    expect_finding(proof_of(size, {.lost_elements = 1}),
                   size == 2 ? "contains parts of a split element that no join has combined"
                             : "splits data that is not one value");
  }
}

TEST(contents, functions_fold_no_numbers) {
  for (const rank size : {1, 2, 3, 5})
    expect_finding(proof_of(size, {.folds_numbers = true}), "(compute derive), which is not a contribution");
}

/// Rank 0 folds only the first part of every rank's input. It sends this fold to all ranks as the whole result.
TEST(contents, one_part_is_not_all_of_a_thing) {
  for (const rank size : {2, 3, 5})
    for (const auto& [splits, joins, how] : {std::tuple(false, false, kernel::join),
                                             {true, false, kernel::join},
                                             {true, true, kernel::join},
                                             {true, true, kernel::fold}})
      expect_finding(
          verify(written(size,
                         [&](builder& to) {
                           const auto ranks = static_cast<std::uint64_t>(size);
                           const buffer_id in = to.input(dtype::f64, ranks), out = to.output(dtype::f64, ranks);
                           const buffer_id parts = to.scratch(dtype::f64, ranks),
                                           firsts = to.scratch(dtype::f64, ranks);
                           op_id last = to.apply(kernel::split, 0, in, k_no_buffer, parts);
                           if (to.place().self != 0) {
                             to.send(0, 0, {parts, 0}, 1, {last});
                             to.recv(0, 1, {out, 0}, ranks);
                             return;
                           }
                           last = to.nop({last, to.copy({parts, 0}, {firsts, 0}, 1, {last})});
                           for (rank r = 1; r < size; ++r)
                             last = to.nop({last, to.recv(r, 0, {firsts, static_cast<std::uint64_t>(r)}, 1)});
                           const buffer_id fold = to.scratch(dtype::f64, 1), shares = to.scratch(dtype::f64, ranks);
                           last = to.apply(kernel::fold, 1, firsts, k_no_buffer, splits ? fold : out, {last});
                           const buffer_id into = joins ? shares : out;
                           if (splits) last = to.apply(kernel::split, 2, fold, k_no_buffer, into, {last});
                           if (joins) last = to.apply(how, 3, shares, k_no_buffer, out, {last});
                           for (rank r = 1; r < size; ++r) to.send(r, 1, {out, 0}, ranks, {last});
                         }),
                 reduced_everywhere(size, static_cast<std::uint64_t>(size), kernel::fold, false)),
          how == kernel::fold ? "folds parts that do not match"
          : joins             ? "joins data that is not all parts of one value in order"
          : splits            ? "contains parts of a split element that no join has combined"
                              : "folds parts that do not match");
}

/// Faults of an allreduce in which every rank makes a message of three elements, and folds the messages of all ranks.
enum class message_fault { none, element_of_other_rank, moved, one_missing, one_twice };

void write_messages(builder& to, message_fault fault) {
  constexpr std::uint64_t k_elements = 3;
  const rank self = to.place().self, size = to.place().size;
  const auto at = [](buffer_id buffer, rank r, std::uint64_t element = 0) {
    return region(buffer, static_cast<std::uint64_t>(r) * k_elements + element);
  };
  const buffer_id in = to.input(dtype::f64, 2), out = to.output(dtype::f64, 2);
  const buffer_id mine = to.scratch(dtype::u8, k_elements);
  const buffer_id all = to.scratch(dtype::u8, k_elements * static_cast<std::uint64_t>(size));
  const op_id made = to.apply(kernel::split, 0, in, k_no_buffer, mine);
  op_id last = to.copy({mine, 0}, at(all, self), k_elements, {made});
  for (rank r = 0; r < size; ++r) {
    if (r == self) continue;
    to.send(r, 0, {mine, 0}, k_elements, {made});
    last = to.nop({last, to.recv(r, 0, at(all, r), k_elements)});
  }
  if (fault == message_fault::element_of_other_rank) last = to.copy(at(all, 0, 1), at(all, 1, 1), 1, {last});
  if (fault == message_fault::moved) last = to.copy(at(all, 0, 0), at(all, 0, 1), 1, {last});
  if (fault == message_fault::one_twice) last = to.copy(at(all, 0), at(all, 1), k_elements, {last});
  const buffer_id some = to.scratch(dtype::u8, k_elements);
  if (fault == message_fault::one_missing) last = to.copy(at(all, 1), {some, 0}, k_elements, {last});
  to.apply(kernel::fold, 1, fault == message_fault::one_missing ? some : all, k_no_buffer, out, {last});
}

TEST(contents, functions_fold_whole_messages) {
  const auto of = [](rank size, message_fault fault) {
    return verify(written(size, [&](builder& to) { write_messages(to, fault); }),
                  reduced_everywhere(size, 2, kernel::fold, true));
  };
  for (const rank size : {1, 2, 3, 5})
    EXPECT_TRUE(of(size, message_fault::none).holds()) << text_of(of(size, message_fault::none));
  for (const rank size : {2, 3, 5}) {
    for (const message_fault fault : {message_fault::element_of_other_rank, message_fault::moved})
      expect_finding(of(size, fault), "folds parts that do not match");
    expect_finding(of(size, message_fault::one_missing), "the contribution of rank 0 is missing");
    expect_finding(of(size, message_fault::one_twice), "the contribution of rank 0 is contained 2 times");
  }
}

/// All ranks split each fold into shares and join the shares. With `halves`, rank 1 first divides its shares by two.
TEST(contents, parts_that_are_not_alike_are_not_joined) {
  const auto of = [](bool halves) {
    return verify(written(2,
                          [&](builder& to) {
                            const rank self = to.place().self;
                            const auto mine = static_cast<std::uint64_t>(self), other = 1 - mine;
                            const buffer_id in = to.input(dtype::f64, 2), parts = to.scratch(dtype::f64, 2);
                            const buffer_id pair = to.scratch(dtype::f64, 2), fold = to.scratch(dtype::f64, 1);
                            const buffer_id shares = to.scratch(dtype::f64, 2), share = to.scratch(dtype::f64, 1);
                            const buffer_id two = to.scratch(dtype::f64, 2), out = to.output(dtype::f64, 2);
                            const buffer_id all = to.scratch(dtype::f64, 2);
                            const auto exchange = [&](buffer_id from, std::uint64_t given, buffer_id own,
                                                      std::uint64_t kept, buffer_id into, op_id after) {
                              const op_id copied = to.copy({own, kept}, {into, mine}, 1, {after});
                              to.send(1 - self, 0, {from, given}, 1, {after});
                              return to.nop({copied, to.recv(1 - self, 0, {into, other}, 1)});
                            };
                            op_id last = to.apply(kernel::split, 0, in, k_no_buffer, parts);
                            last = exchange(parts, other, parts, mine, pair, last);
                            last = to.apply(kernel::fold, 1, pair, k_no_buffer, fold, {last});
                            last = to.apply(kernel::split, 2, fold, k_no_buffer, shares, {last});
                            if (halves && self == 1) last = to.divide({shares, 0}, {shares, 0}, 2, 2, {last});
                            to.set_first_tag(1);
                            last = exchange(shares, other, shares, mine, two, last);
                            last = to.apply(kernel::join, 3, two, k_no_buffer, share, {last});
                            to.set_first_tag(2);
                            last = exchange(share, 0, share, 0, all, last);
                            to.apply(kernel::join, 4, all, k_no_buffer, out, {last});
                          }),
                  reduced_everywhere(2, 2, kernel::fold, false));
  };
  EXPECT_TRUE(of(false).holds()) << text_of(of(false));
  expect_finding(of(true), "joins data that is not all parts of one value in order");
}

// --- weights of adaptive sums ------------------------------------------------------------------------------------

/// Verifies an adaptive sum of two ranks. The weights of an adaptive sum are computed from sums of products. `change`
/// may add ops that modify these sums, and returns the op after which the sums are complete.
verification adaptive(const std::function<op_id(builder&, buffer_id sums, op_id made)>& change) {
  const auto world = written(2, [&](builder& to) {
    const auto mine = static_cast<std::uint64_t>(to.place().self);
    const buffer_id in = to.input(dtype::f64, k_count), out = to.output(dtype::f64, k_count);
    const buffer_id both = to.scratch(dtype::f64, 2 * k_count);
    const buffer_id sums = to.scratch(dtype::f64, k_dot_sums);
    const region lower(both, 0), higher(both, k_count);
    to.send(1 - to.place().self, 0, {in, 0}, k_count);
    const op_id got = to.recv(1 - to.place().self, 0, {both, (1 - mine) * k_count}, k_count);
    const op_id all = to.nop({got, to.copy({in, 0}, {both, mine * k_count}, k_count)});
    const op_id changed = change(to, sums, to.dot_norms(lower, higher, {sums, 0}, k_count, {all}));
    to.adasum(lower, higher, {sums, 0}, {out, 0}, k_count, {changed});
  });
  postcondition promise = reduced_everywhere(2, k_count, kernel::adasum, true);
  for (promised_range& it : promise.ranges) it.tree = adasum_expression(leaf_tree(0, 0), leaf_tree(1, 0), 0, k_count);
  return verify(world, promise);
}

TEST(contents, adaptive_sums_go_by_what_was_multiplied_and_nothing_else) {
  const auto plain = adaptive([](builder&, buffer_id, op_id made) { return made; });
  EXPECT_TRUE(plain.holds()) << text_of(plain);
  for (const kernel how : {kernel::split, kernel::join})
    expect_finding(adaptive([&](builder& to, buffer_id sums, op_id made) {
                     const buffer_id other = to.scratch(dtype::f64, k_dot_sums);
                     const op_id turned = to.apply(how, 0, sums, k_no_buffer, other, {made});
                     return to.copy({other, 0}, {sums, 0}, k_dot_sums, {turned});
                   }),
                   "which are not the three sums");
  expect_finding(adaptive([&](builder& to, buffer_id sums, op_id made) {
                   return to.divide({sums, 0}, {sums, 0}, k_dot_sums, 2, {made});
                 }),
                 "which are not the three sums");
}

/// An adaptive sum of three ranks in the order ((0 1) 2). If `turns` is set, the weights of the last step are wrong.
/// They are then computed from a sum of ranks 0 and 1 in which the elements of rank 1 are rotated by one place.
TEST(contents, elements_of_other_places_make_another_vector) {
  const auto of = [](bool turns) {
    const auto world = written(3, [&](builder& to) {
      const rank self = to.place().self;
      const buffer_id in = to.input(dtype::f64, k_count), out = to.output(dtype::f64, k_count);
      const buffer_id norms = to.scratch(dtype::f64, k_dot_sums), sums = to.scratch(dtype::f64, k_dot_sums);
      const buffer_id pair = to.scratch(dtype::f64, k_count), other = to.scratch(dtype::f64, k_count);
      std::vector<buffer_id> from;
      op_id all = to.nop();
      for (rank r = 0; r < 3; ++r) {
        from.push_back(r == self ? in : to.scratch(dtype::f64, k_count));
        if (r != self) to.send(r, 0, {in, 0}, k_count);
        if (r != self) all = to.nop({all, to.recv(r, 0, {from.back(), 0}, k_count)});
      }
      const region x(from[0], 0), y(from[1], 0), s(norms, 0);
      const op_id made = to.dot_norms(x, y, s, k_count, {all});
      const op_id right = to.adasum(x, y, s, {pair, 0}, k_count, {made});
      const std::uint64_t by = turns ? 1 : 0;
      const op_id most = to.adasum(x, {from[1], by}, s, {other, 0}, k_count - 1, {made});
      const op_id last =
          to.adasum({from[0], k_count - 1}, {from[1], turns ? 0 : k_count - 1}, s, {other, k_count - 1}, 1, {made});
      const op_id summed = to.dot_norms({other, 0}, {from[2], 0}, {sums, 0}, k_count, {most, last});
      to.adasum({pair, 0}, {from[2], 0}, {sums, 0}, {out, 0}, k_count, {right, summed});
    });
    postcondition promise = reduced_everywhere(3, k_count, kernel::adasum, true);
    const std::uint64_t two = adasum_expression(leaf_tree(0, 0), leaf_tree(1, 0), 0, k_count);
    for (promised_range& it : promise.ranges) it.tree = adasum_expression(two, leaf_tree(2, 0), 0, k_count);
    return verify(world, promise);
  };
  EXPECT_TRUE(of(false).holds()) << text_of(of(false));
  expect_finding(of(true), "combined in another tree than the algorithm defines");
}

/// A capture merges late contributions of the same rank by sum. The contributions of different ranks must be combined
/// by max.
TEST(contents, what_captures_merge_by_is_for_captures_alone) {
  const auto of = [](bool captures) {
    const auto world = written(2, [&](builder& to) {
      const buffer_id in = to.input(dtype::i64, 1), out = to.output(dtype::i64, 1);
      const fragment awake = add_activation(to, {.policy = activation_policy::solo}, kernel::sum, in, 1);
      const kernel how = captures ? kernel::max : kernel::sum;
      to.set_exit(add_allreduce(to, {.count = 1, .type = dtype::i64, .what = how}, in, out, awake.exit).exit);
      to.set_activation({activation_policy::solo});
      to.declare_synchronising();
    });
    postcondition promise = reduced_everywhere(2, 1, kernel::max, true);
    for (promised_range& it : promise.ranges) it.merged = kernel::sum;
    return verify(world, promise);
  };
  EXPECT_TRUE(of(true).holds()) << text_of(of(true));
  expect_finding(of(false), "combined by another kernel than max");
}

// --- multiples ---------------------------------------------------------------------------------------------------

/// Number of doublings after which every number returns to its value modulo 2^61-1. This is the modulus of verify()'s
/// fingerprints.
constexpr unsigned k_doublings_to_one = 61;

op_id doubled(builder& to, buffer_id it, std::uint64_t count, unsigned times, op_id after) {
  for (unsigned i = 0; i < times; ++i) after = to.reduce(kernel::sum, {it, 0}, {it, 0}, {it, 0}, count, {after});
  return after;
}

/// The result includes each contribution 2^125 - 2^64 + 1 times. This number is the sum of 1 and of the powers 2^64 to
/// 2^124. It equals 1 modulo 2^61-1 and modulo 2^64.
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
                   "the contribution of rank 0 is contained at least 18446744073709551615 times");
}

TEST(contents, products_are_once_in_the_sums_whatever_numbers_wrap_around) {
  expect_finding(adaptive([](builder& to, buffer_id sums, op_id made) {
                   return doubled(to, sums, k_dot_sums, k_doublings_to_one, made);
                 }),
                 "combined in another tree than the algorithm defines");
}

/// The fold of a partial round depends on the sum of both contributions. The result gets its number of contributors
/// from this sum. The faulty world doubles the sum until its fingerprint is that of the original sum again.
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
  expect_finding(of(k_doublings_to_one), "the recorded contributors are not the ranks");
}

/// The result includes the contribution 2^16 + 1 times.
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
