// Latency of a balanced allreduce (float, sum), beside MPI's in the same run.
//
// Every way to run it (a cell: whose, which form, which buffers, which algorithm) gets the same treatment.
// Cells take turns in five blocks, so that a slow phase of the machine hits all of them. A block starts with
// a barrier, then rounds follow each other; a round's time is that of its slowest rank. Results are checked
// outside the timed part, with integers small enough that float addition is exact in any order.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "collectives/selection.h"
#include "microbench/benchmarks.h"
#include "microbench/harness.h"
#include "offload/cores.h"
#include "offload/pinning.h"
#if LSCHED_HAVE_MPI
#include "microbench/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_blocks = 5;
constexpr int k_base = 61;  // inputs are below it, plus the rank's share

struct cell {
  const char* impl;
  const char* form;
  const char* buffers;
  std::string algorithm;
  float* input;  ///< equal to output: in place
  float* output;
  std::size_t count;
  std::function<void()> run;
  std::vector<double> us{};  ///< this rank's
  double wrong = 0;          ///< elements, this rank's
};

// ---- inputs and checks ----

int base_of(std::size_t element, std::uint64_t salt) {
  return static_cast<int>((element * 7 + salt * 13) % static_cast<std::uint64_t>(k_base));
}
int share_of(int rank) { return rank % 97; }

void fill_input(const cell& c, int rank, std::uint64_t salt) {
  for (std::size_t i = 0; i < c.count; ++i)
    c.input[i] = static_cast<float>(base_of(i, salt) + share_of(rank));
}

double count_wrong(const cell& c, int size, std::uint64_t salt) {
  int shares = 0;
  for (int r = 0; r < size; ++r) shares += share_of(r);
  double wrong = 0;
  for (std::size_t i = 0; i < c.count; ++i)
    if (c.output[i] != static_cast<float>(size * base_of(i, salt) + shares)) ++wrong;
  return wrong;
}

/// One round with inputs nobody has seen, so that a result left over from before does not pass.
void verify(cell& c, const team& ranks, std::uint64_t salt) {
  if (c.input != c.output) std::fill_n(c.output, c.count, -1.0f);
  fill_input(c, ranks.rank(), salt);
  c.run();
  c.wrong += count_wrong(c, ranks.size(), salt);
}

// ---- timing ----

std::vector<double> time_rounds(cell& c, team& ranks, std::uint64_t rounds) {
  std::vector<double> us;
  us.reserve(rounds);
  if (c.input == c.output)
    std::fill_n(c.input, c.count, 0.0f);  // in place, anything else would grow beyond all bounds
  ranks.barrier();
  auto before = clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    c.run();
    const auto after = clock::now();
    us.push_back(ns_between(before, after) / 1e3);
    before = after;
  }
  return us;
}

/// A block of rounds, in portions that double until half of the block's time is over: the next would take the
/// rest. A few rounds cannot tell how long many will take where ranks share cores.
void run_block(cell& c, team& ranks, const coll_options& options) {
  const std::uint64_t most = std::max<std::uint64_t>(options.iterations / k_blocks, 1);
  const double share_ms = options.cell_seconds * 1e3 / static_cast<double>(k_blocks);
  const auto start = clock::now();
  std::uint64_t portion = 1;
  for (std::uint64_t done = 0; done < most; portion *= 2) {
    const std::uint64_t rounds = std::min(portion, most - done);
    const auto us = time_rounds(c, ranks, rounds);
    c.us.insert(c.us.end(), us.begin(), us.end());
    done += rounds;
    if (ranks.root_says(ms_between(start, clock::now()) > share_ms / 2)) return;
  }
}

void measure(std::vector<cell>& cells, team& ranks, const coll_options& options, const std::string& label,
             reporter& out) {
  for (cell& c : cells) {
    out.progress("%s, warming up %s %s", label.c_str(), c.impl, c.form);
    verify(c, ranks, 0);  // touches every page
    time_rounds(c, ranks, 2);
  }
  for (std::uint64_t block = 1; block <= k_blocks; ++block)
    for (cell& c : cells) {
      out.progress("%s, block %d of %d, %s %s", label.c_str(), static_cast<int>(block),
                   static_cast<int>(k_blocks), c.impl, c.form);
      verify(c, ranks, block);
      run_block(c, ranks, options);
      if (c.input != c.output) c.wrong += count_wrong(c, ranks.size(), block);
    }
}

// ---- cells ----

/// Everything that the cells of one size stand on.
struct bench_set {
  std::vector<std::vector<float>> heaps;
  std::vector<shared_floats> shared;
  std::vector<schedule_handle> schedules;
#if LSCHED_HAVE_MPI
  std::vector<std::unique_ptr<mpi_allreduce>> rivals;
#endif
  std::vector<cell> cells;
};

shape shape_of(std::size_t count, bool in_place) { return {count, dtype::f32, kernel::sum, in_place}; }

/// The algorithms to measure, by name; "auto" is resolved, so that tables say what ran.
std::vector<std::string> algorithms_for(const coll_options& options, const team& ranks, std::size_t count) {
  const world place{ranks.rank(), ranks.size()};
  const shape data = shape_of(count, options.in_place);
  if (options.algorithm != "all") {
    const auto chosen = choose(options.collective, options.algorithm, place, data);
    if (!chosen) throw agreed(chosen.error().text);
    return {std::string((*chosen)->name)};
  }
  std::vector<std::string> names;
  for (const algorithm& each : algorithms())
    if (each.of->name == options.collective && choose(each.of->name, each.name, place, data))
      names.emplace_back(each.name);
  return names;
}

void add_ours(bench_set& set, const team& ranks, const std::string& algorithm, const char* buffers,
              float* input, float* output, std::size_t count) {
  const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .dtype = LSCHED_F32,
                                   .reduction = LSCHED_SUM,
                                   .algorithm = algorithm.c_str()};
  lsched_schedule* schedule = nullptr;
  auto why = fresh_diagnostic();
  expect_ok(lsched_allreduce_create(ranks.runtime(), &desc, &schedule, &why), "lsched_allreduce_create", why);
  set.schedules.emplace_back(schedule);
  set.cells.push_back({"libsched", "blocking", buffers, algorithm, input, output, count, [schedule] {
                         expect_ok(lsched_run(schedule, k_patience_ns, nullptr), "lsched_run");
                       }});
  set.cells.push_back({"libsched", "persistent", buffers, algorithm, input, output, count, [schedule] {
                         lsched_ticket ticket{};
                         expect_ok(lsched_start(schedule, &ticket), "lsched_start");
                         expect_ok(lsched_wait(ticket, k_patience_ns, nullptr), "lsched_wait");
                       }});
}

#if LSCHED_HAVE_MPI
void add_mpi(bench_set& set, const team& ranks, float* input, float* output, std::size_t count) {
  for (const mpi_form form :
       {mpi_form::blocking, mpi_form::nonblocking, mpi_form::persistent, mpi_form::yielding}) {
    if (!has_form(form) || (form == mpi_form::yielding && !ranks.is_oversubscribed())) continue;
    auto& rival = *set.rivals.emplace_back(std::make_unique<mpi_allreduce>(form, input, output, count));
    set.cells.push_back(
        {"mpi", name_of(form), "malloc", "its own", input, output, count, [&rival] { rival.run(); }});
  }
}
#endif

bench_set make_cells(const team& ranks, const coll_options& options, std::size_t count, bool with_mpi) {
  bench_set set;
  const auto heap = [&] { return set.heaps.emplace_back(count).data(); };
  const auto shared = [&] { return set.shared.emplace_back(allocate_shared(ranks.runtime(), count)).get(); };
  float* const input = heap();
  float* const output = options.in_place ? input : heap();
  float* const shared_input = shared();
  float* const shared_output = options.in_place ? shared_input : shared();
  for (const std::string& name : algorithms_for(options, ranks, count)) {
    add_ours(set, ranks, name, "malloc", input, output, count);
    add_ours(set, ranks, name, "lsched_alloc", shared_input, shared_output, count);
  }
#if LSCHED_HAVE_MPI
  if (with_mpi) add_mpi(set, ranks, input, output, count);
#else
  static_cast<void>(with_mpi);
#endif
  return set;
}

// ---- report ----

struct result_row {
  const cell* what;
  summary us;
  double wrong;
};

void report(const std::vector<result_row>& rows, const team& ranks, const coll_options& options,
            std::uint64_t bytes, table& lines, reporter& out) {
  double best_mpi = 0;
  for (const result_row& row : rows)
    if (std::string_view(row.what->impl) == "mpi" && (best_mpi == 0 || row.us.median < best_mpi))
      best_mpi = row.us.median;
  for (const result_row& row : rows) {
    const cell& c = *row.what;
    const bool compares = best_mpi > 0 && std::string_view(c.impl) != "mpi";
    lines.add({size_text(bytes), c.impl, c.form, c.buffers, c.algorithm, text("%.2f", row.us.median),
               text("%.2f", row.us.p95), compares ? text("%.2f", best_mpi / row.us.median) : "",
               std::to_string(row.us.samples), text("%.0f", row.wrong)});
    out.json({{"bench", "coll"},
              {"coll", options.collective},
              {"impl", c.impl},
              {"form", c.form},
              {"buffers", c.buffers},
              {"algorithm", c.algorithm},
              {"ranks", ranks.size()},
              {"bytes", bytes},
              {"us_median", row.us.median},
              {"us_p95", row.us.p95},
              {"wrong", static_cast<std::uint64_t>(row.wrong)},
              {"rounds", row.us.samples},
              {"in_place", options.in_place},
              {"pinned", options.pin},
              {"oversubscribed", ranks.is_oversubscribed()}});
  }
}

/// The r-th core this process may use, round robin.
void pin(const team& ranks, reporter& out) {
  const std::vector<unsigned> cores = allowed_cores();
  if (cores.empty()) throw failed("--pin: the affinity mask cannot be read");
  const unsigned core = cores[static_cast<std::size_t>(ranks.rank()) % cores.size()];
  if (!bind_this_thread(core)) throw failed("--pin: the system refuses core " + std::to_string(core));
  out.say("pinned: application thread of rank r on the r-th of %zu cores", cores.size());
}

}  // namespace

int run_coll(lsched_runtime* runtime, const coll_options& options) {
  team ranks(runtime);
  reporter out("coll", options.json, ranks);
  out.introduce(ranks);
#if LSCHED_HAVE_MPI
  const std::string why_not = why_no_mpi(ranks.size());
  if (why_not.empty()) out.say("MPI rows: %s", mpi_description().c_str());
  if (why_not.empty() && !has_form(mpi_form::persistent)) out.say("MPI rows: no persistent form in this MPI");
#else
  const std::string why_not = "MPI is not in this build";
#endif
  if (!why_not.empty()) out.say("MPI rows: none, %s", why_not.c_str());
  if (options.pin) pin(ranks, out);

  double wrong = 0;
  table lines({"size", "", "form", "buffers", "algorithm", "median us", "p95 us", "best MPI/this", "rounds",
               "wrong"});
  for (const std::uint64_t bytes : options.sizes) {
    bench_set set = make_cells(ranks, options, bytes / sizeof(float), why_not.empty());
    measure(set.cells, ranks, options, size_text(bytes), out);
    std::vector<result_row> rows;
    for (cell& c : set.cells) {
      const double all_wrong = ranks.combine(c.wrong, LSCHED_SUM);
      rows.push_back({&c, summarise(ranks.combine(c.us, LSCHED_MAX)), all_wrong});
      wrong += all_wrong;
    }
    report(rows, ranks, options, bytes, lines, out);
    for (schedule_handle& schedule : set.schedules) close(std::move(schedule));
  }
  out.print(lines);
  out.say(
      "Ours: blocking = lsched_run, persistent = lsched_start + lsched_wait; a schedule is persistent by "
      "nature, so there "
      "is no third form. A round's time is its slowest rank's.");
  if (ranks.is_oversubscribed() && why_not.empty())
    out.say(
        "Oversubscribed: forms of MPI that spin wait for the scheduler; nonblocking-yield is MPI with "
        "sched_yield between "
        "its tests.");
  if (wrong > 0) out.say("WRONG: %.0f elements", wrong);
  return wrong > 0 ? 1 : 0;
}

}  // namespace lsched::bench
