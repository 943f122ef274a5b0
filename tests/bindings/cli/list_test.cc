// Tests that `lsched list` shows an algorithm exactly if a create of the C interface accepts the algorithm.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/shell.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using json = nlohmann::json;

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

/// Runs the command with the given words. Returns its output.
std::string output_of(const std::string& words) {
  return run_shell("timeout 60 " LSCHED_TEST_COMMAND " " + words).output;
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

/// Returns whether the test compares this entry of the list: the collective combines contributions by --op, or is a
/// partial allgather. Other collectives ignore --op and --mean. Baselines are not compared.
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
    const json listed = json::parse(output_of("list --json -" + of.options()));
    const std::string text = output_of("list" + of.options());
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

}  // namespace
}  // namespace lsched::testing
