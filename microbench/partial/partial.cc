// Measures latency and number of contributors of partial allreduces. A model determines how late ranks are. The
// policies from solo to full are measured one after the other. Compares the latencies with the simulator's predictions
// for the same delays and random draws.
//
// With a barrier between rounds (Li et al., PPoPP 2020, Fig. 8), rounds are independent. Contributions are all ones,
// and late contributions are withdrawn, so each element of a result is the number of ranks that were in time. Without a
// barrier, ranks can fall behind and run ahead. Late contributions join a later round, and at the end every rank must
// have received every contribution exactly once.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "libsched/simulate/simulation.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/tuning_table.h"
#include "libsched/schedule/draw.h"
#include "microbench/partial/partial_arrivals.h"
#include "microbench/partial/partial_call.h"

namespace lsched::bench {
namespace {

constexpr double k_ps_per_ms = 1e9;
constexpr std::uint64_t k_warm_up = 2;

// --- delays ----------------------------------------------------------------------------------------------------------

/// Returns a model of delays whose mean over ranks and rounds is `mean_ms`.
start_skew skew_named(std::string_view name, double mean_ms, int ranks) {
  const picoseconds mean = rounded(mean_ms * k_ps_per_ms);
  const auto steps = static_cast<picoseconds>(std::max(ranks - 1, 1));
  start_skew skew{.scale = mean};
  if (name == "linear") skew = {.kind = skew_kind::linear, .scale = 2 * mean / steps};
  if (name == "rotating") skew = {.kind = skew_kind::rotating, .scale = 2 * mean / steps};
  if (name == "k_of_p") skew = {.kind = skew_kind::straggler, .scale = mean * ranks};
  if (name == "lognormal")
    skew = {.kind = skew_kind::lognormal,
            .scale = rounded(std::exp(-0.5) * mean_ms * k_ps_per_ms),
            .sigma = 1,
            .most = 20 * mean};
  skew.seed = partial_call::k_seed;
  return skew;
}

/// Returns a machine description for the simulator, with the costs that `auto` assumes when it selects an algorithm.
/// Ranks share memory, and each rank has its own core.
machine shared_memory() {
  const wire_costs near = topology{}.near;
  const auto ps = [](double ns) { return rounded(ns * 1e3); };
  machine made;
  made.levels.front().cost = {.L = ps(near.hop - 2 * near.message),
                              .o = ps(near.message),
                              .g = ps(near.message),
                              .G = static_cast<femtoseconds>(2.5e6 * near.byte)};
  made.S = UINT64_MAX;  // no message needs a rendezvous
  return made;
}

// --- one policy ------------------------------------------------------------------------------------------------------

/// The measurements of one rank with one policy. Vectors have an element for each round.
struct record {
  std::vector<double> latency_ms, contributors;
  std::uint64_t staleness = 0;
  double wrong = 0;
  result arrivals{};
};

class sweep {
 public:
  sweep(team& ranks, const partial_options& options, reporter& out)
      : ranks_(ranks), options_(options), skew_(skew_named(options.skew, options.skew_ms, ranks.size())), out_(out) {}

  void measure(const std::string& policy) {
    partial_call call(ranks_.runtime(), policy, options_.bytes,
                      options_.has_barrier ? LSCHED_LATEST : LSCHED_ACCUMULATE);
    const std::string algorithm = call.algorithm();
    const record seen = options_.has_barrier ? play_apart(call, policy) : play_freely(call, policy);
    call.end();
    result row = combine(seen);
    row.update({{"policy", policy},
                {"algorithm", algorithm},
                {"ms_simulated", nullptr},
                {"skew", options_.skew},
                {"skew_ms", options_.skew == "none" ? 0 : options_.skew_ms},
                {"seed", partial_call::k_seed},
                {"bytes", options_.bytes},
                {"buckets", 1},
                {"barrier", options_.has_barrier}});
    if (options_.has_barrier) row["ms_simulated"] = simulated(policy, algorithm);
    out_.add(std::move(row));
  }

 private:
  void sleep_as_late_as(round_no round) const {
    const auto delay = start_times(skew_, ranks_.size(), round)(ranks_.rank());
    if (delay > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(delay / 1000));
  }

  void tell(const std::string& policy, std::uint64_t round) {
    out_.progress("%s, round %zu of %zu", policy.c_str(), std::size_t{round}, std::size_t{options_.rounds});
  }

  /// Returns the arrivals (partial_arrivals.h) of this rank in all rounds so far.
  static result arrivals_of_rank(const partial_call& call) {
    lsched_partial_stats stats{.struct_size = sizeof stats};
    expect_ok(lsched_schedule_stats(call.schedule(), &stats), "lsched_schedule_stats");
    return arrivals_of(stats);
  }

  /// Checks the result of an independent round.
  bool is_right(partial_call& call, const activation& starts, round_no round) const {
    const lsched_report& report = call.report();
    const auto [candidates, arrivals] = quota_of(starts, ranks_.size());
    const auto least = static_cast<std::uint64_t>(starts.is_full(report.to) ? ranks_.size() : arrivals);
    return call.is_right() && report.to == round && report.from + 1 == round &&
           report.offers == report.last.contributors && report.last.contributors >= least;
  }

  /// Runs independent rounds. Rounds 1 … k_warm_up are checked but not timed.
  record play_apart(partial_call& call, const std::string& policy) {
    const activation starts = *read_activation(policy);
    record seen;
    for (round_no round = 1; round <= options_.rounds + k_warm_up; ++round) {
      tell(policy, round);
      ranks_.barrier();
      sleep_as_late_as(round);
      const double ms = us_of([&] { call.offer_and_copy(); }) / 1e3;
      call.forget();
      ranks_.barrier();
      seen.wrong += is_right(call, starts, round) ? 0 : 1;
      if (round <= k_warm_up) continue;
      seen.latency_ms.push_back(ms);
      seen.contributors.push_back(static_cast<double>(call.report().last.contributors));
    }
    seen.arrivals = arrivals_of_rank(call);
    ranks_.barrier();  // when a rank leaves the schedule, it starts further rounds
    return seen;
  }

  /// Runs rounds without barriers. At the end pending contributions are sent. After that, every contribution must have
  /// arrived exactly once.
  record play_freely(partial_call& call, const std::string& policy) {
    record seen;
    double delivered = 0;
    ranks_.barrier();
    for (round_no round = 1; round <= options_.rounds; ++round) {
      tell(policy, round);
      sleep_as_late_as(round);
      seen.latency_ms.push_back(us_of([&] { call.offer_and_copy(); }) / 1e3);
      delivered += call.offers();
      if (call.report().to == call.report().from) continue;
      seen.contributors.push_back(static_cast<double>(call.report().last.contributors));
      seen.staleness = std::max(seen.staleness, call.report().staleness);
    }
    seen.arrivals = arrivals_of_rank(call);
    call.leave_and_collect();
    delivered += call.offers();
    seen.wrong = delivered == static_cast<double>(options_.rounds) * ranks_.size() ? 0 : 1;
    return seen;
  }

  /// Combines the measurements of all ranks. This function is collective.
  result combine(const record& seen) {
    const auto sum = [](const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
    const double least = seen.contributors.empty() ? 0 : *std::ranges::min_element(seen.contributors);
    const double deliveries = ranks_.combine(static_cast<double>(seen.contributors.size()), LSCHED_SUM);
    // Without a barrier, ranks collect at different times, so their reports may differ.
    const std::uint64_t differing = options_.has_barrier ? count_disagreements(ranks_, seen.contributors) : 0;
    return {
        {"rounds", options_.rounds},
        {"nap_mean", ranks_.combine(sum(seen.contributors), LSCHED_SUM) / std::max(deliveries, 1.0)},
        {"nap_min", ranks_.combine(least, LSCHED_MIN)},
        {"ms_mean", ranks_.combine(mean_of(seen.latency_ms), LSCHED_SUM) / ranks_.size()},
        {"staleness_max", static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(seen.staleness), LSCHED_MAX))},
        {"violations", static_cast<std::uint64_t>(ranks_.combine(seen.wrong, LSCHED_SUM)) + differing},
        {"stats", gather(ranks_, seen.arrivals)}};
  }

  /// On rank 0, returns the mean latency that the simulator computes for the same rounds, delays and draws. Returns 0
  /// on other ranks.
  double simulated(const std::string& policy, const std::string& algorithm) {
    double sum = 0;
    on_root(ranks_, [&] {
      activation starts = *read_activation(policy);
      starts.seed = partial_call::k_seed;
      const auto size = static_cast<rank>(ranks_.size());
      const lsched::algorithm* how = find("partial_allreduce", algorithm);
      const shape data = typical_shape(*how->of, size, options_.bytes / sizeof(float), dtype::f32, kernel::sum);
      const auto world = generate_world(*how, size, data, starts);
      if (!world) throw failed(world.error().text);
      std::vector<rank> present(static_cast<std::size_t>(size));
      std::iota(present.begin(), present.end(), 0);
      for (round_no round = k_warm_up + 1; round <= options_.rounds + k_warm_up; ++round) {
        const simulation scenario{
            .where = shared_memory(), .skew = skew_, .instance = round, .initiator = draw(starts.seed, round, present)};
        const auto report = simulate_schedules(*world, scenario);
        if (!report) throw failed(report.error().text);
        sum += static_cast<double>(mean_latency(*report, start_times(skew_, size, round))) / k_ps_per_ms;
      }
    });
    return sum / static_cast<double>(options_.rounds);
  }

  team& ranks_;
  const partial_options& options_;
  const start_skew skew_;
  reporter& out_;
};

// --- reports ---------------------------------------------------------------------------------------------------------

void print_table(const partial_options& options, reporter& out) {
  out.print({column("policy", "policy"), column("contributors", "nap_mean", 2), column("least", "nap_min", 0),
             column("ms", "ms_mean", 4), column("simulated ms", "ms_simulated", 4),
             column("staleness", "staleness_max"), column("violations", "violations"),
             column("algorithm", "algorithm")});
  out.say("Means over ranks and %zu rounds of %s; delays %s, %g ms on average. %s", std::size_t{options.rounds},
          size_text(options.bytes).c_str(), options.skew.c_str(), options.skew == "none" ? 0 : options.skew_ms,
          options.has_barrier ? "A barrier between rounds: contributors are the ranks in time."
                              : "No barrier: late contributions join a later round; staleness: maximum, in rounds.");
}

void print_arrivals(const partial_options& options, reporter& out) {
  std::vector<result> lines;
  for (const result& row : out.results())
    for (result line : row.at("stats")) {
      const double saved = line.at("bytes_saved"), all = saved + line.at("bytes_sent").get<double>();
      line.update({{"policy", row.at("policy")}, {"saved", all > 0 ? result(saved / all) : result()}});
      lines.push_back(std::move(line));
    }
  constexpr column k_columns[] = {column("policy", "policy"),
                                  column("rank", "rank"),
                                  column("in time", "in_time"),
                                  column("late", "late"),
                                  column("not called", "uncalled"),
                                  column("lateness, ms", "lateness_ms", 4),
                                  column("median", "lateness_ms_median", 4),
                                  column("completion, ms", "completion_ms", 4),
                                  percent("bytes saved", "saved", 0)};
  out.print(table_of(lines, k_columns));
  out.say(
      "in time, late, not called: rounds that a rank called before its part began, later, or not yet. lateness, "
      "completion: time from the beginning of that part to the call, and to the end of the round.%s",
      options.has_barrier ? " Includes two rounds without a time." : "");
}

/// Returns policies in the order of the number of ranks that a round waits for, from "solo" to "full".
std::vector<std::string> spectrum_of(int ranks) {
  std::vector<std::string> all{"solo"};
  for (int few = 2; few < ranks; few *= 2) all.push_back("first_of(" + std::to_string(few) + ")");
  all.emplace_back("majority");
  for (int few = 2; few < ranks; few *= 2) all.push_back("all_of(" + std::to_string(few) + ")");
  for (int few = 2; few < ranks; few += std::max(1, ranks / 8)) all.push_back("quorum(" + std::to_string(few) + ")");
  if (ranks > 1) all.push_back("quorum(" + std::to_string(ranks) + ")");
  all.emplace_back("full");
  return all;
}

void expect_sense(const partial_options& options, int ranks) {
  for (const std::string& policy : options.policies)
    if (const auto why = validate(*read_activation(policy), static_cast<rank>(ranks))) throw agreed(why->text);
}

}  // namespace

std::span<const std::string_view> partial_skews() {
  static constexpr std::string_view k_names[] = {"none", "linear", "k_of_p", "rotating", "lognormal"};
  return k_names;
}

int run_partial(lsched_world* runtime, const partial_options& wanted) {
  team ranks(runtime);
  partial_options options = wanted;
  if (options.policies.empty()) options.policies = spectrum_of(ranks.size());
  expect_sense(options, ranks.size());
  reporter out("partial", options, ranks);
  sweep all(ranks, options, out);
  for (const std::string& policy : options.policies) all.measure(policy);
  print_table(options, out);
  if (options.shows_arrivals) print_arrivals(options, out);
  ranks.barrier();
  return out.finish();
}

}  // namespace lsched::bench
