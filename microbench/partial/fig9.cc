// Latency under a linear skew: the microbenchmark of Fig. 8, and the rows of Fig. 9, of Li, Ben-Nun, Di
// Girolamo, Alistarh and Hoefler, "Taming Unbalanced Training Workloads in Deep Learning with Partial
// Collective Operations", PPoPP 2020.
//
//     rank 0  |op····|                                 one iteration: rank r comes r·skew later than rank 0,
//     rank 1  ---|op·|···                              fills its buffer with ones, and calls the operation
//     rank 2  ------|op|··
//     rank 3  ---------|op|
//
// MPI keeps every rank until the last rank has called. Solo releases each rank when the first rank has called. Majority
// releases each rank when the rank that was drawn for the round has called. The elements of a result count its
// contributors, and every result is checked.
#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "libsched/schedule/draw.h"
#include "microbench/coll/mpi_baseline.h"
#include "microbench/partial/partial_call.h"
#include "microbench/report.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_iterations = 64;  // as in the paper
constexpr std::uint64_t k_least = 5;
constexpr double k_partial_seconds = 16;  // time for a cell
constexpr double k_skew_ms = 1;
constexpr double k_mpi_seconds = 60;    // time for all MPI rows together; each size has at least k_least iterations
constexpr double k_paper_solo = 53.32;  // speed-up over MPI_Allreduce, mean over sizes (section 7.1)
constexpr double k_paper_majority = 2.46;

/// The limits of a cell: at most `most` iterations. If `seconds` is not 0, the cell also ends when it has had k_least
/// iterations and `seconds` have passed.
struct budget {
  std::uint64_t most;
  double seconds;
};

/// The result of an iteration on one rank.
struct observation {
  std::uint64_t contributors = 0;
  std::uint64_t round = 0;
  bool is_wrong = false;
};

/// An allreduce of a buffer of ones: by MPI, by solo or by majority.
struct operation {
  std::function<void()> fill, call;
  std::function<void()> reset;  ///< withdraws a late contribution, so that iterations are independent
  std::function<observation()> check;
};

/// The measurements of one rank in a cell. Vectors have an element for each iteration.
struct record {
  std::vector<double> latency_ms, wall_ms, contributors, rounds;
  double cpu = 0;
  double wrong = 0;
};

void iterate(team& ranks, const operation& op, double skew_ms, record& seen) {
  ranks.barrier();
  const auto start = clock::now();
  const double cpu_start = cpu_ms();
  if (const double delay = ranks.rank() * skew_ms; delay > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay));
  op.fill();
  seen.latency_ms.push_back(us_of(op.call) / 1e3);
  op.reset();
  ranks.barrier();  // so that checks do not slow down ranks whose time is still measured
  seen.wall_ms.push_back(ms_between(start, clock::now()));
  seen.cpu += cpu_ms() - cpu_start;
  const observation found = op.check();
  seen.contributors.push_back(static_cast<double>(found.contributors));
  seen.rounds.push_back(static_cast<double>(found.round));
  seen.wrong += found.is_wrong ? 1 : 0;
}

record run_cell(team& ranks, const operation& op, const budget& limit, const std::string& label, reporter& out) {
  record warm_up;
  for (int i = 0; i < 2; ++i) iterate(ranks, op, 0, warm_up);  // warms up; checked, not timed
  record seen;
  const auto start = clock::now();
  for (std::uint64_t done = 0; done < limit.most; ++done) {
    const bool may_stop = done >= k_least && limit.seconds > 0;
    if (may_stop && ranks.root_says(ms_between(start, clock::now()) > limit.seconds * 1e3)) break;
    out.progress("%s, iteration %zu of %zu", label.c_str(), std::size_t{done + 1}, std::size_t{limit.most});
    iterate(ranks, op, k_skew_ms, seen);
  }
  seen.wrong += warm_up.wrong;
  return seen;
}

/// Returns the latency that a bar of the figure shows, and other numbers. This function is collective.
result result_of(team& ranks, const std::string& policy, std::uint64_t bytes, const record& seen, double ideal_ms,
                 std::uint32_t buckets) {
  auto latency = ranks.combine(seen.latency_ms, LSCHED_SUM);
  for (double& value : latency) value /= ranks.size();
  const summary over_iterations = summarise(std::move(latency));
  const double wall = mean_of(ranks.combine(seen.wall_ms, LSCHED_MAX));
  return {{"what", policy},
          {"bytes", bytes},
          {"iters", seen.latency_ms.size()},
          {"seed", partial_call::k_seed},
          {"mean_ms", over_iterations.mean},
          {"ideal_ms", ideal_ms},
          {"p50_ms", over_iterations.median},
          {"p95_ms", over_iterations.p95},
          {"slowest_ms", mean_of(ranks.combine(seen.latency_ms, LSCHED_MAX))},
          {"wall_ms", wall},
          {"cores", ranks.combine(seen.cpu, LSCHED_SUM) / (wall * static_cast<double>(seen.wall_ms.size()))},
          {"nap", mean_of(seen.contributors)},
          {"skew_ms", k_skew_ms},
          {"buckets", buckets},
          {"wrong",
           ranks.combine(seen.wrong, LSCHED_SUM) + static_cast<double>(count_disagreements(ranks, seen.contributors) +
                                                                       count_disagreements(ranks, seen.rounds))}};
}

/// Returns the mean waiting time of a rank if each round ends at the call of its initiator. The initiator is the rank
/// that is drawn for the round. Only the ranks before the initiator wait.
double ideal_of_draws(const std::vector<double>& rounds, int size) {
  std::vector<rank> present(static_cast<std::size_t>(size));
  std::iota(present.begin(), present.end(), 0);
  double sum = 0;
  for (const double round : rounds) {
    const double initiator = draw(partial_call::k_seed, static_cast<round_no>(round), present);
    sum += initiator * (initiator + 1) / 2 / size * k_skew_ms;
  }
  return sum / static_cast<double>(std::max<std::size_t>(rounds.size(), 1));
}

void measure_mpi(team& ranks, const fig9_options& options, std::uint64_t bytes, double seconds, reporter& out) {
  const exercise task(k_allreduce, 0, ranks.size(), bytes);
  std::vector<float> ones(task.count()), sum(task.count());
  mpi_baseline baseline(mpi_form::blocking, task, ones.data(), sum.data(), false);
  const auto check = [&] {
    const auto wanted = static_cast<float>(ranks.size());
    const bool is_right = std::ranges::all_of(sum, [&](float element) { return element == wanted; });
    std::ranges::fill(sum, 0.0f);
    return observation{static_cast<std::uint64_t>(ranks.size()), 0, !is_right};
  };
  const operation op{
      .fill = [&] { std::ranges::fill(ones, 1.0f); }, .call = [&] { baseline.run(); }, .reset = [] {}, .check = check};
  const record seen =
      run_cell(ranks, op, {options.iterations.value_or(k_iterations), seconds}, "mpi " + size_text(bytes), out);
  out.add(result_of(ranks, "mpi", bytes, seen, (ranks.size() - 1) / 2.0 * k_skew_ms, 1));
}

/// Measures solo or majority. Every iteration has an initiator, so every call must return a result.
void measure_partial(team& ranks, const fig9_options& options, const std::string& policy, std::uint64_t bytes,
                     reporter& out) {
  partial_call call(ranks.runtime(), policy, bytes, LSCHED_LATEST, options.buckets);
  const auto check = [&] {
    const std::uint64_t contributors = call.report().last.contributors;
    const bool is_right = call.is_right() && contributors > 0 && call.report().offers == contributors;
    return observation{contributors, call.report().to, !is_right};
  };
  const operation op{.fill = [&] { call.fill(); },
                     .call = [&] { call.offer_and_copy(); },
                     .reset = [&] { call.forget(); },
                     .check = check};
  const record seen =
      run_cell(ranks, op, {options.iterations.value_or(k_iterations), options.iterations ? 0 : k_partial_seconds},
               policy + " " + size_text(bytes), out);
  call.end();
  out.add(result_of(ranks, policy, bytes, seen, policy == "majority" ? ideal_of_draws(seen.rounds, ranks.size()) : 0,
                    options.buckets));
}

void measure(team& ranks, const fig9_options& options, bool with_mpi, reporter& out) {
  double mpi_seconds = k_mpi_seconds;
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    const std::uint64_t bytes = options.sizes[i];
    const double share = std::max(mpi_seconds / static_cast<double>(options.sizes.size() - i), 1e-3);
    if (with_mpi) mpi_seconds -= us_of([&] { measure_mpi(ranks, options, bytes, share, out); }) / 1e6;
    for (const char* policy : {"solo", "majority"})
      if (options.only.empty() || options.only == policy) measure_partial(ranks, options, policy, bytes, out);
  }
}

// ---- the table ----

/// Returns the row of a policy and a size, or null if there is no such row.
result find(const std::vector<result>& rows, std::string_view policy, std::uint64_t bytes) {
  const auto found = std::ranges::find_if(
      rows, [&](const result& row) { return row.at("what") == policy && row.at("bytes") == bytes; });
  return found == rows.end() ? result() : *found;
}

std::string latency_cell(const result& row) {
  if (row.is_null()) return "-";
  const std::string ms = text("%.3f", row.at("mean_ms").get<double>());
  return row.at("what") == "mpi" ? ms : ms + text(" (%.1f)", row.at("nap").get<double>());
}

/// Quotients of two latencies, one per row, and their average.
struct ratio_column {
  std::vector<double> values;

  /// Adds the quotient of `above` and the latency in `below`. `above` is 0 if it was not measured.
  std::string add(double above, const result& below) {
    if (above <= 0 || below.is_null() || below.at("mean_ms") <= 0) return "-";
    values.push_back(above / below.at("mean_ms").get<double>());
    return text("%.2f", values.back());
  }
  std::string average() const { return values.empty() ? "-" : text("%.2f", mean_of(values)); }
};

void print_table(const team& ranks, const fig9_options& options, reporter& out) {
  const double synchronous = (ranks.size() - 1) / 2.0 * k_skew_ms;
  const std::string mark = ranks.is_oversubscribed() ? "*" : "";
  table lines({"size", "MPI ms", "solo ms (NAP)", "majority ms (NAP)", "its ideal", "ideal/solo", "MPI/solo" + mark,
               "MPI/majority" + mark});
  ratio_column ideal_to_solo, mpi_to_solo, mpi_to_majority;
  for (const std::uint64_t bytes : options.sizes) {
    const result mpi = find(out.results(), "mpi", bytes), solo = find(out.results(), "solo", bytes),
                 majority = find(out.results(), "majority", bytes);
    const double mpi_ms = mpi.is_null() ? 0 : mpi.at("mean_ms").get<double>();
    lines.add({size_text(bytes), latency_cell(mpi), latency_cell(solo), latency_cell(majority),
               majority.is_null() ? "-" : text("%.2f", majority.at("ideal_ms").get<double>()),
               ideal_to_solo.add(synchronous, solo), mpi_to_solo.add(mpi_ms, solo),
               mpi_to_majority.add(mpi_ms, majority)});
  }
  lines.add({"mean", "", "", "", "", ideal_to_solo.average(), mpi_to_solo.average(), mpi_to_majority.average()});
  lines.add({"paper", "", "", "", "", "", text("%.2f", k_paper_solo), text("%.2f", k_paper_majority)});
  out.print(lines);
  out.say(
      "Latency: mean over ranks and iterations, rank r calls r x %g ms late. Ideal of any synchronous allreduce: %.2f "
      "ms.",
      k_skew_ms, synchronous);
  if (ranks.is_oversubscribed())
    out.say(
        "* oversubscribed, %d ranks on %d cores: an MPI that spins while it waits is slowed by the scheduler, so these "
        "ratios favour libsched. \"ideal/solo\" compares with the ideal of any synchronous allreduce.",
        ranks.local_ranks(), ranks.cores());
}

/// Draws latency (log axis) and active processes over message size.
void draw_figure(int ranks, reporter& out) {
  std::vector<plot_diagram> both{
      {"set logscale x 2\nset format x '%.0b%B'\nset logscale y 10\n"
       "set ylabel 'latency, mean over ranks [ms]'\n"},
      {text("unset logscale y\nset ylabel 'active processes (NAP)'\nset xlabel 'message size [B]'\nset yrange [0:%d]\n",
            ranks + 1)}};
  for (plot_diagram& each : both) each.shares_x = true;
  for (const auto& [policy, color] : {std::pair("mpi", "#7f7f7f"), {"majority", "#1f77b4"}, {"solo", "#ff7f0e"}})
    for (const result& row : out.results()) {
      if (row.at("what") != policy) continue;
      const std::string style = text("linespoints linewidth 2 pointtype 7 linecolor rgb '%s'", color);
      both[0].named(policy, style).points.emplace_back(row.at("bytes"), row.at("mean_ms"));
      both[1].named(policy, style).points.emplace_back(row.at("bytes"), row.at("nap"));
    }
  out.draw(text("Allreduce under linear skew, %d ranks", ranks), both,
           text("Skew: rank r calls r x %g ms late; means over ranks and iterations. No synchronous allreduce can be "
                "below %.2f ms. Where ranks share cores, an MPI that spins is slowed by the scheduler.",
                k_skew_ms, (ranks - 1) / 2.0 * k_skew_ms));
}

}  // namespace

int run_fig9(lsched_world* runtime, const fig9_options& options) {
  team ranks(runtime);
  reporter out("fig9", options, ranks);
  const bool wants_mpi = options.only.empty() || options.only == "mpi";
  const bool with_mpi = wants_mpi && !mpi_if_measured(ranks, out).empty();
  if (options.only == "mpi" && !with_mpi) throw agreed("no MPI rows: " + why_no_mpi(ranks.size()));
  measure(ranks, options, with_mpi, out);
  print_table(ranks, options, out);
  draw_figure(ranks.size(), out);
  ranks.barrier();
  return out.finish();
}

}  // namespace lsched::bench
