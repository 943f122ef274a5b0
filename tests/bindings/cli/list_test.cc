// Tests of `lsched list`: the algorithms, their costs, and the chosen algorithm. The command must show an algorithm if
// and only if a create of the C interface accepts the algorithm.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/algorithm/collective.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "tests/bindings/cli/command_line.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::int32_t k_ranks = 3;
constexpr std::uint64_t k_count = 12;

struct request {
  const char* type_word;
  lsched_dtype type;
  const char* reduction_word;
  lsched_reduction reduction;
  bool is_mean;

  std::string options() const {
    return " -n 3 --count 12 --k 2 --dtype " + std::string(type_word) + " --op " + reduction_word +
           (is_mean ? " --mean" : "");
  }
};

std::vector<request> requests() {
  std::vector<request> all;
  for (const auto& [type_word, type] : {std::pair("i32", LSCHED_I32), {"bf16", LSCHED_BF16}, {"f32", LSCHED_F32}})
    for (const auto& [word, reduction] : {std::pair("sum", LSCHED_SUM), {"max", LSCHED_MAX}, {"band", LSCHED_BAND}})
      for (const bool is_mean : {false, true}) all.push_back({type_word, type, word, reduction, is_mean});
  return all;
}

/// Creates the schedule that an entry of the list describes, on one rank. Returns the status.
lsched_status create(lsched_world* world, const request& of, const json& entry) {
  std::array<double, k_count * k_ranks> in{}, out{};
  const auto algorithm = entry["algorithm"].get<std::string>();
  auto collective = entry["collective"].get<std::string>();
  const lsched_divisor divisor = of.is_mean ? LSCHED_DIVIDE_BY_RANKS : LSCHED_DIVIDE_BY_NONE;
  const bool combines = collective.find("adasum") == std::string::npos;
  const lsched_reduction reduction = combines ? of.reduction : lsched_reduction{};
  lsched_schedule* schedule = nullptr;
  lsched_status answer = LSCHED_ERR_INTERNAL;
  if (collective == "sparse_allreduce") {
    const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                  .gradient = in.data(),
                                  .update = out.data(),
                                  .count = k_count,
                                  .k = 2,
                                  .dtype = of.type,
                                  .algorithm = algorithm.c_str()};
    answer = lsched_sparse_create(world, &desc, &schedule, nullptr);
  } else if (collective.starts_with("partial_")) {
    collective.erase(0, std::string_view("partial_").size());
    const lsched_partial_desc desc{.struct_size = sizeof desc,
                                   .collective = collective.c_str(),
                                   .count = k_count,
                                   .dtype = of.type,
                                   .reduction = reduction,
                                   .activation = "solo",
                                   .divisor = divisor,
                                   .algorithm = algorithm.c_str()};
    answer = lsched_partial_create(world, &desc, &schedule, nullptr);
  } else {
    const std::array<std::uint64_t, k_ranks> counts{k_count, k_count, k_count};
    const bool has_counts = collective == "reduce_scatter";
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = collective.c_str(),
                                      .input = in.data(),
                                      .output = out.data(),
                                      .count = has_counts ? 0 : k_count,
                                      .counts = has_counts ? counts.data() : nullptr,
                                      .dtype = of.type,
                                      .reduction = reduction,
                                      .algorithm = algorithm.c_str(),
                                      .divisor = divisor};
    answer = lsched_collective_create(world, &desc, &schedule, nullptr);
  }
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
  return answer;
}

/// Returns whether the test compares this entry of the list. The test compares collectives that combine contributions
/// by the operation of --op, and partial allgathers. All other collectives ignore --op and --mean. The test does not
/// compare baselines.
bool is_compared(const json& entry) {
  if (entry["constraints"]["summary"].get<std::string>().find("a baseline of") != std::string::npos) return false;
  for (const char* name : {"allreduce", "reduce", "scan"})
    if (entry["collective"].get<std::string>().find(name) != std::string::npos) return true;
  return entry["collective"] == "partial_allgather";
}

TEST(list, shows_the_algorithms_that_a_create_accepts) {
  const world_of_threads world(k_ranks);
  std::size_t accepted = 0, refused = 0;
  for (const request& of : requests()) {
    const json listed = json::parse(shell("lsched list --json -" + of.options()).out);
    const std::string text = shell("lsched list" + of.options()).out;
    const std::string shown = text.substr(0, text.find("\nNot available for this request:\n"));
    for (const json& entry : listed) {
      if (!is_compared(entry)) continue;
      std::array<lsched_status, k_ranks> answers{};
      world.each(
          [&](lsched_world* mine, std::int32_t r) { answers[static_cast<std::size_t>(r)] = create(mine, of, entry); });
      const std::string name = entry["collective"].get<std::string>() + "/" + entry["algorithm"].get<std::string>();
      char line[64];
      std::snprintf(line, sizeof line, "\n%-28s %-21s", entry["collective"].get<std::string>().c_str(),
                    entry["algorithm"].get<std::string>().c_str());
      const bool is_accepted = answers[0] == LSCHED_OK;
      EXPECT_EQ(is_accepted, entry["objection"].is_null()) << name << of.options() << ": " << entry["objection"];
      EXPECT_EQ(is_accepted, shown.find(line) != std::string::npos) << name << of.options();
      ++(is_accepted ? accepted : refused);
    }
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(refused, 100u);
}

TEST(CommandList, explains_the_choice_for_nodes) {
  words ask{"list", "allreduce", "--explain", "--ranks", "64", "--ranks-per-core", "1", "--count", "65536"};
  const std::string one = run(lsched(ask)).out;
  ask.insert(ask.end(), {"--ranks-per-node", "16"});
  const std::string four = run(lsched(ask)).out;
  EXPECT_TRUE(contains(one, "\nFor 64 ranks on 1 node, 1 per core")) << one;
  EXPECT_TRUE(contains(four, "\nFor 64 ranks on 4 nodes, 1 per core")) << four;
  const auto ring = [](const std::string& told) { return told.substr(told.find("\n    ring "), 60); };
  EXPECT_NE(ring(one), ring(four));  // messages between nodes cost more than messages inside a node
}

/// In the algorithm `halving`, a tensor inside the block of one rank needs no exchange of sums. The prediction
/// therefore depends on the tensors.
TEST(CommandList, explains_the_choice_for_as_many_tensors_as_asked_for) {
  const auto predicted = [](words tensors) {
    words ask{"list", "--explain", "--json", "-", "--ranks", "8", "--count", "64"};
    ask.insert(ask.end(), tensors.begin(), tensors.end());
    const outcome it = run_well(lsched(ask));
    for (const json& entry : json::parse(it.out))
      for (const json& one : entry["candidates"])
        if (entry["collective"] == "adasum" && one["algorithm"] == "halving") return one["predicted_us"].get<double>();
    return 0.0;
  };
  EXPECT_EQ(predicted({}), predicted({"--tensors", "1"}));
  EXPECT_LT(predicted({"--tensors", "8"}), predicted({}));
}

TEST(CommandList, declared_costs_are_those_of_the_schedules_shown) {
  for (const std::string ranks : {"1", "3", "6", "8"}) {
    const outcome listed =
        run_well(lsched({"list", "--json", "-", "--ranks", ranks, "--count", "10", "--dtype", "f64"}));
    for (const json& entry : json::parse(listed.out)) {
      const auto collective = entry["collective"].get<std::string>();
      if (collective == "sparse_allreduce") continue;  // the list has only estimates of the costs
      const outcome shown = run_well(lsched({"show", collective, "--algorithm", entry["algorithm"], "--ranks", ranks,
                                             "--all", "--count", "10", "--dtype", "f64", "--json", "-"}));
      std::uint64_t messages = 0;
      std::uint64_t bytes = 0;
      for (const json& program : json::parse(shown.out))
        for (const json& op : program["ops"]) {
          if (op["kind"] != "send") continue;
          ++messages;
          bytes += op["count"].get<std::uint64_t>() * 8;
        }
      EXPECT_EQ(entry["cost"]["messages"], messages) << collective << " on " << ranks;
      EXPECT_EQ(entry["cost"]["bytes"], bytes) << collective << " on " << ranks;
    }
  }
}

TEST(CommandList, shows_the_collective_that_is_named) {
  for (const words& more : {words{}, words{"--explain"}}) {
    words ask{"list", "allreduce", "--json", "-"};
    ask.insert(ask.end(), more.begin(), more.end());
    const outcome it = run_well(lsched(ask));
    const json entries = json::parse(it.out);
    EXPECT_EQ(entries.size(), more.empty() ? 9u : 1u) << it.out;
    for (const json& entry : entries) EXPECT_EQ(entry["collective"], "allreduce");
  }
  const outcome text = run(lsched({"list", "allreduce"}));
  EXPECT_TRUE(contains(text.out, "allreduce                    ring ")) << text.out;
  EXPECT_FALSE(contains(text.out, "sparse_allreduce")) << text.out;
  const outcome sparse = run(lsched({"list", "sparse_allreduce"}));
  EXPECT_TRUE(contains(sparse.out, "\nsparse_allreduce ")) << sparse.err;
  EXPECT_FALSE(contains(sparse.out, "\nallreduce ")) << sparse.out;
  EXPECT_TRUE(contains(run(lsched({"list", "alreduce"})).err, "did you mean allreduce?"));
  EXPECT_EQ(run(lsched({"list", "sparse_allreduce", "--explain"})).status, 2);
}

TEST(CommandList, says_why_an_algorithm_cannot) {
  const outcome it = run_well(lsched({"list", "--json", "-", "--dtype", "f32", "--op", "bxor"}));
  for (const json& entry : json::parse(it.out)) {
    if (entry["collective"] == "sparse_allreduce") continue;
    const collective& of = *find_collective(entry["collective"].get<std::string>());
    const bool reduces = of.reduces && !of.adapts;  // a partial adaptive sum ignores --op
    EXPECT_EQ(entry["objection"].is_null(), !reduces);
    EXPECT_EQ(entry["cost"].is_null(), reduces);
  }
  const outcome text = run(lsched({"list", "--ranks", "5"}));
  EXPECT_TRUE(contains(text.out, "partial_allreduce")) << text.out;
}

TEST(CommandList, sparse_allreduces_have_estimates) {
  const auto entries = [](words more) {
    words ask{"list", "--json", "-", "--ranks", "8", "--count", "10000"};
    ask.insert(ask.end(), more.begin(), more.end());
    std::vector<json> found;
    for (const json& entry : json::parse(run(lsched(ask)).out))
      if (entry["collective"] == "sparse_allreduce") found.push_back(entry);
    return found;
  };
  for (const json& entry : entries({"--k", "40"})) {
    EXPECT_EQ(entry["k"], 40);
    EXPECT_EQ(entry["objection"], nullptr);
    EXPECT_GT(entry["estimate"]["messages"], 0) << entry;
    if (entry["algorithm"] == "topka") {
      EXPECT_EQ(entry["estimate"]["words"], 2 * 40 * 7 + 2 * 7);
      EXPECT_EQ(entry["estimate"]["bits_per_element"], 40 * 64 / 10'000.0);
    }
    if (entry["algorithm"] == "sparseloco") {
      const int bytes = 2 * (4 + 4 + 24) + (4 + 2 + 11);  // 16 elements of each of two chunks, and 7 of the last chunk
      EXPECT_EQ(entry["estimate"]["words"], bytes / 4.0 * 7);
      EXPECT_EQ(entry["estimate"]["bits_per_element"], 8 * bytes / 10'000.0);
    }
  }
  EXPECT_EQ(entries({}).size(), sparse_algorithms().size());  // the list includes baselines
  EXPECT_EQ(entries({})[0]["k"], 100);
  for (const json& entry : entries({"--dtype", "i32"})) EXPECT_NE(entry["objection"], nullptr);
  const outcome text = run(lsched({"list", "--k", "512"}));
  EXPECT_TRUE(contains(text.out, "k = 512:")) << text.out;
  EXPECT_TRUE(contains(text.out, "in equal shares: about 4 k words")) << text.out;
}

}  // namespace
}  // namespace lsched::testing
