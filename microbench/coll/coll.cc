// Measures the latency of balanced collectives (float, sum), compared with MPI's collectives in the same run.
#include "microbench/coll/coll.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace lsched::bench {
namespace {

constexpr double k_share_of_spinners = 0.4;  // maximum share of a collective's time for cells that spin
constexpr double k_share_of_memory = 0.25;   // maximum share of the machine's memory for buffers

/// Returns the number of bytes that the buffers of all local ranks need for one size.
double bytes_needed(const team& ranks, const collective& kind, std::uint64_t bytes) {
  const exercise root(kind, 0, ranks.size(), bytes);
  const exercise other(kind, ranks.size() - 1, ranks.size(), bytes);
  const auto floats = std::max(root.inputs() + root.outputs(), other.inputs() + other.outputs());
  constexpr int k_kinds_of_memory = 2;
  return static_cast<double>(floats * sizeof(float)) * k_kinds_of_memory * ranks.local_ranks();
}

/// Returns the reason why a size is not measured, or an empty string if the size is measured.
std::string validate(const team& ranks, const collective& kind, std::uint64_t bytes) {
  const double machine = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double needed = bytes_needed(ranks, kind, bytes);
  if (needed <= k_share_of_memory * machine) return {};
  return text("the buffers of %d ranks would take %.1f GiB, more than a quarter of the memory", ranks.local_ranks(),
              needed / (1 << 30));
}

}  // namespace

double best_of_mpi(std::span<const result> rows) {
  double best = 0;
  for (const result& row : rows) {
    if (row.at("impl") != "mpi" || row.at("wrong") != 0 || row.at("rounds") == 0) continue;
    const double us = row.at("us_median");
    if (best == 0 || us < best) best = us;
  }
  return best;
}

result comparison_of(std::span<const result> rows, const std::string& algorithm) {
  result line{{"own_us", nullptr}, {"best", nullptr}, {"best_us", nullptr}, {"ratio", nullptr}};
  for (const result& row : rows) {
    if (row.at("wrong") != 0 || row.at("rounds") == 0) continue;
    const bool is_mpi = row.at("impl") == "mpi";
    const std::string name = is_mpi ? "MPI" : row.at("algorithm").get<std::string>();
    const bool is_own = !is_mpi && name == algorithm;
    result& least = line[is_own ? "own_us" : "best_us"];
    if (!least.is_null() && row.at("us_median") >= least) continue;
    least = row.at("us_median");
    if (!is_own) line["best"] = name;
  }
  if (!line["own_us"].is_null() && line["best_us"] > 0)
    line["ratio"] = line["own_us"].get<double>() / line["best_us"].get<double>();
  return line;
}

std::vector<result> sweep(const collective& kind, team& ranks, const coll_options& options, const std::string& mpi,
                          reporter& out) {
  const std::string name(kind.name);
  const std::vector<std::uint64_t> sizes = kind.moves_data ? options.sizes : std::vector<std::uint64_t>{0};
  turn_limits left{.iterations = options.iterations,
                   .end = clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1e3)),
                   .spinners_ms = k_share_of_spinners * options.seconds * 1e3};
  std::vector<result> all, compared;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (const std::string why = validate(ranks, kind, sizes[i]); !why.empty()) {
      out.say("%s of %s is left out: %s", name.c_str(), size_text(sizes[i]).c_str(), why.c_str());
      continue;
    }
    cell_set set(ranks, options, kind, sizes[i], !mpi.empty());
    const double share_ms = std::max(ms_between(clock::now(), left.end), 0.0) / static_cast<double>(sizes.size() - i);
    left.cell_ms = std::min(options.cell_seconds * 1e3, share_ms / static_cast<double>(set.cells().size()));
    take_turns(set.cells(), ranks, left, name + " " + size_text(sizes[i]), out);
    std::vector<result> rows;
    for (const cell& c : set.cells()) {
      left_out += c.is_left_out ? 1 : 0;
      if (!c.is_left_out) rows.push_back(result_of(c, ranks));
    }
    const double best = best_of_mpi(rows);
    for (result& row : rows) {
      row["mpi"] = mpi;
      result shown = result::object();
      if (row["impl"] == "mpi") shown["algorithm"] = "MPI";
      if (best > 0) shown["of_mpi"] = row["us_median"].get<double>() / best;
      out.add(row, shown);
    }
    all.insert(all.end(), rows.begin(), rows.end());
    if (!options.compared.empty()) {
      compared.push_back(comparison_of(rows, options.compared));
      compared.back().update({{"bytes", sizes[i]}, {"auto", set.taken_by_auto(ranks)}});
    }
    set.end();
  }
  if (!options.compared.empty()) {
    out.say("%s/%s compared with the best other algorithm:", name.c_str(), options.compared.c_str());
    constexpr std::array k_columns{column("size", "bytes"),        column("own us", "own_us", 2),
                                   column("best other", "best"),   column("us", "best_us", 2),
                                   column("own/best", "ratio", 2), column("auto takes", "auto")};
    out.print(table_of(compared, k_columns));
  }
  if (left_out > 0)
    out.say("%zu cells of spinning MPI forms are left out: other such cells have used %.0f %% of the time", left_out,
            k_share_of_spinners * 100);
  return all;
}

int run_coll(lsched_world* runtime, const coll_options& options) {
  team ranks(runtime);
  reporter out("coll", options, ranks);
  const std::string mpi = mpi_if_measured(ranks, out);
  for (const std::string& name : options.collectives) {
    const collective& kind = *find_collective(name);
    if (!mpi.empty() && !has_form(mpi_form::persistent, kind))
      out.say("MPI rows: this MPI has no working persistent %s", name.c_str());
    sweep(kind, ranks, options, mpi, out);
    if (options.compared.empty())
      out.print({column("size", "bytes"), column(name.c_str(), "algorithm"), column("form", "form"),
                 column("in place", "in_place"), column("buffers", "buffers"), k_us_median,
                 column("/best MPI", "of_mpi", 2), k_wrong});
  }
  if (!options.compared.empty()) {
    out.say(
        "Medians of the fastest form of each algorithm: blocking or not, in place or not, either kind of memory; "
        "--json FILE writes all forms. Below 1 the algorithm of the file is faster.");
    return out.finish();
  }
  out.say(
      "Ours: blocking = lsched_run, persistent = lsched_start + lsched_wait; a schedule is always persistent, so there "
      "is no third form. The time of a round is that of its slowest rank. \"/best MPI\": median of the row over that "
      "of the fastest MPI form, in place or not; below 1 the row is faster.");
  if (ranks.is_oversubscribed() && !mpi.empty())
    out.say(
        "Oversubscribed: MPI forms that spin wait for the scheduler; forms that yield release the core between tests.");
  if (std::ranges::any_of(out.results(), [](const result& row) { return row["impl"] == "mpi" && row["wrong"] > 0; }))
    out.say("Rows of MPI that are marked WRONG are not compared.");
  return out.finish();
}

}  // namespace lsched::bench
