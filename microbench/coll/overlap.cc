// Measures how much of a collective's time overlaps with computation, as the OSU benchmarks do. Also measures the
// processor time of the overlap.
//
// Four phases are timed:
//
//  - compute: the computation alone.
//  - coll: the collective alone, as start and wait.
//  - sequence: the collective in one call, and then the computation.
//  - overlap: start, then the computation, then wait. This phase is timed twice, to show the error of measurement.
//
// The overlap in % is 1 - (overlap - compute) / coll, but at least 0.
//
// The computation takes as long as the collective alone, or the time in the options. The device "core" computes a fixed
// number of operations in registers, so a thread that takes the core away prolongs the computation. The device "sleep"
// stands for a device that computes while the core is free.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <thread>

#include "microbench/coll/coll.h"

namespace lsched::bench {
namespace {

enum : std::size_t { k_compute, k_collective, k_sequence, k_overlap, k_again, k_phases };
constexpr std::array k_names{"compute", "coll", "sequence", "overlap", "again"};
constexpr std::array k_devices{"core", "sleep"};

constexpr std::array k_columns{column("size", "bytes"),
                               column("compute", "device"),
                               column("", "form"),
                               column("buffers", "buffers"),
                               column("progress", "progress"),
                               column("coll us", "us_coll", 1),
                               column("overlap %", "overlap", 0, 100),
                               column("/sequence", "ratio", 2),
                               column("A/A", "ratio_again", 2),
                               k_wrong};

/// Columns of the table for several launches.
constexpr std::array k_all_columns{column("P", "ranks"),
                                   column("through", "transport"),
                                   column("size", "bytes"),
                                   column("compute", "device"),
                                   column("", "impl"),
                                   column("form", "form"),
                                   column("buffers", "buffers"),
                                   column("progress", "progress"),
                                   column("compute us", "us_compute", 1),
                                   column("coll us", "us_coll", 1),
                                   column("sequence us", "us_sequence", 1),
                                   column("overlap us", "us_overlap", 1),
                                   column("overlap %", "overlap", 0, 100),
                                   column("/sequence", "ratio", 2),
                                   column("A/A", "ratio_again", 2),
                                   column("/bound", "of_bound", 2),
                                   column("CPU us, coll", "cpu_us_coll", 1),
                                   column("sequence", "cpu_us_sequence", 1),
                                   column("overlap", "cpu_us_overlap", 1),
                                   k_rounds,
                                   k_wrong};

constexpr const char* k_legend =
    "The time of a round is that of its slowest rank, median over rounds. compute: core is arithmetic; sleep stands "
    "for a device and releases the core. overlap %: 1 - (overlap - compute) / coll, as in OSU. /sequence: below 1 "
    "overlapping is faster than waiting; A/A: the same cell measured twice.";

/// Returns the median time of the collective alone in µs, over some rounds. All ranks get the same result.
double probe_us(const cell& c, team& ranks) {
  constexpr double k_enough_us = 20'000;
  std::vector<double> us;
  c.fill(0);                                                 // touches every page
  for (std::size_t rounds = 3; rounds <= 48; rounds *= 4) {  // the first rounds warm caches
    us.assign(rounds, 0);
    for (double& each : us) {
      ranks.barrier();
      each = us_of(c.run);
    }
    us = ranks.combine(us, LSCHED_MAX);
    if (summarise(us).mean * static_cast<double>(rounds) > k_enough_us) break;
  }
  return summarise(us).median;
}

/// Returns a function that computes for `us` microseconds on every rank.
std::function<void()> computing(const std::string& device, double us, team& ranks) {
  if (device == "sleep") return [us] { std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us)); };
  return [steps = steps_for(ranks, us)] { compute(steps); };
}

/// Adds the phases of one variant of the collective. `blocking` is a single call that runs the same variant.
void add_phases(const cell& c, const std::function<void()>& blocking, const std::string& device,
                const overlap_options& options, team& ranks, std::vector<cell>& phases) {
  const auto work = computing(device, options.compute_us > 0 ? options.compute_us : probe_us(c, ranks), ranks);
  const auto add = [&](std::function<void()> round) -> cell& {
    return phases.emplace_back(cell{.keys = c.keys, .run = std::move(round), .has_barriers = c.has_barriers});
  };
  // If ranks share cores, the time of one rank's computation does not show how long other ranks waited for the core.
  const bool shares = ranks.is_oversubscribed();
  add([=, &ranks] {
    work();
    if (shares) ranks.barrier();
  }).has_barriers = !shares;
  add([start = c.start, finish = c.finish] { start(), finish(); });
  add([=] { blocking(), work(); });
  for (int i = 0; i < 2; ++i) {
    cell& overlap = add([=, start = c.start, finish = c.finish] { start(), work(), finish(); });
    overlap.fill = c.fill;
    overlap.count_wrong = c.count_wrong;
    overlap.keys["device"] = device;
  }
}

/// Returns the blocking variant of the cell: the same implementation, buffers and kind of wait. If there is no such
/// variant, returns a function that calls start and finish of the cell.
std::function<void()> blocking_form(const cell& c, std::span<const cell> all) {
  const auto found = std::ranges::find_if(all, [&](const cell& other) {
    return !other.start && other.spins == c.spins && other.keys.at("impl") == c.keys.at("impl") &&
           other.keys.at("buffers") == c.keys.at("buffers");
  });
  return found != all.end() ? found->run : c.run;
}

/// Returns true for the cells that are measured: libsched in each kind of memory, and MPI's nonblocking call with and
/// without a yield between tests.
bool is_wanted(const cell& c) {
  const std::string form = c.keys.at("form");
  return c.start && (c.keys.at("impl") != "mpi" || !form.starts_with("persistent"));
}

/// Returns the medians of the slowest rank, and the processor time of all ranks per round. `cores` is the number of
/// cores of a machine.
result result_of(std::span<const cell, k_phases> phases, team& ranks, int cores) {
  result row = lsched::bench::result_of(phases[k_overlap], ranks);
  std::array<double, k_phases> us{}, mean_us{}, cpu_us{};
  for (std::size_t p = 0; p < k_phases; ++p) {
    const summary slowest = summarise(ranks.combine(phases[p].us, LSCHED_MAX));
    us[p] = slowest.median;
    mean_us[p] = slowest.mean;
    cpu_us[p] = ranks.combine(phases[p].cpu_us, LSCHED_SUM) / static_cast<double>(phases[p].us.size());
    row[text("us_%s", k_names[p])] = us[p];
    row[text("cpu_us_%s", k_names[p])] = cpu_us[p];
  }
  row["wrong"] = row["wrong"].get<double>() + ranks.combine(phases[k_again].wrong, LSCHED_SUM);
  const double all_cores = static_cast<double>(cores) * ranks.size() / ranks.local_ranks();
  const double bound =
      std::max({us[k_compute], us[k_collective], (cpu_us[k_compute] + cpu_us[k_collective]) / all_cores});
  row["overlap"] = std::max(0.0, 1 - (us[k_overlap] - us[k_compute]) / us[k_collective]);
  row["ratio"] = us[k_overlap] / us[k_sequence];
  row["ratio_again"] = us[k_again] / us[k_overlap];
  row["ratio_of_means"] = mean_us[k_overlap] / mean_us[k_sequence];
  row["ratio_of_means_again"] = mean_us[k_again] / mean_us[k_overlap];
  row["us_bound"] = bound;
  row["of_bound"] = us[k_overlap] / bound;
  return row;
}

void measure_pass(team& ranks, const overlap_options& options, const std::string& progress, int cores, reporter& out) {
  const std::string mpi = mpi_if_measured(ranks, out);
  for (const std::uint64_t bytes : options.sizes) {
    const coll_options cells{.has_in_place = false};
    cell_set set(ranks, cells, k_allreduce, bytes, !mpi.empty());
    std::vector<cell> phases;
    for (const std::string& device : options.devices)
      for (const cell& c : set.cells())
        if (is_wanted(c)) add_phases(c, blocking_form(c, set.cells()), device, options, ranks, phases);
    turn_limits limits{.cell_ms = options.cell_seconds * 1e3 / static_cast<double>(k_phases)};
    take_turns(phases, ranks, limits, progress + " " + size_text(bytes), out);
    for (std::size_t first = 0; first < phases.size(); first += k_phases) {
      result row = result_of(std::span(phases).subspan(first).first<k_phases>(), ranks, cores);
      row.update({{"progress", progress}, {"mpi", mpi}});
      const bool yields = row["form"] == name_of(mpi_form::yielding);
      out.add(row, {{"form", row["impl"] != "mpi" ? "libsched" : yields ? "MPI, yields" : "MPI"}});
    }
    set.end();
  }
}

result parsed(const std::string& line) {
  try {
    return result::parse(line);
  } catch (const std::exception& why) {
    throw failed(why.what());
  }
}

}  // namespace

std::span<const char* const> overlap_devices() { return k_devices; }

int run_overlap(const overlap_options& options, std::span<const overlap_pass> passes) {
  std::unique_ptr<reporter> out;  // the ranks of the first pass open the file together
  int cores = 0;
  prctl(PR_SET_TIMERSLACK, 1UL);  // so that sleeps end on time
  for (const overlap_pass& pass : passes) {
    lsched_world* const world = pass.open();
    if (pass.core) bind_caller(*pass.core);
    team ranks(world);
    if (out == nullptr) {
      out = std::make_unique<reporter>("overlap", options, ranks);
      cores = ranks.cores();
    } else {
      out->introduce(ranks);
    }
    measure_pass(ranks, options, pass.progress, cores, *out);
  }
  out->print(table_of(out->results(), k_columns));
  out->say("%s", k_legend);
  if (!options.note.empty()) out->say("%s", options.note.c_str());
  return out->finish();
}

table overlap_table(std::span<const std::string> launches) {
  std::vector<result> rows;
  for (const std::string& lines : launches) {
    std::istringstream file(lines);
    for (std::string line; std::getline(file, line);) rows.push_back(parsed(line));
  }
  return table_of(rows, k_all_columns);
}

}  // namespace lsched::bench
