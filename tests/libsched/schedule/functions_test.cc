// Tests of functions. A function is an operation that the instance implements, rather than the kernel table. The tests
// cover compile(), verify() and the engine. Sparse allreduces consist of functions, too
// (tests/collectives/sparse_proof_test.cc).
#include "libsched/schedule/functions.h"

#include <gtest/gtest.h>

#include <numeric>

#include "libsched/schedule/builder.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"
#include "tests/support/lockstep_world.h"
#include "tests/verify_oracle/interleavings.h"

namespace lsched::testing {
namespace {

enum : std::uint32_t { k_split, k_add, k_count, k_join };

/// The faults that a test can plant in an allreduce with functions. Every rank splits its input into one part for each
/// rank. The rank folds (adds up) the parts that it receives. Then it joins the sums of all ranks.
struct function_world {
  bool sends_other_part = false;  ///< sends to each rank the part for the next rank
  bool forgets_first = false;     ///< drops the part of rank 0, and folds the part of rank 1 twice
  bool turns_sums = false;        ///< joins the sums in a wrong order
  bool goes_by_own = false;       ///< makes the join depend on a value that differs between ranks
  bool is_ordered = true;         ///< whether deps order the functions
};

std::uint64_t wide(rank r) { return static_cast<std::uint64_t>(r); }

void write(builder& to, const function_world& how) {
  const auto [self, size] = to.place();
  const std::uint64_t ranks = wide(size);
  const buffer_id in = to.input(dtype::i64, ranks), out = to.output(dtype::i64, ranks);
  const buffer_id parts = to.scratch(dtype::i64, ranks), received = to.scratch(dtype::i64, ranks);
  const buffer_id sum = to.scratch(dtype::i64, 1), sums = to.scratch(dtype::i64, ranks);
  const buffer_id own = to.scratch(dtype::u64, 1), number = to.scratch(dtype::u64, 1);
  const auto at = [](buffer_id buffer, rank r) { return region(buffer, wide(r)); };
  const op_id split = to.apply(kernel::split, k_split, in, k_no_buffer, parts);
  const op_id all = to.nop({split});
  for (rank r = 0; r < size; ++r) {
    const rank part = how.sends_other_part ? (r + 1) % size : r;
    if (r == self) to.dep(to.copy(at(parts, part), at(received, r), 1, {split}), all);
    if (r == self) continue;
    to.send(r, 0, at(parts, part), 1, {split});
    to.dep(to.recv(r, 0, at(received, r), 1), all);
  }
  op_id ready = all;
  if (how.forgets_first) ready = to.copy(at(received, 1), at(received, 0), 1, {all});
  const op_id folded = to.apply(kernel::fold, k_add, received, k_no_buffer, sum, {ready});
  const op_id counted = to.apply(kernel::derive, k_count, sum, k_no_buffer, own, {folded});
  const op_id agreed = to.copy({own, 0}, {number, 0}, how.goes_by_own ? 1 : 0, {counted});
  const op_id known = to.nop({to.copy({sum, 0}, at(sums, self), 1, {folded}), agreed});
  for (rank r = 0; r < size; ++r) {
    if (r == self) continue;
    to.send(r, 1, {sum, 0}, 1, {folded});
    to.dep(to.recv(r, 1, at(sums, r), 1), known);
  }
  op_id last = known;
  if (how.turns_sums) {
    const buffer_id turned = to.scratch(dtype::i64, ranks);
    last = to.nop(
        {to.copy({sums, 1}, {turned, 0}, ranks - 1, {known}), to.copy({sums, 0}, {turned, ranks - 1}, 1, {known})});
    to.apply(kernel::join, k_join, turned, k_no_buffer, out, {last});
  } else {
    to.apply(kernel::join, k_join, sums, how.goes_by_own ? number : k_no_buffer, out, {how.is_ordered ? last : folded});
  }
  to.declare_synchronising();
}

std::vector<schedule_ptr> world_of(rank size, const function_world& how = {}) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    builder to({self, size}, "functions");
    write(to, how);
    const auto made = to.compile();
    if (!made) ADD_FAILURE() << made.error().text;
    if (!made) return {};
    world.push_back(*made);
  }
  return world;
}

verification proof_of(rank size, const function_world& how = {}) {
  return verify(world_of(size, how), reduced_everywhere(size, wide(size), kernel::fold, true));
}

std::string text_of(const verification& answer) {
  std::string all;
  for (const finding& it : answer.findings) all += std::string(name_of(it.what)) + ": " + it.text + "\n";
  return all;
}

TEST(functions, a_world_of_them_is_proved) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8}) EXPECT_TRUE(proof_of(size).holds()) << text_of(proof_of(size));
}

void expect_finding(const function_world& how, const std::string& words, rank size = 3) {
  const verification answer = proof_of(size, how);
  EXPECT_FALSE(answer.holds());
  EXPECT_NE(text_of(answer).find(words), std::string::npos) << text_of(answer);
}

TEST(functions, parts_that_go_astray_are_noticed) {
  expect_finding({.sends_other_part = true}, "joins data that is not all parts of one value in order");
  expect_finding({.forgets_first = true}, "the contribution of rank 0 is missing");
  expect_finding({.turns_sums = true}, "joins data that is not all parts of one value in order");
}

TEST(functions, what_they_go_by_is_the_same_on_all_ranks) {
  expect_finding({.goes_by_own = true}, "uses other numbers than the same function on other ranks");
}

TEST(functions, deps_order_them) {
  expect_finding({.is_ordered = false}, "in an order that no deps of the rank define");
}

TEST(functions, their_orders_are_not_played) {
  const interleaving_verdict answer = play(world_of(2), reduced_everywhere(2, 2, kernel::fold, true));
  EXPECT_EQ(answer.what, conclusion::undecided);
  EXPECT_EQ(answer.why, "ops that call functions");
}

TEST(functions, text_is_read_back) {
  for (const schedule_ptr& it : world_of(3, {.goes_by_own = true})) {
    const auto read = parse_schedule(to_text(*it));
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_EQ(**read, *it);
    EXPECT_NE(to_text(*it).find("= split b0[0 +3] function 0"), std::string::npos) << to_text(*it);
    EXPECT_NE(to_text(*it).find("= join b5[0 +3] by b7[0 +1] function 3"), std::string::npos) << to_text(*it);
  }
}

TEST(functions, what_no_function_can_do_is_refused) {
  const auto refusal = [](const std::function<void(builder&)>& append) {
    builder to({0, 1}, "refused");
    append(to);
    const auto made = to.compile();
    return made ? std::string() : made.error().text;
  };
  EXPECT_NE(refusal([](builder& to) {
              const buffer_id it = to.scratch(dtype::i64, 2);
              to.apply(kernel::sum, 0, it, k_no_buffer, to.output(dtype::i64, 2));
            }).find("the kernel is not a function"),
            std::string::npos);
  EXPECT_NE(
      refusal([](builder& to) { to.apply(kernel::fold, 0, to.scratch(dtype::i64, 2), 7, to.output(dtype::i64, 2)); }),
      "");
  EXPECT_NE(refusal([](builder& to) {
              const buffer_id it = to.input(dtype::i64, 2);
              to.apply(kernel::fold, 0, it, k_no_buffer, it);
            }),
            "");
}

// --- the engine ----------------------------------------------------------------------------------------------------

class adding : public functions {
 public:
  status answer = status::ok;  ///< result of all calls
  std::vector<std::uint32_t> calls;

  status call(std::uint32_t number, round_no, const function_input& source, const function_input& by,
              const function_output& target) override {
    calls.push_back(number);
    const auto from = source.numbers<std::int64_t>();
    const auto to = target.numbers<std::int64_t>();
    EXPECT_EQ(by.count, 0u);
    if (number == k_split || number == k_join) std::copy(from.begin(), from.end(), to.begin());
    if (number == k_add) to[0] = std::accumulate(from.begin(), from.end(), std::int64_t{0});
    return number == k_add ? answer : status::ok;
  }
};

struct bench {
  explicit bench(rank size, std::uint64_t seed) : world(size, seed), ranks(static_cast<std::size_t>(size)) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      inputs.emplace_back(ranks.size());
      outputs.emplace_back(ranks.size());
      for (std::size_t i = 0; i < ranks.size(); ++i) inputs[r][i] = static_cast<std::int64_t>(100 * r + i);
      ranks[r] = std::make_shared<adding>();
    }
  }

  commit_request request(rank self, bool has_functions = true) {
    const auto r = static_cast<std::size_t>(self);
    return {"functions",
            world_of(world.size())[r],
            {{reinterpret_cast<const std::byte*>(inputs[r].data())}, {reinterpret_cast<std::byte*>(outputs[r].data())}},
            {.local = has_functions ? ranks[r] : nullptr}};
  }

  lockstep_world world;
  std::vector<std::shared_ptr<adding>> ranks;
  std::vector<std::vector<std::int64_t>> inputs, outputs;
};

TEST(functions, are_called_in_their_order_in_every_round) {
  for (const rank size : {1, 2, 3, 5, 7, 4}) {
    bench it(size, wide(size));
    const auto made = it.world.commit([&](rank r) { return it.request(r); });
    ASSERT_EQ(made.size(), it.ranks.size());
    for (int round = 0; round < 3; ++round) ASSERT_TRUE(it.world.run_round(made));
    for (std::size_t r = 0; r < it.ranks.size(); ++r) {
      const std::vector<std::uint32_t> once{k_split, k_add, k_count, k_join};
      std::vector<std::uint32_t> wanted;
      for (int round = 0; round < 3; ++round) wanted.insert(wanted.end(), once.begin(), once.end());
      EXPECT_EQ(it.ranks[r]->calls, wanted);
      for (std::size_t i = 0; i < it.ranks.size(); ++i) {
        std::int64_t sum = 0;
        for (const auto& input : it.inputs) sum += input[i];
        EXPECT_EQ(it.outputs[r][i], sum);
      }
    }
  }
}

TEST(functions, that_fail_end_the_schedule_with_their_status) {
  bench it(3, 1);
  it.ranks[1]->answer = status::bounds;
  const auto made = it.world.commit([&](rank r) { return it.request(r); });
  ASSERT_EQ(made.size(), 3u);
  for (rank r = 0; r < 3; ++r) lockstep_world::start(it.world.at(r), *made[static_cast<std::size_t>(r)]);
  ASSERT_TRUE(it.world.run_until([&] { return made[1]->verdict.load() != status::ok; }));
  EXPECT_EQ(made[1]->verdict.load(), status::bounds);
}

TEST(functions, that_are_missing_are_an_argument) {
  bench it(2, 1);
  const auto outcomes = it.world.try_commit([&](rank r) { return it.request(r, false); });
  for (const auto& one : outcomes) {
    EXPECT_EQ(one.it, nullptr);
    EXPECT_EQ(one.why.code, status::argument);
    EXPECT_NE(one.why.text.find("needs the functions of a sparse allreduce"), std::string::npos) << one.why.text;
  }
}

}  // namespace
}  // namespace lsched::testing
