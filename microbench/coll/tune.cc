// Measures every algorithm of every collective in this world, and writes the fastest algorithm for each size as a rule
// of the tuning table (docs/reference/collectives.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "bindings/input_file.h"
#include "collectives/requests/tuning_text.h"
#include "collectives/selection.h"
#include "microbench/coll/coll.h"
#include "microbench/coll/wire.h"
#include "ops/counted.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_endless = std::numeric_limits<std::uint64_t>::max();

/// The fastest algorithm for blocks or vectors of this size.
struct winner {
  std::uint64_t bytes = 0;
  result row;
};

/// Returns the fastest algorithm for each measured size, in ascending order of sizes. Only malloc'd buffers are
/// considered, because most callers use such buffers. If an algorithm was measured both in place and with separate
/// buffers, the shorter of the two times counts.
std::vector<winner> winners_of(const collective& kind, int size, const std::vector<result>& rows) {
  std::vector<winner> best;
  for (const result& row : rows) {
    if (row.at("buffers") != "malloc" || row.at("wrong") > 0) continue;
    const std::uint64_t bytes = exercise(kind, 0, size, row.at("bytes")).count() * sizeof(float);
    const auto found = std::ranges::find(best, bytes, &winner::bytes);
    if (found == best.end())
      best.push_back({bytes, row});
    else if (row.at("us_median") < found->row.at("us_median"))
      found->row = row;
  }
  std::ranges::sort(best, {}, &winner::bytes);
  return best;
}

/// Returns the border between two measured sizes: the geometric mean.
std::uint64_t border(std::uint64_t lower, std::uint64_t upper) {
  return static_cast<std::uint64_t>(std::sqrt(static_cast<double>(lower) * static_cast<double>(upper)));
}

/// Returns the rules of the tuning table. Neighbouring sizes with the same winner share a rule.
std::vector<tuning_rule> rules_of(const tuning_rule& about, const std::vector<winner>& best) {
  std::vector<tuning_rule> rules;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const std::uint64_t end = i + 1 < best.size() ? border(best[i].bytes, best[i + 1].bytes) : k_endless;
    const std::string algorithm = best[i].row.at("algorithm");
    if (rules.empty() || rules.back().algorithm != algorithm) {
      tuning_rule next = about;
      next.least_bytes = rules.empty() ? 0 : rules.back().most_bytes + 1;
      next.algorithm = algorithm;
      rules.push_back(std::move(next));
    }
    rules.back().most_bytes = end;
  }
  return rules;
}

/// Reads the table of a file. Returns an empty table if the file is empty or does not exist. Throws `failed` if the
/// file has other contents or cannot be written.
tuning_table read(const std::string& path) {
  if (!std::ofstream(path, std::ios::app).is_open()) throw failed(path + ": cannot be written: " + reason_of(errno));
  const auto text = content_of(path);
  if (!text) throw failed(text.error().text);
  if (text->empty()) return {};
  auto table = parse_tuning(*text);
  if (!table) throw failed(path + ": " + table.error().text);
  return std::move(*table);
}

/// Replaces the old rules for the same collectives and the same kind of world by `rules`.
void replace(tuning_table& table, const std::vector<tuning_rule>& rules) {
  const auto is_old = [&](const tuning_rule& old) {
    return std::ranges::any_of(rules, [&](const tuning_rule& next) {
      return next.collective == old.collective && next.ranks == old.ranks && next.is_near == old.is_near &&
             next.is_crowded == old.is_crowded;
    });
  };
  std::erase_if(table.rules, is_old);
  table.rules.insert(table.rules.end(), rules.begin(), rules.end());
}

/// Writes the table to a new file, which then replaces the old file. The old file stays unchanged until the new file is
/// complete.
void write(const std::string& path, const tuning_table& table) {
  const std::string next = path + ".new";
  std::ofstream file(next);
  file << to_text(table);
  if (!file.flush() || std::rename(next.c_str(), path.c_str()) != 0)
    throw failed(path + ": cannot be written: " + reason_of(errno));
}

}  // namespace

int run_tune(lsched_world* runtime, const tune_options& options) {
  team ranks(runtime);
  tuning_table table;
  on_root(ranks, [&] { table = read(options.table); });
  reporter out("tune", options.measured, ranks);
  const std::optional<wire_costs> far = measure_wire_between_nodes(ranks);
  std::vector<tuning_rule> rules;
  for (const std::string& name : options.measured.collectives) {
    const collective& kind = *find_collective(name);
    const tuning_rule about{
        .collective = name, .ranks = ranks.size(), .is_near = !far, .is_crowded = ranks.is_oversubscribed()};
    const std::vector<winner> best = winners_of(kind, ranks.size(), sweep(kind, ranks, options.measured, "", out));
    std::vector<result> rows;
    for (const winner& each : best) rows.push_back(each.row);
    out.print(table_of(rows, std::array{column("size", "bytes"), column(name.c_str(), "algorithm"),
                                        column("form", "form"), column("in place", "in_place"), k_us_median}));
    for (tuning_rule& rule : rules_of(about, best)) rules.push_back(std::move(rule));
  }
  if (const int status = out.finish(); status != 0) return status;  // after an error no table is written
  replace(table, rules);
  if (far) table.far = far;
  on_root(ranks, [&] { write(options.table, table); });
  out.say("%s for %s in %s; set LSCHED_TUNING=%s to use them", counted(rules.size(), "rule").c_str(),
          counted(ranks.size(), "rank").c_str(), options.table.c_str(), options.table.c_str());
  return 0;
}

}  // namespace lsched::bench
