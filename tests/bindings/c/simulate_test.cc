// Tests of simulations through lsched.h. The times must equal the times of the library's simulator and of the command
// `lsched simulate`, to the picosecond. Bad arguments must be refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/simulate/simulation.h"
#include "collectives/registry.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "tests/support/shell.h"

namespace lsched::testing {
namespace {

struct answer {
  lsched_status status = LSCHED_ERR_INTERNAL;
  lsched_simulation figures{.struct_size = sizeof(lsched_simulation)};
  std::vector<std::uint64_t> finish_ps;
  lsched_diagnostic why{.struct_size = sizeof(lsched_diagnostic)};
};

answer ask(const lsched_simulate_desc& desc, std::size_t ranks = 8) {
  answer it;
  it.finish_ps.assign(ranks, 0);
  it.status = lsched_simulate(&desc, &it.figures, it.finish_ps.data(), ranks, &it.why);
  return it;
}

lsched_simulate_desc defaults() { return {.struct_size = sizeof(lsched_simulate_desc), .round = 1}; }

lsched_simulate_desc describe(const char* collective, const char* algorithm, rank ranks, std::uint64_t count) {
  lsched_simulate_desc desc = defaults();
  desc.collective = collective;
  desc.algorithm = algorithm;
  desc.ranks = ranks;
  desc.count = count;
  desc.dtype = LSCHED_F32;
  desc.reduction = LSCHED_SUM;
  return desc;
}

lsched_simulate_desc describe(const std::string& text) {
  lsched_simulate_desc desc = defaults();
  desc.text = text.data();
  desc.bytes = text.size();
  return desc;
}

std::string text_of(const std::vector<schedule_ptr>& ranks) {
  std::string all;
  for (const schedule_ptr& it : ranks) all += to_text(*it);
  return all;
}

void expect_same(const answer& it, const std::vector<schedule_ptr>& ranks, const simulation& what) {
  const auto expected = simulate_schedules(ranks, what);
  ASSERT_EQ(it.status, LSCHED_OK) << it.why.text;
  ASSERT_TRUE(expected);
  EXPECT_EQ(it.figures.ranks, static_cast<rank>(ranks.size()));
  for (std::size_t r = 0; r < ranks.size(); ++r)
    EXPECT_EQ(it.finish_ps[r], static_cast<std::uint64_t>(expected->finish[r])) << r;
  EXPECT_EQ(it.figures.last_ps, static_cast<std::uint64_t>(expected->last()));
  EXPECT_EQ(it.figures.messages, expected->messages);
  EXPECT_EQ(it.figures.bytes, expected->bytes);
  EXPECT_EQ(it.figures.signals, expected->signals);
  EXPECT_EQ(it.figures.nic_waits, expected->nic_waits);
  EXPECT_EQ(it.figures.active, expected->active);
}

std::vector<schedule_ptr> world_of(const lsched_simulate_desc& desc, const activation& starts = {}) {
  const algorithm& how = *find(desc.collective, desc.algorithm);
  shape data{.count = desc.count, .type = dtype::f32, .root = desc.root};
  if (how.of->reduces) data.what = kernel::sum;
  auto ranks = generate_world(how, desc.ranks, data, starts);
  EXPECT_TRUE(ranks);
  return *ranks;
}

TEST(c_simulate, registered_algorithms_take_what_their_schedules_take) {
  for (const rank ranks : {1, 3, 5, 6, 7, 8})
    for (const std::uint64_t count : {0u, 1u, 1000u, 50'000u}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, count " + std::to_string(count));
      auto desc = describe("allreduce", "ring", ranks, count);
      expect_same(ask(desc), world_of(desc), {});
      desc = describe("allreduce", "recursive_doubling", ranks, count);
      expect_same(ask(desc), world_of(desc), {});
      desc = describe("reduce", "binomial", ranks, count);
      desc.root = ranks / 2;
      expect_same(ask(desc), world_of(desc), {});
    }
}

TEST(c_simulate, a_partial_round_goes_by_its_callers) {
  for (const rank ranks : {3, 5, 6, 7}) {
    auto desc = describe("partial_allreduce", "tree", ranks, 40);
    desc.activation = "majority";
    desc.initiator = 1;
    desc.round = 3;
    std::vector<std::uint64_t> starts_ns;
    for (rank r = 0; r < ranks; ++r) starts_ns.push_back(static_cast<std::uint64_t>(r) * 70'000);
    desc.starts_ns = starts_ns.data();
    auto starts = *read_activation("majority");
    starts.seed = 1;
    const simulation what{.skew = {.kind = skew_kind::linear, .scale = 70'000'000}, .instance = 3, .initiator = 1};
    const answer it = ask(desc);
    expect_same(it, world_of(desc, starts), what);
    EXPECT_LT(it.figures.active, ranks) << "some ranks must call after the capture";
  }
}

TEST(c_simulate, a_round_alone_cannot_choose_a_deadline) {
  auto desc = describe("partial_allreduce", "tree", 3, 40);
  desc.activation = "deadline(auto)";
  const answer it = ask(desc);
  EXPECT_EQ(it.status, LSCHED_ERR_ARGUMENT);
  EXPECT_NE(std::string(it.why.text).find("use deadline(microseconds)"), std::string::npos) << it.why.text;
}

TEST(c_simulate, the_schedules_of_a_text_take_what_they_take_unprinted) {
  for (const rank ranks : {1, 3, 5, 6, 7})
    for (const std::uint64_t count : {0u, 1u, 1000u}) {
      const auto world = world_of(describe("allreduce", "tree", ranks, count));
      const std::string text = text_of(world);
      expect_same(ask(describe(text)), world, {});
      auto starts = *read_activation("solo");
      const auto partial = world_of(describe("partial_allreduce", "tree", ranks, count), starts);
      const std::string composed = text_of(partial);
      expect_same(ask(describe(composed)), partial, {});
    }
}

TEST(c_simulate, a_sparse_allreduce_has_rounds_of_its_own) {
  lsched_simulate_desc desc = defaults();
  const lsched_sparse_desc sparse{
      .struct_size = sizeof sparse, .count = 10'000, .k = 100, .dtype = LSCHED_F32, .algorithm = "oktopk"};
  desc.sparse = &sparse;
  desc.ranks = 5;
  std::array<std::uint64_t, 2> messages{};
  for (const std::uint64_t round : {1u, 2u}) {
    desc.round = round;
    std::vector<schedule_ptr> ranks;
    for (rank r = 0; r < 5; ++r)
      ranks.push_back(*find_sparse("oktopk")->generate({.count = 10'000, .k = 100, .place = {r, 5}}));
    const answer it = ask(desc);
    expect_same(it, ranks, {.instance = round});
    messages[round - 1] = it.figures.messages;
  }
  EXPECT_GT(messages[0], messages[1]) << "round 1 adjusts the boundaries";
}

TEST(c_simulate, the_default_machine_is_that_of_the_library) {
  const machine where;
  const lsched_machine given = LSCHED_DEFAULT_MACHINE;
  const loggops& cost = where.levels.front().cost;
  const std::array<double, 6> expected{
      static_cast<double>(cost.L) / 1000,      static_cast<double>(cost.o) / 1000,
      static_cast<double>(cost.g) / 1000,      static_cast<double>(cost.G) / 1'000'000,
      static_cast<double>(cost.O) / 1'000'000, static_cast<double>(where.compute) / 1'000'000};
  EXPECT_EQ((std::array<double, 6>{given.L, given.o, given.g, given.G, given.O, given.compute}), expected);
  EXPECT_EQ(given.S, where.S);
}

TEST(c_simulate, the_machine_is_the_callers) {
  auto desc = describe("allreduce", "recursive_doubling", 6, 1000);
  const lsched_machine given{.L = 1000.5, .o = 0.25, .g = 3, .G = 0.04, .O = 0.5, .compute = 0.125, .S = 100};
  desc.machine = &given;
  machine where{.S = 100, .compute = 125'000};
  where.levels[0].cost = {.L = 1'000'500, .o = 250, .g = 3000, .G = 40'000, .O = 500'000};
  expect_same(ask(desc), world_of(desc), {.where = where});
}

std::string output_of(const std::string& command) {
  const auto made = testing::run_shell("timeout 60 " LSCHED_TEST_COMMAND " " + command);
  EXPECT_EQ(made.status, 0) << command;
  return made.output;
}

/// Runs `lsched simulate`. Returns the time "finish_us" of the summary, converted to picoseconds.
std::uint64_t told_by_command(const std::string& command) {
  const std::string out = output_of(command + " --json -");
  const std::string lines = out.substr(0, out.find_last_not_of('\n') + 1);
  const auto summary = nlohmann::json::parse(lines.substr(lines.rfind('\n') + 1));
  return static_cast<std::uint64_t>(std::llround(summary["finish_us"].get<double>() * 1e6));
}

TEST(c_simulate, the_command_says_the_same) {
  for (const rank ranks : {3, 5, 6, 7}) {
    auto desc = describe("allreduce", "rabenseifner", ranks, 40'004);
    desc.dtype = LSCHED_U8;
    const std::string size = std::to_string(ranks);
    EXPECT_EQ(ask(desc).figures.last_ps,
              told_by_command("simulate --algorithm rabenseifner --bytes 40004 --ranks " + size));

    const std::string path = ::testing::TempDir() + "lsched_c_simulate_" + std::to_string(getpid()) + ".sched";
    const std::string text = output_of("show allreduce --algorithm rabenseifner --all --count 999 --ranks " + size);
    std::ofstream(path) << text;
    desc = describe(text);
    lsched_machine slow = LSCHED_DEFAULT_MACHINE;
    slow.compute = 0.5;
    desc.machine = &slow;
    EXPECT_EQ(ask(desc).figures.last_ps, told_by_command("simulate --compute 0.5 " + path));
    std::remove(path.c_str());
  }
}

TEST(c_simulate, room_for_fewer_ranks_is_enough) {
  auto desc = describe("allreduce", "ring", 7, 10);
  const answer it = ask(desc, 3);
  EXPECT_EQ(it.status, LSCHED_OK);
  EXPECT_EQ(it.finish_ps.size(), 3u);
  lsched_simulation figures{.struct_size = sizeof figures};
  EXPECT_EQ(lsched_simulate(&desc, &figures, nullptr, 0, nullptr), LSCHED_OK);
  EXPECT_EQ(figures.last_ps, it.figures.last_ps);
}

// --- bad arguments -----------------------------------------------------------------------------------------

/// Checks that the request is refused with `code` and an error text that contains `words`, and that the call writes
/// nothing but the diagnostic.
void expect_refused(lsched_status code, const lsched_simulate_desc& desc, const std::string& words) {
  const answer before, it = ask(desc);
  EXPECT_EQ(it.status, code) << words;
  EXPECT_NE(std::strstr(it.why.text, words.c_str()), nullptr) << it.why.text << ", not " << words;
  EXPECT_EQ(std::memcmp(&it.figures, &before.figures, sizeof it.figures), 0);
  EXPECT_EQ(it.finish_ps, std::vector<std::uint64_t>(it.finish_ps.size(), 0));
}

TEST(c_simulate, bad_requests_are_refused_and_nothing_is_written) {
  auto desc = describe("allreduce", "ring", 3, 7);
  lsched_machine where = LSCHED_DEFAULT_MACHINE;
  const auto refuse = [&](lsched_status code, const std::string& words) {
    desc.machine = &where;
    expect_refused(code, desc, words);
    desc = describe("allreduce", "ring", 3, 7);
    where = LSCHED_DEFAULT_MACHINE;
  };
  const lsched_sparse_desc sparse{.struct_size = sizeof sparse};
  desc.struct_size = 8, refuse(LSCHED_ERR_ARGUMENT, "struct_size");
  desc.reserved = 1, refuse(LSCHED_ERR_VERSION, "reserved");
  desc.collective = nullptr, refuse(LSCHED_ERR_ARGUMENT, "exactly one of text");
  desc.text = "", refuse(LSCHED_ERR_ARGUMENT, "exactly one of text");
  desc.sparse = &sparse, refuse(LSCHED_ERR_ARGUMENT, "exactly one of text");
  desc.collective = nullptr, desc.sparse = &sparse, refuse(LSCHED_ERR_ARGUMENT, "dtype");
  desc.collective = "telepathy", refuse(LSCHED_ERR_ARGUMENT, "there is no collective \"telepathy\"");
  desc.algorithm = "magic", refuse(LSCHED_ERR_ARGUMENT, "no algorithm \"magic\"");
  for (const int32_t ranks : {0, -1, (1 << 24) + 1}) desc.ranks = ranks, refuse(LSCHED_ERR_ARGUMENT, "from 1 to 2^24");
  desc.root = 1, refuse(LSCHED_ERR_ARGUMENT, "root");
  desc.collective = "reduce", desc.algorithm = "binomial", desc.root = 3, refuse(LSCHED_ERR_ARGUMENT, "root");
  desc.count = std::uint64_t{1} << 48, refuse(LSCHED_ERR_ARGUMENT, "above the largest count");
  desc.reduction = LSCHED_BXOR, refuse(LSCHED_ERR_ARGUMENT, "bxor is not defined for f32");
  desc.activation = "solo", refuse(LSCHED_ERR_ARGUMENT, "only partial collectives");
  for (const int32_t initiator : {-1, 3}) desc.initiator = initiator, refuse(LSCHED_ERR_ARGUMENT, "initiator");
  for (const std::uint64_t round : {std::uint64_t{0}, UINT64_MAX})
    desc.round = round, refuse(LSCHED_ERR_ARGUMENT, "round");
  for (const double time : {-1.0, 1.1e12, std::numeric_limits<double>::quiet_NaN(), HUGE_VAL})
    for (double lsched_machine::*cost : {&lsched_machine::L, &lsched_machine::compute})
      where.*cost = time, refuse(LSCHED_ERR_ARGUMENT, "is not from 0 to 1e12 ns");
  where.L = where.o = 0, refuse(LSCHED_ERR_ARGUMENT, "a message takes no time");
  where.G = 1e12, where.S = UINT64_MAX, desc.count = 100'000, refuse(LSCHED_ERR_UNSUPPORTED, "simulated time");
  const std::array<std::uint64_t, 3> starts_ns{0, 1, 2'000'000'000'000};
  desc.starts_ns = starts_ns.data(), refuse(LSCHED_ERR_ARGUMENT, "starts_ns[2]");
}

TEST(c_simulate, bad_text_is_refused_with_its_place) {
  expect_refused(LSCHED_ERR_ARGUMENT, describe("rubbish"), "line 1");
  constexpr const char* k_header = "libsched schedule 2\nname \"x\"\nrank ";
  const std::string of_two = " of 2\nflags\nactivation none seed 0\n", buffer = "buffer 0 input host f32 1\n";
  const std::string quiet = k_header + ("1" + of_two) + "op 0 nop\nexit 0\n";
  expect_refused(LSCHED_ERR_ARGUMENT, describe(quiet), "rank 0 of 2 is missing");
  const std::string lonely = k_header + ("0" + of_two) + buffer + "op 0 send f32 b0[0 +1] to 1 tag 5\nexit 0\n" + quiet;
  expect_refused(LSCHED_ERR_UNMATCHED, describe(lonely), "rank 1 has no receive of tag 5 from rank 0");
  const std::string deaf =
      k_header + ("0" + of_two) + "buffer 0 output host f32 1\nop 0 recv f32 b0[0 +1] from 1 tag 5\nexit 0\n" + quiet;
  expect_refused(LSCHED_ERR_STATE, describe(deaf), "rank 0 waits forever for a message from rank 1");
}

TEST(c_simulate, null_arguments_are_errors) {
  const auto desc = describe("allreduce", "ring", 3, 7);
  answer it;
  std::uint64_t room[3];
  EXPECT_EQ(lsched_simulate(nullptr, &it.figures, room, 3, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_simulate(&desc, nullptr, room, 3, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_simulate(&desc, &it.figures, nullptr, 3, nullptr), LSCHED_ERR_ARGUMENT);
  it.figures.struct_size = 0;
  EXPECT_EQ(lsched_simulate(&desc, &it.figures, room, 3, nullptr), LSCHED_ERR_ARGUMENT);
}

}  // namespace
}  // namespace lsched::testing
