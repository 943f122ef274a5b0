#include "bindings/cli/verify/mutant_run.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bindings/cli/common/parallel.h"
#include "libsched/oracle/mutant_trial.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

void count(mutant_counts& in, fate what) {
  ++(what == fate::killed ? in.killed : what == fate::equivalent ? in.equivalent : in.survived);
}

mutant_row& row_of(mutant_results& results, const algorithm* of) {
  if (results.rows.empty() || results.rows.back().of != of) results.rows.push_back({.of = of});
  return results.rows.back();
}

json describe(const mutant_row& row, mutation how) {
  const mutant_counts& counts = row.counts[static_cast<std::size_t>(how)];
  return {{"collective", row.of->of->name}, {"algorithm", row.of->name}, {"mutation", name_of(how)},
          {"mutants", counts.all()},        {"killed", counts.killed},   {"equivalent", counts.equivalent},
          {"survived", counts.survived}};
}

void print_line(std::string_view what, const mutant_counts& counts) {
  std::printf("  %-16.*s %10zu %10zu %10zu %10zu\n", static_cast<int>(what.size()), what.data(), counts.all(),
              counts.killed, counts.equivalent, counts.survived);
}

void print_table(const mutant_results& results) {
  std::printf("\n  %-16s %10s %10s %10s %10s\n", "", "mutants", "killed", "equivalent", "survived");
  for (const mutant_row& row : results.rows) {
    std::printf("%s/%s\n", std::string(row.of->of->name).c_str(), std::string(row.of->name).c_str());
    for (const mutation how : k_all_mutations) {
      const mutant_counts& counts = row.counts[static_cast<std::size_t>(how)];
      if (counts.all() != 0) print_line(name_of(how), counts);
    }
  }
  print_line("all", results.total);
}

}  // namespace

verify_wish mutant_wish(verify_wish wish) {
  wish.sizes = {2, 3, 5, 8};
  wish.counts = {2};
  return wish;
}

mutant_results try_mutants(const std::vector<verify_case>& worlds,
                           const std::function<void(std::size_t, std::size_t)>& progress) {
  mutant_results results;
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    const verify_case& it = worlds[i];
    const std::vector<schedule_ptr> world = generate_world(it);
    const postcondition promise = promise_of(it);
    const mutant_list list(world);
    mutant_row& row = row_of(results, it.what);
    in_order(
        list.size(), [&](std::size_t k) { return try_mutant(list.world(k), world, promise, options_of(it)); },
        [&](std::size_t k, const trial& verdict) {
          count(row.counts[static_cast<std::size_t>(list.how(k))], verdict.what);
          count(results.total, verdict.what);
          if (verdict.what == fate::survived)
            results.survivors.push_back(text_of(it) + ", mutant " + std::to_string(k) + ", " + list.name(k) + ": " +
                                        verdict.why);
        });
    progress(i + 1, worlds.size());
  }
  return results;
}

void print(const mutant_results& results, bool as_json) {
  for (const std::string& survivor : results.survivors) {
    if (as_json)
      std::printf("%s\n", json{{"survivor", survivor}}.dump().c_str());
    else
      std::printf("SURVIVED  %s\n", survivor.c_str());
  }
  if (!as_json) return print_table(results);
  for (const mutant_row& row : results.rows)
    for (const mutation how : k_all_mutations)
      if (row.counts[static_cast<std::size_t>(how)].all() != 0) std::printf("%s\n", describe(row, how).dump().c_str());
}

}  // namespace lsched::cli
