// Every way to carry out a collective (a cell: whose, which form, which buffers, which algorithm) gets the same
// treatment. Cells take turns in five blocks, so that a slow phase of the machine hits all of them. A block starts with
// a barrier and inputs nobody has seen; then rounds follow each other, with a barrier between them where a rank may
// leave before others have come. A round's time is that of its slowest rank. Results are checked outside the timed
// part.
#include "microbench/coll/coll_sweep.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "microbench/coll/coll_cells.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_blocks = 5;
constexpr std::size_t k_least_rounds = 3;
constexpr double k_share_of_spinners = 0.4;  // of the time of a collective, at most
constexpr double k_share_of_memory = 0.25;   // of the machine's, at most

/// What is left of the time of one collective. Rank 0's clock decides.
struct budget {
  clock::time_point end;
  double cell_ms = 0;      ///< for each cell of the present size
  double spinners_ms = 0;  ///< left for MPI's spinning forms where ranks share cores
};

// ---- rounds ----

/// When this rank called in the first round, and when it returned: the answer of a barrier.
struct visit {
  clock::time_point from, to;
};

std::vector<double> time_rounds(cell& c, team& ranks, std::uint64_t rounds, visit* first = nullptr) {
  std::vector<double> us;
  us.reserve(rounds);
  const bool needs_barriers = c.what->kind().waits == coupling::some;
  ranks.barrier();
  auto before = clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (needs_barriers && i > 0) {
      ranks.barrier();
      before = clock::now();
    }
    c.run();
    const auto after = clock::now();
    us.push_back(ns_between(before, after) / 1e3);
    if (first != nullptr && i == 0) *first = {before, after};
    before = after;
  }
  return us;
}

/// Nobody may leave a barrier before all have come. Clocks of several machines cannot tell.
double left_too_early(team& ranks, const visit& mine) {
  const auto ns = [](clock::time_point t) {
    return std::chrono::duration<double, std::nano>(t.time_since_epoch()).count();
  };
  const double last_in = ranks.combine(ns(mine.from), LSCHED_MAX);
  const double first_out = ranks.combine(ns(mine.to), LSCHED_MIN);
  return ranks.is_root() && ranks.local_ranks() == ranks.size() && first_out < last_in ? 1 : 0;
}

/// One round on new inputs, checked. Answers its time, which counts only if there is no time for others: its data have
/// just been written.
double checked_round(cell& c, team& ranks, std::uint64_t salt) {
  if (c.output != nullptr && !c.in_place) std::fill_n(c.output, c.what->outputs(), -1.0f);
  if (c.input != nullptr) c.what->fill(c.input, salt);
  visit mine{};
  const double us = time_rounds(c, ranks, 1, &mine)[0];
  if (c.output != nullptr) c.wrong += static_cast<double>(c.what->count_wrong(c.output, salt));
  if (c.what->kind().what == pattern::barrier) c.wrong += left_too_early(ranks, mine);
  return us;
}

/// In place, a sum becomes the next round's input; anything but zeros would grow beyond all bounds.
void calm_inputs(cell& c) {
  if (!c.in_place) return;
  if (c.input != nullptr) std::fill_n(c.input, c.what->inputs(), 0.0f);
  if (c.output != nullptr) std::fill_n(c.output, c.what->outputs(), 0.0f);
}

/// Rounds in portions that double until half of the block's time is over: the next would take the rest. A few rounds
/// cannot tell how long many will take where ranks share cores.
void run_block(cell& c, team& ranks, const coll_options& options, std::uint64_t block, double block_ms) {
  const std::uint64_t most = std::max<std::uint64_t>(options.iterations / k_blocks, 1);
  const auto start = clock::now();
  const auto is_over = [&] { return ranks.root_says(ms_between(start, clock::now()) > block_ms / 2); };
  const double first_us = checked_round(c, ranks, block);
  if (is_over() || most == 1) {
    c.us.push_back(first_us);
    return;
  }
  calm_inputs(c);
  std::uint64_t done = 0;
  for (std::uint64_t portion = 1; done < most; portion *= 2) {
    const std::uint64_t rounds = std::min(portion, most - done);
    const auto us = time_rounds(c, ranks, rounds);
    c.us.insert(c.us.end(), us.begin(), us.end());
    done += rounds;
    if (is_over()) break;
  }
  if (!c.in_place && c.output != nullptr) c.wrong += static_cast<double>(c.what->count_wrong(c.output, block));
}

/// Rank 0's clock, charged to the cell after everybody has finished.
template <class Job>
void charge(cell& c, team& ranks, budget& left, const Job& job) {
  const auto start = clock::now();
  job();
  ranks.barrier();
  const double ms = ms_between(start, clock::now());
  c.spent_ms += ms;
  if (c.spins) left.spinners_ms -= ms;
}

void warm_up(cell& c, team& ranks, budget& left) {
  c.is_left_out = ranks.root_says(c.spins && left.spinners_ms < 0);
  if (c.is_left_out) return;
  charge(c, ranks, left, [&] {
    const double us = checked_round(c, ranks, 0);  // touches every page
    if (ranks.root_says(us > 10'000)) return;
    calm_inputs(c);
    time_rounds(c, ranks, 2);
  });
  c.spent_ms = 0;
}

bool has_had_enough(const cell& c, team& ranks, const budget& left, std::uint64_t block) {
  const bool is_late = clock::now() > left.end;
  const std::size_t least = c.spins || is_late ? 1 : k_least_rounds;
  const double next_ms = block > 1 ? c.spent_ms / static_cast<double>(block - 1) : 0;
  return ranks.root_says(c.us.size() >= least && (is_late || c.spent_ms + next_ms > 1.2 * left.cell_ms));
}

void measure(std::vector<cell>& cells, team& ranks, const coll_options& options, budget& left, const std::string& label,
             reporter& out) {
  for (cell& c : cells) {
    out.progress("%s, warming up %s %s", label.c_str(), c.impl.c_str(), c.form.c_str());
    warm_up(c, ranks, left);
  }
  for (std::uint64_t block = 1; block <= k_blocks; ++block)
    for (cell& c : cells) {
      out.progress("%s, block %d of %d, %s %s", label.c_str(), static_cast<int>(block), static_cast<int>(k_blocks),
                   c.impl.c_str(), c.form.c_str());
      if (c.is_left_out || has_had_enough(c, ranks, left, block)) continue;
      charge(c, ranks, left,
             [&] { run_block(c, ranks, options, block, left.cell_ms / static_cast<double>(k_blocks)); });
    }
}

// ---- report ----

void add_line(table& lines, const coll_row& row, double best_mpi) {
  lines.add({size_text(row.bytes), row.impl, row.form, row.in_place ? "yes" : "no", row.buffers, row.algorithm,
             text("%.2f", row.us.min), text("%.2f", row.us.median), text("%.2f", row.us.p95),
             best_mpi > 0 ? text("%.2f", row.us.median / best_mpi) : "", std::to_string(row.us.samples),
             row.wrong > 0 ? text("%.0f WRONG", row.wrong) : "0"});
}

nlohmann::json json_of(const coll_row& row, const team& ranks, const coll_options& options, const std::string& mpi) {
  return {{"bench", "coll"},
          {"coll", row.collective},
          {"impl", row.impl},
          {"form", row.form},
          {"in_place", row.in_place},
          {"buffers", row.buffers},
          {"algorithm", row.algorithm},
          {"ranks", ranks.size()},
          {"bytes", row.bytes},
          {"us_min", row.us.min},
          {"us_median", row.us.median},
          {"us_p95", row.us.p95},
          {"wrong", static_cast<std::uint64_t>(row.wrong)},
          {"rounds", row.us.samples},
          {"transport", options.transport},
          {"pinned", options.pin},
          {"oversubscribed", ranks.is_oversubscribed()},
          {"mpi", mpi}};
}

/// What all ranks measured of a cell. Collective.
coll_row row_of(cell& c, team& ranks, std::uint64_t bytes) {
  const double wrong = ranks.combine(c.wrong, LSCHED_SUM);
  return {.collective = c.what->kind().name,
          .impl = c.impl,
          .form = c.form,
          .buffers = c.buffers,
          .algorithm = c.algorithm,
          .in_place = c.in_place,
          .bytes = bytes,
          .us = summarise(ranks.combine(c.us, LSCHED_MAX)),
          .wrong = wrong};
}

/// Why a size is not measured, if so.
std::string validate(const team& ranks, const exercise_kind& kind, std::uint64_t bytes) {
  const double machine = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double needed = set_bytes(ranks, kind, bytes);
  if (needed <= k_share_of_memory * machine) return {};
  return text("the buffers of %d ranks would take %.1f GiB, more than a quarter of the memory", ranks.local_ranks(),
              needed / (1 << 30));
}

}  // namespace

double best_of_mpi(std::span<const coll_row> rows) {
  double best = 0;
  for (const coll_row& row : rows)
    if (row.impl == "mpi" && row.wrong == 0 && row.us.samples > 0 && (best == 0 || row.us.median < best))
      best = row.us.median;
  return best;
}

bool sweep(const exercise_kind& kind, team& ranks, const coll_options& options, const rivals& how, reporter& out,
           std::vector<coll_row>& all) {
  const std::vector<std::uint64_t> sizes =
      kind.what == pattern::barrier ? std::vector<std::uint64_t>{0} : options.sizes;
  budget left{.end = clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1e3)),
              .spinners_ms = k_share_of_spinners * options.seconds * 1e3};
  std::size_t left_out = 0;
  bool is_right = true;
  table lines({"size", kind.name, "form", "in place", "buffers", "algorithm", "min us", "median us", "p95 us",
               "/best MPI", "rounds", "wrong"});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (const std::string why = validate(ranks, kind, sizes[i]); !why.empty()) {
      out.say("%s of %s is left out: %s", kind.name, size_text(sizes[i]).c_str(), why.c_str());
      continue;
    }
    cell_set set(ranks, options, kind, sizes[i], how.with_mpi);
    const double share_ms = std::max(ms_between(clock::now(), left.end), 0.0) / static_cast<double>(sizes.size() - i);
    left.cell_ms = std::min(options.cell_seconds * 1e3, share_ms / static_cast<double>(set.cells().size()));
    measure(set.cells(), ranks, options, left, kind.name + (" " + size_text(sizes[i])), out);
    std::vector<coll_row> rows;
    for (cell& c : set.cells())
      if (c.is_left_out)
        ++left_out;
      else
        rows.push_back(row_of(c, ranks, sizes[i]));
    const double best = best_of_mpi(rows);
    for (const coll_row& row : rows) {
      add_line(lines, row, best);
      out.json(json_of(row, ranks, options, how.mpi));
      is_right = is_right && (row.wrong == 0 || row.impl == "mpi");
    }
    all.insert(all.end(), rows.begin(), rows.end());
    set.end();
  }
  out.print(lines);
  if (left_out > 0)
    out.say("%zu cells of MPI's spinning forms are left out: others of them had used up %.0f %% of the time", left_out,
            k_share_of_spinners * 100);
  return is_right;
}

}  // namespace lsched::bench
