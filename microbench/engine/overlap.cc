// Computing while a collective is under way: is (start, compute, wait) shorter than (compute, then the collective), and
// what does it cost the processor?
//
//     sequence   compute ········ start, wait
//     overlap    start, compute ········ wait
//
// The computing is a fixed amount of arithmetic in registers, so whoever takes the core away from it makes it longer.
// For each way to run the collective, ours with and without a progress thread and MPI's, the four measurements
// (computing, the collective, sequence, overlap) take turns in blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "microbench/benchmarks.h"
#include "microbench/coll/coll_cells.h"
#include "microbench/computing.h"
#include "microbench/harness.h"
#if LSCHED_HAVE_MPI
#include "microbench/coll/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

constexpr int k_blocks = 5;

// ---- one way to run the collective ----

enum : std::size_t { k_compute, k_collective, k_sequence, k_overlap, k_phases };

struct way {
  cell* what = nullptr;
  std::uint64_t steps = 0;
  std::array<std::vector<double>, k_phases> us{};  ///< this rank's, a number per round
  std::array<double, k_phases> cpu_us{};           ///< this process's, all rounds
  double wrong = 0;

  void round(std::size_t phase) const {
    const bool starts_first = phase == k_overlap;
    if (starts_first) what->start();
    if (phase != k_collective) compute(steps);
    if (phase == k_compute) return;
    if (!starts_first) what->start();
    what->finish();
  }
};

void run_rounds(way& it, team& ranks, std::size_t phase, std::uint64_t rounds) {
  ranks.barrier();
  const double cpu_before = cpu_ms();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const auto before = clock::now();
    it.round(phase);
    it.us[phase].push_back(ns_between(before, clock::now()) / 1e3);
    if (phase == k_compute || it.what->what->kind().waits == coupling::some) ranks.barrier();
  }
  it.cpu_us[phase] += (cpu_ms() - cpu_before) * 1e3;
}

/// An overlapped round on inputs nobody has seen.
void verify(way& it, team& ranks, std::uint64_t salt) {
  const cell& c = *it.what;
  if (c.output != nullptr) std::fill_n(c.output, c.what->outputs(), -1.0f);
  if (c.input != nullptr) c.what->fill(c.input, salt);
  ranks.barrier();
  it.round(k_overlap);
  if (c.output != nullptr) it.wrong += static_cast<double>(c.what->count_wrong(c.output, salt));
}

/// How long the collective takes alone, median over some rounds, µs; the same on every rank.
double probe_us(way& it, team& ranks) {
  for (int i = 0; i < 7; ++i) run_rounds(it, ranks, k_collective, 1);
  const double us = summarise(ranks.combine(it.us[k_collective], LSCHED_MAX)).median;
  it.us[k_collective].clear();
  it.cpu_us[k_collective] = 0;
  return us;
}

// ---- all ways of a size ----

struct overlap_row {
  const cell* what;
  std::array<double, k_phases> us{};      ///< medians of the slowest rank
  std::array<double, k_phases> cpu_us{};  ///< per round, all ranks together
  std::size_t rounds = 0;
  double wrong = 0;

  double ratio() const { return us[k_overlap] / us[k_sequence]; }
};

overlap_row row_of(way& it, team& ranks) {
  overlap_row row{.what = it.what, .rounds = it.us[k_overlap].size()};
  for (std::size_t phase = 0; phase < k_phases; ++phase) {
    row.us[phase] = summarise(ranks.combine(it.us[phase], LSCHED_MAX)).median;
    row.cpu_us[phase] = ranks.combine(it.cpu_us[phase], LSCHED_SUM) / static_cast<double>(it.us[phase].size());
  }
  row.wrong = ranks.combine(it.wrong, LSCHED_SUM);
  return row;
}

std::vector<overlap_row> measure(std::vector<way>& ways, team& ranks, const overlap_options& options,
                                 const std::string& label, reporter& out) {
  std::vector<std::uint64_t> rounds;
  for (way& it : ways) {
    verify(it, ranks, 0);  // touches every page
    const double collective_us = probe_us(it, ranks);
    it.steps = steps_for(ranks, collective_us);
    const double round_us = 6 * collective_us;  // of all four phases together
    const double share_us = options.cell_seconds * 1e6 / k_blocks;
    rounds.push_back(static_cast<std::uint64_t>(std::clamp(share_us / round_us, 1.0, 10'000.0)));
  }
  for (int block = 1; block <= k_blocks; ++block)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      out.progress("%s, block %d of %d, %s %s", label.c_str(), block, k_blocks, ways[i].what->impl.c_str(),
                   ways[i].what->form.c_str());
      for (std::size_t phase = 0; phase < k_phases; ++phase) run_rounds(ways[i], ranks, phase, rounds[i]);
      verify(ways[i], ranks, static_cast<std::uint64_t>(block));
    }
  std::vector<overlap_row> rows;
  for (way& it : ways) rows.push_back(row_of(it, ranks));
  return rows;
}

// ---- report ----

nlohmann::json json_of(const overlap_row& row, const team& ranks, const overlap_options& options,
                       const std::string& progress, std::uint64_t bytes, const std::string& mpi) {
  return {{"bench", "overlap"},
          {"coll", "allreduce"},
          {"impl", row.what->impl},
          {"form", row.what->form},
          {"buffers", row.what->buffers},
          {"algorithm", row.what->algorithm},
          {"progress", progress},
          {"ranks", ranks.size()},
          {"bytes", bytes},
          {"us_compute", row.us[k_compute]},
          {"us_coll", row.us[k_collective]},
          {"us_sequence", row.us[k_sequence]},
          {"us_overlap", row.us[k_overlap]},
          {"cpu_us_sequence", row.cpu_us[k_sequence]},
          {"cpu_us_overlap", row.cpu_us[k_overlap]},
          {"ratio", row.ratio()},
          {"rounds", row.rounds},
          {"wrong", static_cast<std::uint64_t>(row.wrong)},
          {"transport", options.transport},
          {"pinned", options.pin},
          {"oversubscribed", ranks.is_oversubscribed()},
          {"mpi", mpi}};
}

void add_line(table& lines, const overlap_row& row, const std::string& progress, std::uint64_t bytes) {
  const auto us = [](double value) { return text("%.1f", value); };
  lines.add({size_text(bytes), row.what->impl, row.what->form, row.what->buffers, progress, us(row.us[k_compute]),
             us(row.us[k_collective]), us(row.us[k_sequence]), us(row.us[k_overlap]), text("%.2f", row.ratio()),
             us(row.cpu_us[k_sequence]), us(row.cpu_us[k_overlap]), std::to_string(row.rounds),
             row.wrong > 0 ? text("%.0f WRONG", row.wrong) : "0"});
}

/// What the passes have in common. The reporter comes to be in the first, whose ranks open its file together.
struct report {
  std::unique_ptr<reporter> out;
  table lines{{"size", "", "form", "buffers", "progress", "compute us", "coll us", "sequence us", "overlap us",
               "overlap/sequence", "CPU us, sequence", "CPU us, overlap", "rounds", "wrong"}};
  bool is_right = true;
};

void measure_pass(const overlap_options& options, const overlap_pass& pass, report& all) {
  team ranks(pass.open());
  if (all.out == nullptr) all.out = std::make_unique<reporter>("overlap", options.json, ranks);
  all.out->introduce(ranks);
  if (options.pin) pin_application(ranks, *all.out);
  std::string mpi;
#if LSCHED_HAVE_MPI
  if (const std::string why = why_no_mpi(ranks.size()); why.empty())
    mpi = mpi_name();
  else
    all.out->say("MPI rows: none, %s", why.c_str());
#else
  all.out->say("MPI rows: none, MPI is not in this build");
#endif
  for (const std::uint64_t bytes : options.sizes) {
    cell_set set(ranks, {.has_in_place = false}, exercise_named("allreduce"), bytes, !mpi.empty());
    std::vector<way> ways;
    for (cell& c : set.cells())
      if (c.start) ways.push_back({.what = &c});
    const std::string label = pass.progress + " " + size_text(bytes);
    for (const overlap_row& row : measure(ways, ranks, options, label, *all.out)) {
      const std::string progress = row.what->impl == "mpi" ? "" : pass.progress;
      add_line(all.lines, row, progress, bytes);
      all.out->json(json_of(row, ranks, options, progress, bytes, mpi));
      all.is_right = all.is_right && (row.wrong == 0 || row.what->impl == "mpi");
    }
    set.end();
  }
}

}  // namespace

int run_overlap(const overlap_options& options, std::span<const overlap_pass> passes) {
  report all;
  for (const overlap_pass& pass : passes) measure_pass(options, pass, all);
  all.out->print(all.lines);
  all.out->say(
      "A round's time is its slowest rank's; CPU is the mean processor time of all ranks together, "
      "waiting included. "
      "overlap/sequence: 1 is no overlap; 0.5 is all of it.");
  if (!options.remark.empty()) all.out->say("%s", options.remark.c_str());
  if (!all.is_right) all.out->say("WRONG: results of libsched; see the table");
  return all.is_right ? 0 : 1;
}

}  // namespace lsched::bench
