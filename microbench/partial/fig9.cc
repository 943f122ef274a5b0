// Latency under a linear skew: the microbenchmark of Fig. 8, and the rows of Fig. 9, of Li, Ben-Nun, Di
// Girolamo, Alistarh and Hoefler, "Taming Unbalanced Training Workloads in Deep Learning with Partial
// Collective Operations", PPoPP 2020.
//
//     rank 0  |op····|                                 one iteration: rank r comes r·skew later than rank 0,
//     rank 1  ---|op·|···                              fills its buffer with ones, and calls the operation
//     rank 2  ------|op|··
//     rank 3  ---------|op|
//
// MPI keeps every rank until the last has come; solo lets each go as soon as the first has come; majority, as
// soon as a rank drawn for the round has. So a result's elements count the ranks that were in it: that is
// checked everywhere.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "libsched/schedule/draw.h"
#include "microbench/benchmarks.h"
#include "microbench/harness.h"
#include "microbench/partial/fig9_plot.h"
#include "microbench/plot.h"
#if LSCHED_HAVE_MPI
#include "microbench/coll/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_iterations = 64;  // the paper's
constexpr std::uint64_t k_least = 5;
constexpr double k_partial_seconds = 16;  // a cell's share of the time a person is ready to wait
constexpr double k_skew_ms = 1;
constexpr double k_mpi_seconds = 60;    // of all MPI rows together; at least k_least iterations a size
constexpr std::uint64_t k_seed = 1;     // of majority's draws
constexpr double k_paper_solo = 53.32;  // speed-up over MPI_Allreduce, mean over sizes (§7.1)
constexpr double k_paper_majority = 2.46;

/// How long to go on: at least `least` iterations, at most `most`, and between the two for `seconds`.
struct budget {
  std::uint64_t least;
  std::uint64_t most;
  double seconds;
};

/// What one rank sees of one iteration's result.
struct observation {
  std::uint64_t contributors = 0;
  std::uint64_t round = 0;
  bool is_wrong = false;
};

/// solo or majority. A contribution is all ones.
class partial_side {
 public:
  partial_side(lsched_world* runtime, const char* activation, std::size_t count, const fig9_options& options)
      : send_(count), result_(count) {
    const std::vector<std::uint64_t> buckets = equal_parts(count, options.buckets);
    const lsched_partial_desc desc{.struct_size = sizeof desc,
                                   .count = count,
                                   .buckets = buckets.data(),
                                   .bucket_count = static_cast<std::uint32_t>(buckets.size()),
                                   .dtype = LSCHED_F32,
                                   .reduction = LSCHED_SUM,
                                   .activation = activation,
                                   .seed = k_seed,
                                   .lag = LSCHED_LATEST,
                                   .algorithm = nullptr};
    schedule_ = created("lsched_partial_create", lsched_partial_create, runtime, &desc);
  }

  void fill() { std::fill(send_.begin(), send_.end(), 1.0f); }

  void call() {
    lsched_ticket ticket{};
    expect_ok(lsched_offer(schedule_.get(), send_.data(), &ticket), "lsched_offer");
    expect_ok(lsched_collect(ticket, result_.data(), k_patience_ns, &report_, &why_), "lsched_collect", why_);
  }

  /// Forgets a contribution that came too late, so that each iteration stands for itself.
  void reset() { expect_ok(lsched_withdraw(schedule_.get(), nullptr), "lsched_withdraw"); }

  /// Every iteration has an initiator, so every call must deliver something: the sum of as many ones as the
  /// report says.
  observation check() {
    const auto expected = static_cast<float>(report_.last.contributors);
    const bool is_delivered = report_.from < report_.to && report_.has_result != 0 && report_.last.contributors > 0 &&
                              report_.offers == report_.last.contributors;
    const bool is_equal = std::all_of(result_.begin(), result_.end(), [&](float x) { return x == expected; });
    std::fill(result_.begin(), result_.end(), 0.0f);
    return {report_.last.contributors, report_.to, !is_delivered || !is_equal};
  }

  void end() { close(std::move(schedule_)); }

 private:
  std::vector<float> send_, result_;
  schedule_handle schedule_;
  lsched_report report_{.struct_size = sizeof(lsched_report)};
  lsched_diagnostic why_ = fresh_diagnostic();
};

#if LSCHED_HAVE_MPI
class mpi_side {
 public:
  mpi_side(int ranks, std::size_t count)
      : ranks_(ranks),
        send_(count),
        result_(count),
        call_(mpi_form::blocking, exercise(exercise_named("allreduce"), 0, ranks, count * sizeof(float)), send_.data(),
              result_.data(), false) {}

  void fill() { std::fill(send_.begin(), send_.end(), 1.0f); }
  void call() { call_.run(); }
  void reset() {}
  observation check() {
    const auto expected = static_cast<float>(ranks_);
    const bool is_equal = std::all_of(result_.begin(), result_.end(), [&](float x) { return x == expected; });
    std::fill(result_.begin(), result_.end(), 0.0f);
    return {static_cast<std::uint64_t>(ranks_), 0, !is_equal};
  }

 private:
  int ranks_;
  std::vector<float> send_, result_;
  mpi_rival call_;
};
#endif

/// What one rank has seen of a cell, a number per iteration.
struct record {
  std::vector<double> latency_ms, wall_ms, contributors, rounds;
  double cpu = 0;
  double wrong = 0;
};

template <class Side>
void iterate(team& ranks, Side& side, double skew_ms, record& seen) {
  ranks.barrier();
  const auto start = clock::now();
  const double cpu_start = cpu_ms();
  if (const double delay = ranks.rank() * skew_ms; delay > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay));
  side.fill();
  const auto begin = clock::now();
  side.call();
  const auto end = clock::now();
  side.reset();
  ranks.barrier();  // checking waits for it, so as not to compete with ranks that are still being timed
  seen.wall_ms.push_back(ms_between(start, clock::now()));
  seen.cpu += cpu_ms() - cpu_start;
  seen.latency_ms.push_back(ms_between(begin, end));
  const observation what = side.check();
  seen.contributors.push_back(static_cast<double>(what.contributors));
  seen.rounds.push_back(static_cast<double>(what.round));
  seen.wrong += what.is_wrong ? 1 : 0;
}

template <class Side>
record run_cell(team& ranks, Side& side, double skew_ms, const budget& limit, const std::string& label, reporter& out) {
  record warm_up;
  for (int i = 0; i < 2; ++i) iterate(ranks, side, 0, warm_up);  // pages, caches, connections; checked, not timed
  record seen;
  const auto start = clock::now();
  for (std::uint64_t done = 0; done < limit.most; ++done) {
    const bool may_stop = done >= limit.least && limit.seconds > 0;
    if (may_stop && ranks.root_says(ms_between(start, clock::now()) > limit.seconds * 1e3)) break;
    out.progress("%s, iteration %llu of %llu", label.c_str(), static_cast<unsigned long long>(done + 1),
                 static_cast<unsigned long long>(limit.most));
    iterate(ranks, side, skew_ms, seen);
  }
  seen.wrong += warm_up.wrong;
  return seen;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

/// Iterations in which the ranks do not agree.
std::uint64_t disagreements(team& ranks, const std::vector<double>& values) {
  const auto least = ranks.combine(values, LSCHED_MIN);
  const auto most = ranks.combine(values, LSCHED_MAX);
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (least[i] != most[i]) ++differing;
  return differing;
}

/// Everything about a cell but its ideal. Collective.
fig9_row combine(team& ranks, std::string what, std::uint64_t bytes, const record& seen) {
  auto latency = ranks.combine(seen.latency_ms, LSCHED_SUM);
  for (double& value : latency) value /= ranks.size();
  const summary over_iterations = summarise(std::move(latency));
  const double wall = mean(ranks.combine(seen.wall_ms, LSCHED_MAX));
  const double wrong = ranks.combine(seen.wrong, LSCHED_SUM);
  return {.what = std::move(what),
          .bytes = bytes,
          .iterations = seen.latency_ms.size(),
          .mean_ms = over_iterations.mean,
          .p50_ms = over_iterations.median,
          .p95_ms = over_iterations.p95,
          .slowest_ms = mean(ranks.combine(seen.latency_ms, LSCHED_MAX)),
          .wall_ms = wall,
          .cores = ranks.combine(seen.cpu, LSCHED_SUM) / (wall * static_cast<double>(seen.wall_ms.size())),
          .nap = mean(seen.contributors),
          .wrong = static_cast<std::uint64_t>(wrong) + disagreements(ranks, seen.contributors) +
                   disagreements(ranks, seen.rounds)};
}

/// Mean wait of a rank if a round ends the moment its initiator comes: the ranks before it wait for it,
/// nobody else.
double ideal_of_draws(const std::vector<double>& rounds, std::uint64_t seed, int size, double skew_ms) {
  std::vector<rank> present(static_cast<std::size_t>(size));
  std::iota(present.begin(), present.end(), 0);
  double sum = 0;
  for (const double round : rounds) {
    const double initiator = draw(seed, static_cast<round_no>(round), present);
    sum += initiator * (initiator + 1) / 2 / size * skew_ms;
  }
  return sum / static_cast<double>(std::max<std::size_t>(rounds.size(), 1));
}

void write_json(reporter& out, const fig9_row& row, const fig9_options& options, int ranks) {
  out.json({{"bench", "fig9"},
            {"what", row.what},
            {"ranks", ranks},
            {"bytes", row.bytes},
            {"iters", row.iterations},
            {"seed", k_seed},
            {"mean_ms", row.mean_ms},
            {"ideal_ms", row.ideal_ms},
            {"nap", row.nap},
            {"p50_ms", row.p50_ms},
            {"p95_ms", row.p95_ms},
            {"slowest_ms", row.slowest_ms},
            {"wall_ms", row.wall_ms},
            {"cores", row.cores},
            {"skew_ms", k_skew_ms},
            {"buckets", row.what == "mpi" ? 1 : options.buckets},
            {"wrong", row.wrong},
            {"transport", options.transport}});
}

/// The whole run: rows in the order of measuring.
class figure {
 public:
  figure(team& ranks, const fig9_options& options, reporter& out) : ranks_(ranks), options_(options), out_(out) {}

  void measure(std::string why_no_mpi) {
    double mpi_seconds = k_mpi_seconds;
    for (std::size_t i = 0; i < options_.sizes.size(); ++i) {
      const std::uint64_t bytes = options_.sizes[i];
      if (why_no_mpi.empty() && wants("mpi"))
        mpi_seconds -= measure_mpi(bytes, mpi_seconds / static_cast<double>(options_.sizes.size() - i));
      if (wants("solo")) measure_partial("solo", "solo", bytes);
      if (wants("majority")) measure_partial("majority", "majority", bytes);
    }
  }

  const std::vector<fig9_row>& rows() const { return rows_; }

 private:
  bool wants(std::string_view what) const { return options_.only.empty() || options_.only == what; }
  std::uint64_t most() const { return options_.iterations.value_or(k_iterations); }

  static std::string label(const char* what, std::uint64_t bytes) { return std::string(what) + " " + size_text(bytes); }

  /// Answers the seconds it took, as rank 0 saw them; the other ranks' answers only have to be of that order.
  double measure_mpi([[maybe_unused]] std::uint64_t bytes, [[maybe_unused]] double seconds) {
    const auto start = clock::now();
#if LSCHED_HAVE_MPI
    mpi_side side(ranks_.size(), bytes / sizeof(float));
    const budget limit{std::min(k_least, most()), most(), std::max(seconds, 1e-3)};
    const record seen = run_cell(ranks_, side, k_skew_ms, limit, label("mpi", bytes), out_);
    fig9_row row = combine(ranks_, "mpi", bytes, seen);
    row.ideal_ms = (ranks_.size() - 1) / 2.0 * k_skew_ms;
    add(std::move(row));
#endif
    return ms_between(start, clock::now()) / 1e3;
  }

  void measure_partial(const char* what, const char* activation, std::uint64_t bytes) {
    partial_side side(ranks_.runtime(), activation, bytes / sizeof(float), options_);
    const budget limit{std::min(k_least, most()), most(), options_.iterations ? 0 : k_partial_seconds};
    const record seen = run_cell(ranks_, side, k_skew_ms, limit, label(what, bytes), out_);
    side.end();
    fig9_row row = combine(ranks_, what, bytes, seen);
    if (std::string_view(activation) == "majority")
      row.ideal_ms = ideal_of_draws(seen.rounds, k_seed, ranks_.size(), k_skew_ms);
    add(std::move(row));
  }

  void add(fig9_row row) {
    write_json(out_, row, options_, ranks_.size());
    rows_.push_back(std::move(row));
  }

  team& ranks_;
  const fig9_options& options_;
  reporter& out_;
  std::vector<fig9_row> rows_;
};

// ---- the table ----

const fig9_row* find(const std::vector<fig9_row>& rows, std::string_view what, std::uint64_t bytes) {
  for (const fig9_row& row : rows)
    if (row.what == what && row.bytes == bytes) return &row;
  return nullptr;
}

std::string latency_cell(const fig9_row* row) {
  if (row == nullptr) return "-";
  return row->what == "mpi" ? text("%.3f", row->mean_ms) : text("%.3f (%.1f)", row->mean_ms, row->nap);
}

/// A quotient of two latencies, kept for the average.
struct ratio_column {
  std::vector<double> values;

  /// `above` 0: not measured.
  std::string add(double above, const fig9_row* below) {
    if (above <= 0 || below == nullptr || below->mean_ms <= 0) return "-";
    values.push_back(above / below->mean_ms);
    return text("%.2f", values.back());
  }
  std::string average() const { return values.empty() ? "-" : text("%.2f", mean(values)); }
};

void print_table(const team& ranks, const std::vector<fig9_row>& rows, const fig9_options& options, reporter& out) {
  const double synchronous = (ranks.size() - 1) / 2.0 * k_skew_ms;
  const std::string mark = ranks.is_oversubscribed() ? "*" : "";
  table lines({"size", "iterations", "MPI ms", "solo ms (NAP)", "majority ms (NAP)", "its ideal", "sync ideal/solo",
               "MPI/solo" + mark, "MPI/majority" + mark, "iteration ms", "cores busy"});
  ratio_column ideal_to_solo, mpi_to_solo, mpi_to_majority;
  for (const std::uint64_t bytes : options.sizes) {
    const std::array<const fig9_row*, 3> found{find(rows, "mpi", bytes), find(rows, "solo", bytes),
                                               find(rows, "majority", bytes)};
    const auto [mpi, solo, majority] = found;
    const double mpi_ms = mpi != nullptr ? mpi->mean_ms : 0;
    std::string iterations, walls, cores;
    for (const fig9_row* row : found) {
      const char* separator = iterations.empty() ? "" : "/";
      iterations += separator + (row != nullptr ? std::to_string(row->iterations) : "-");
      walls += separator + (row != nullptr ? text("%.1f", row->wall_ms) : "-");
      cores += separator + (row != nullptr ? text("%.2f", row->cores) : "-");
    }
    lines.add({size_text(bytes), iterations, latency_cell(mpi), latency_cell(solo), latency_cell(majority),
               majority ? text("%.2f", majority->ideal_ms) : "-", ideal_to_solo.add(synchronous, solo),
               mpi_to_solo.add(mpi_ms, solo), mpi_to_majority.add(mpi_ms, majority), walls, cores});
  }
  lines.add(
      {"mean", "", "", "", "", "", ideal_to_solo.average(), mpi_to_solo.average(), mpi_to_majority.average(), "", ""});
  lines.add({"paper", "", "", "", "", "", "", text("%.2f", k_paper_solo), text("%.2f", k_paper_majority), "", ""});
  out.print(lines);
  out.say(
      "Latency: mean over ranks and iterations, rank r comes r x %g ms late. Ideal of any synchronous "
      "allreduce: %.2f ms. "
      "Triples: MPI/solo/majority.",
      k_skew_ms, synchronous);
  if (ranks.is_oversubscribed())
    out.say(
        "* oversubscribed, %d ranks on %d cores: an MPI that spins while it waits is slowed by the "
        "scheduler, so these "
        "ratios flatter us. \"sync ideal/solo\" compares with the best that any synchronous allreduce could "
        "do.",
        ranks.local_ranks(), ranks.cores());
}

}  // namespace

int run_fig9(lsched_world* runtime, const fig9_options& options) {
  team ranks(runtime);
  reporter out("fig9", options.json, ranks);
  if (!options.plot.empty()) on_root(ranks, [&] { expect_writable(options.plot); });
  out.introduce(ranks);
#if LSCHED_HAVE_MPI
  const std::string why_not = why_no_mpi(ranks.size());
  if (why_not.empty()) out.say("MPI rows: %s", mpi_description().c_str());
#else
  const std::string why_not = "MPI is not in this build";
#endif
  if (!why_not.empty() && options.only == "mpi") throw agreed("no MPI rows: " + why_not);
  if (!why_not.empty() && options.only.empty()) out.say("MPI rows: none, %s", why_not.c_str());

  figure all(ranks, options, out);
  all.measure(why_not);

  print_table(ranks, all.rows(), options, out);
  const auto wrong = std::accumulate(all.rows().begin(), all.rows().end(), std::uint64_t{0},
                                     [](std::uint64_t sum, const fig9_row& row) { return sum + row.wrong; });
  if (wrong > 0)
    out.say("WRONG: %llu results differ from what their reports say", static_cast<unsigned long long>(wrong));
  bool is_drawn = true;
  if (!options.plot.empty() && ranks.is_root()) is_drawn = plot_fig9(options.plot, all.rows(), ranks.size(), out);
  ranks.barrier();
  return wrong == 0 && is_drawn ? 0 : 1;
}

}  // namespace lsched::bench
