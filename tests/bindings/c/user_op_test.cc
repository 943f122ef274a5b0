// Tests of user-defined reductions through the C interface. The library must combine operands in rank order, keep units
// whole, and pass the user's context.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using numbers = std::vector<std::uint64_t>;

// --- maps x -> a * x + b, modulo 2^64: associative, not commutative --------------------------------------------------

constexpr std::uint64_t k_unit = 2;

struct affine {
  std::uint64_t a, b;
};

affine composed(affine first, affine then) { return {then.a * first.a, then.a * first.b + then.b}; }

affine at(const void* memory, std::uint64_t unit) {
  const auto* pair = static_cast<const std::uint64_t*>(memory) + unit * k_unit;
  return {pair[0], pair[1]};
}

struct calls {
  std::atomic<std::uint64_t> made{0}, cut{0};
};

void compose(const void* lower, const void* higher, void* target, std::uint64_t count, void* context) {
  auto& of = *static_cast<calls*>(context);
  ++of.made;
  if (count % k_unit != 0) ++of.cut;
  for (std::uint64_t i = 0; i < count / k_unit; ++i) {
    const affine both = composed(at(lower, i), at(higher, i));
    auto* to = static_cast<std::uint64_t*>(target) + i * k_unit;
    to[0] = both.a;
    to[1] = both.b;
  }
}

lsched_user_op composition(calls& of) {
  return {.struct_size = sizeof(lsched_user_op),
          .combine = compose,
          .context = &of,
          .dtype = LSCHED_U64,
          .unit = k_unit,
          .is_commutative = 0};
}

// --- every algorithm -------------------------------------------------------------------------------------------------

shape shape_for(const algorithm& it, rank size, std::uint64_t units, bool in_place) {
  shape data = typical_shape(*it.of, size, units, dtype::u64, kernel::user);
  data.unit = k_unit;
  data.count *= k_unit;
  for (std::uint64_t& count : data.counts) count *= k_unit;
  data.in_place = in_place;
  return data;
}

numbers input_of(rank r, std::uint64_t count) {
  numbers all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = 3 + 7 * static_cast<std::uint64_t>(r) + 11 * i;
  return all;
}

/// Compares a range of the output with the expected maps. An expected map is the composition of the contributors' maps
/// in rank order. Returns the first wrong element, or an empty text.
std::string broken(const promised_range& it, const std::vector<numbers>& inputs, const numbers& output) {
  std::vector<rank> among = it.among;
  for (rank r = 0; it.among.empty() && r < static_cast<rank>(inputs.size()); ++r) among.push_back(r);
  for (std::uint64_t i = it.begin; i < it.end; i += k_unit) {
    const std::uint64_t from = (it.input_begin + i - it.begin) / k_unit;
    affine wanted = at(inputs[static_cast<std::size_t>(among[0])].data(), from);
    for (std::size_t k = 1; k < among.size(); ++k)
      wanted = composed(wanted, at(inputs[static_cast<std::size_t>(among[k])].data(), from));
    const affine found = at(output.data(), i / k_unit);
    if (found.a != wanted.a || found.b != wanted.b) return "element " + std::to_string(i);
  }
  return {};
}

struct memory_of_rank {
  memory_of_rank(const collective& of, world place, const shape& data) {
    const extents both = of.extents_of(place, data);
    input = input_of(place.self, both.input.value_or(0));
    outputs = both.output.value_or(0);
    is_shared = data.in_place && both.input && both.output;
    numbers in = input;
    in.resize(std::max<std::uint64_t>(in.size(), outputs) + 1);  // in place, input and output begin at the same address
    first = std::move(in);
    second.resize(outputs + 1);
  }
  const void* in() const { return first.data(); }
  void* out() { return is_shared ? first.data() : second.data(); }

  numbers input, first, second;
  std::uint64_t outputs = 0;
  bool is_shared = false;
};

lsched_collective_desc describe(const algorithm& it, const shape& data, memory_of_rank& memory,
                                const lsched_user_op& how) {
  lsched_collective_desc desc{.struct_size = sizeof desc, .collective = it.of->name.data()};
  desc.input = memory.in();
  desc.output = memory.out();
  if (!it.of->has_counts) desc.count = data.count;
  if (it.of->has_counts) desc.counts = data.counts.data();
  desc.dtype = LSCHED_U64;
  desc.root = data.root;
  desc.user_op = &how;
  return desc;
}

void expect_composed(const algorithm& it, rank size, std::uint64_t units, bool in_place) {
  const shape data = shape_for(it, size, units, in_place);
  SCOPED_TRACE(std::string(it.of->name) + "/" + std::string(it.name) + ", " + std::to_string(size) + " ranks, " +
               std::to_string(units) + " units" + (in_place ? ", in place" : ""));
  const bool is_refused = validate(it, {0, size}, data).has_value();
  const postcondition promise = it.of->contents_of(size, data);
  std::vector<numbers> inputs;
  for (rank r = 0; r < size; ++r) inputs.push_back(memory_of_rank(*it.of, {r, size}, data).input);
  as_ranks(size, [&](lsched_world* runtime, rank r) {
    calls of;
    const lsched_user_op how = composition(of);
    memory_of_rank memory(*it.of, {r, size}, data);
    lsched_collective_desc desc = describe(it, data, memory, how);
    const std::string name(it.name);
    desc.algorithm = name.c_str();
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    const lsched_status answer = lsched_collective_create(runtime, &desc, &schedule, &why);
    ASSERT_EQ(answer, is_refused ? LSCHED_ERR_CONSTRAINT : LSCHED_OK) << why.text;
    if (is_refused) return;
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    for (const promised_range& wanted : promise.ranges) {
      if (wanted.holder != r) continue;
      EXPECT_EQ(broken(wanted, inputs, memory.is_shared ? memory.first : memory.second), "") << "rank " << r;
    }
    EXPECT_EQ(of.cut, 0u);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
  });
}

TEST(c_user_op, every_algorithm_that_accepts_it_keeps_order_and_units) {
  for (const rank size : {1, 3, 5, 6, 7, 4, 8})
    for (const algorithm& it : algorithms())
      for (const std::uint64_t units : {0u, 1u, 5u, 1500u})
        for (const bool in_place : {false, true})
          if (it.of->reduces && !it.of->activates && (!in_place || it.needs.in_place))
            expect_composed(it, size, units, in_place);
}

/// Returns an algorithm that combines contributions in any order, and therefore requires a commutative reduction.
const algorithm& careless() {
  static algorithm it = *find("allreduce", "tree");
  it.needs.needs_commutative = true;
  return it;
}

TEST(c_user_op, an_algorithm_that_changes_the_order_is_refused_if_that_matters) {
  shape data = shape_for(careless(), 3, 5, false);
  const auto why = validate(careless(), {0, 3}, data);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, status::constraint);
  EXPECT_NE(why->text.find("does not commute"), std::string::npos) << why->text;
  data.commutes = true;
  EXPECT_FALSE(validate(careless(), {0, 3}, data));
}

// --- refusals --------------------------------------------------------------------------------------------------------

void expect_refused(const std::function<void(lsched_collective_desc&, lsched_user_op&)>& change,
                    const std::string& words) {
  as_ranks(2, [&](lsched_world* runtime, rank) {
    calls of;
    numbers input(8), output(8);
    lsched_user_op how = composition(of);
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = "allreduce",
                                .input = input.data(),
                                .output = output.data(),
                                .count = 8,
                                .dtype = LSCHED_U64};
    desc.user_op = &how;
    change(desc, how);
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_NE(std::string(why.text).find(words), std::string::npos) << why.text;
  });
}

TEST(c_user_op, a_wrong_one_is_told_what_is_wrong) {
  expect_refused([](auto&, auto& op) { op.struct_size = 0; }, "lsched_user_op.struct_size is 0");
  expect_refused([](auto&, auto& op) { op.combine = nullptr; }, "has no function");
  expect_refused([](auto&, auto& op) { op.unit = 0; }, "unit is not from 1");
  expect_refused([](auto&, auto& op) { op.is_commutative = 7; }, "is_commutative is neither 0 nor 1");
  expect_refused([](auto&, auto& op) { op.unit = 3; }, "not a multiple of the unit of 3 elements");
  expect_refused([](auto&, auto& op) { op.dtype = LSCHED_I64; }, "dtype is not that of user_op");
  expect_refused([](auto&, auto& op) { op.dtype = static_cast<lsched_dtype>(LSCHED_F64 + 1); }, "not an lsched_dtype");
  expect_refused([](auto& desc, auto&) { desc.reduction = LSCHED_SUM; }, "both reduction and user_op");
  expect_refused([](auto& desc, auto&) { desc.collective = "bcast"; }, "has no reduction: leave user_op null");
  expect_refused(
      [](auto& desc, auto&) { desc = {.struct_size = sizeof desc, .collective = "barrier", .user_op = desc.user_op}; },
      "has no reduction: leave user_op null");
}

TEST(c_user_op, ranks_that_disagree_about_it_learn_both) {
  as_ranks(3, [](lsched_world* runtime, rank r) {
    calls of;
    numbers input(8), output(8);
    lsched_user_op how = composition(of);
    if (r == 1) how.unit = 4;
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input.data(),
                                      .output = output.data(),
                                      .count = 8,
                                      .dtype = LSCHED_U64,
                                      .user_op = &how};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH);
    EXPECT_NE(std::string(why.text).find("user ordered unit 4"), std::string::npos) << why.text;
  });
}

// --- schedules by hand -----------------------------------------------------------------------------------------------

/// An inclusive scan, built by hand. Each rank combines the value of the previous rank with its own value, and sends
/// the result to the next rank.
struct chain {
  chain(lsched_world* runtime, rank r, rank size, std::uint64_t count) {
    EXPECT_EQ(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime), "chain", &b), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_INPUT, LSCHED_U64, count, &in), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_U64, count, &out), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_SCRATCH, LSCHED_U64, count, &below), LSCHED_OK);
    is_first = r == 0;
    EXPECT_EQ(is_first ? lsched_add_copy(b, {in, 0, count}, {out, 0, count}, &done)
                       : lsched_add_recv(b, r - 1, 0, {below, 0, count}, &got),
              LSCHED_OK);
    EXPECT_EQ(r + 1 < size ? lsched_add_send(b, r + 1, 0, {out, 0, count}, &sent) : LSCHED_OK, LSCHED_OK);
  }
  lsched_builder* b = nullptr;
  lsched_slot in{}, out{}, below{};
  lsched_op got{}, done{}, sent{};
  bool is_first = false;
};

TEST(c_user_op, a_schedule_by_hand_calls_it) {
  constexpr rank k_size = 5;
  std::vector<numbers> inputs;
  for (rank r = 0; r < k_size; ++r) inputs.push_back(input_of(r, 6));
  as_ranks(k_size, [&](lsched_world* runtime, rank r) {
    calls of;
    const lsched_user_op how = composition(of);
    numbers input = input_of(r, 6), output(6);
    chain it(runtime, r, k_size, 6);
    if (!it.is_first) {
      EXPECT_EQ(
          lsched_add_reduce(it.b, lsched_reduction{}, &how, {it.below, 0, 6}, {it.in, 0, 6}, {it.out, 0, 6}, &it.done),
          LSCHED_OK);
      EXPECT_EQ(lsched_add_dep(it.b, it.got, it.done), LSCHED_OK);
    }
    EXPECT_EQ(r + 1 < k_size ? lsched_add_dep(it.b, it.done, it.sent) : LSCHED_OK, LSCHED_OK);
    const void* ins[] = {input.data()};
    void* outs[] = {output.data()};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_builder_commit(it.b, runtime, ins, outs, &schedule, &why), LSCHED_OK) << why.text;
    ASSERT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    promised_range wanted{.end = 6};
    for (rank below = 0; below <= r; ++below) wanted.among.push_back(below);
    EXPECT_EQ(broken(wanted, inputs, output), "");
    EXPECT_EQ(of.made, r == 0 ? 0u : 1u);
    std::vector<char> text(4096);
    EXPECT_EQ(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, text.data(), text.size(), nullptr), LSCHED_OK);
    EXPECT_EQ(std::string(text.data()).find(" = user b2[0 +6] b0[0 +6]") != std::string::npos, r != 0) << text.data();
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);

    // A text cannot hold the user's function, so loading the schedule from a text must fail.
    EXPECT_EQ(lsched_schedule_load(runtime, text.data(), std::strlen(text.data()), ins, outs, &schedule, &why),
              LSCHED_ERR_ARGUMENT);
    const std::string_view said = why.text;
    EXPECT_NE(said.find("cannot combine data with a user_op, because the call passes no user_op"), said.npos) << said;
  });
}

void expect_refused_by_hand(const std::function<lsched_status(lsched_builder*, lsched_slot, lsched_user_op&)>& add,
                            const std::string& words) {
  as_ranks(1, [&](lsched_world* runtime, rank) {
    calls of;
    lsched_user_op how = composition(of);
    lsched_builder* b = nullptr;
    lsched_slot slot{};
    EXPECT_EQ(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime), nullptr, &b), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_SCRATCH, LSCHED_U64, 8, &slot), LSCHED_OK);
    EXPECT_EQ(add(b, slot, how), LSCHED_ERR_ARGUMENT);
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_builder_commit(b, runtime, nullptr, nullptr, &schedule, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_NE(std::string(why.text).find(words), std::string::npos) << why.text;
  });
}

TEST(c_user_op, what_a_builder_cannot_do_with_it) {
  const auto reduce = [](lsched_builder* b, lsched_slot s, const lsched_user_op* op, std::uint64_t from,
                         std::uint64_t count) {
    return lsched_add_reduce(b, lsched_reduction{}, op, {s, from, count}, {s, from, count}, {s, from, count}, nullptr);
  };
  expect_refused_by_hand([&](auto* b, auto s, auto&) { return reduce(b, s, nullptr, 0, 2); }, "user_op is null");
  expect_refused_by_hand([&](auto* b, auto s, auto& op) { return reduce(b, s, &op, 1, 2); }, "is not whole units");
  expect_refused_by_hand([&](auto* b, auto s, auto& op) { return reduce(b, s, &op, 0, 3); }, "is not whole units");
  expect_refused_by_hand([&](auto* b, auto s, auto& op) { return op.dtype = LSCHED_F32, reduce(b, s, &op, 0, 2); },
                         "has another dtype");
  expect_refused_by_hand(
      [&](auto* b, auto s, auto& op) {
        EXPECT_EQ(reduce(b, s, &op, 0, 2), LSCHED_OK);
        op.unit = 1;
        return reduce(b, s, &op, 0, 2);
      },
      "must use the same user_op");
  expect_refused_by_hand(
      [](auto* b, auto s, auto& op) {
        return lsched_add_reduce(b, lsched_reduction{}, &op, {s, 0, 2}, {s, 0, 4}, {s, 0, 2}, nullptr);
      },
      "different counts");
}

}  // namespace
}  // namespace lsched::testing
