// Computing while a collective is under way: is (start, compute, wait) shorter than (compute, then the collective), and
// what does it cost the processor?
//
//     sequence   compute ········ start, wait
//     overlap    start, compute ········ wait
//
// The computing is a fixed amount of arithmetic in registers, so threads that take the core away prolong it.
// For each way to run the collective, ours with and without a progress thread and MPI's, there are four cells:
// computing, the collective, sequence, overlap.
#include <array>

#include "microbench/coll/coll.h"

namespace lsched::bench {
namespace {

enum : std::size_t { k_compute, k_collective, k_sequence, k_overlap, k_phases };

/// How long the collective takes alone, median over some rounds, µs; the same on every rank.
double probe_us(const cell& c, team& ranks) {
  std::vector<double> us;
  c.fill(0);  // touches every page
  for (int i = 0; i < 7; ++i) {
    ranks.barrier();
    us.push_back(us_of(c.run));
  }
  return summarise(ranks.combine(us, LSCHED_MAX)).median;
}

/// The four phases of a way to run the collective, which computes as long as it takes alone.
void add_phases(const cell& c, team& ranks, std::vector<cell>& phases) {
  const std::uint64_t steps = steps_for(ranks, probe_us(c, ranks));
  const auto add = [&](bool has_barriers, std::function<void()> round) {
    phases.push_back({.keys = c.keys, .run = std::move(round), .has_barriers = has_barriers || c.has_barriers});
  };
  add(true, [=] { compute(steps); });
  add(false, [start = c.start, finish = c.finish] { start(), finish(); });
  add(false, [=, start = c.start, finish = c.finish] { compute(steps), start(), finish(); });
  add(false, [=, start = c.start, finish = c.finish] { start(), compute(steps), finish(); });
  phases.back().fill = c.fill;
  phases.back().count_wrong = c.count_wrong;
}

/// Medians of the slowest rank; processor time per round of all ranks together.
result result_of(std::span<const cell, k_phases> phases, team& ranks) {
  constexpr std::array k_names{"compute", "coll", "sequence", "overlap"};
  result row = lsched::bench::result_of(phases[k_overlap], ranks);
  for (std::size_t p = 0; p < k_phases; ++p) {
    const cell& c = phases[p];
    row[text("us_%s", k_names[p])] = summarise(ranks.combine(c.us, LSCHED_MAX)).median;
    row[text("cpu_us_%s", k_names[p])] = ranks.combine(c.cpu_us, LSCHED_SUM) / static_cast<double>(c.us.size());
  }
  row["ratio"] = row["us_overlap"].get<double>() / row["us_sequence"].get<double>();
  return row;
}

void measure_pass(team& ranks, const overlap_options& options, const std::string& progress, reporter& out) {
  const std::string mpi = mpi_if_measured(ranks, out);
  for (const std::uint64_t bytes : options.sizes) {
    const coll_options cells{.has_in_place = false};
    cell_set set(ranks, cells, exercise_named("allreduce"), bytes, !mpi.empty());
    std::vector<cell> phases;
    for (const cell& c : set.cells())
      if (c.start) add_phases(c, ranks, phases);
    turn_limits limits{.cell_ms = options.cell_seconds * 1e3 / static_cast<double>(k_phases)};
    take_turns(phases, ranks, limits, progress + " " + size_text(bytes), out);
    for (std::size_t first = 0; first < phases.size(); first += k_phases) {
      result row = result_of(std::span(phases).subspan(first).first<k_phases>(), ranks);
      row.update({{"progress", row.at("impl") == "mpi" ? "" : progress}, {"mpi", mpi}});
      out.add(std::move(row));
    }
    set.end();
  }
}

}  // namespace

int run_overlap(const overlap_options& options, std::span<const overlap_pass> passes) {
  std::unique_ptr<reporter> out;  // the ranks of the first pass open its file together
  for (const overlap_pass& pass : passes) {
    team ranks(pass.open());
    if (out == nullptr)
      out = std::make_unique<reporter>("overlap", options, ranks);
    else
      out->introduce(ranks);
    measure_pass(ranks, options, pass.progress, *out);
  }
  out->print({column("size", "bytes"), column("", "impl"), column("form", "form"), column("buffers", "buffers"),
              column("progress", "progress"), column("compute us", "us_compute", 1), column("coll us", "us_coll", 1),
              column("sequence us", "us_sequence", 1), column("overlap us", "us_overlap", 1),
              column("overlap/sequence", "ratio", 2), column("CPU us, sequence", "cpu_us_sequence", 1),
              column("CPU us, overlap", "cpu_us_overlap", 1), k_rounds, k_wrong});
  out->say(
      "A round's time is its slowest rank's; CPU is the mean processor time of all ranks together, waiting included. "
      "overlap/sequence: 1 is no overlap; 0.5 is all of it.");
  if (!options.remark.empty()) out->say("%s", options.remark.c_str());
  return out->finish();
}

}  // namespace lsched::bench
