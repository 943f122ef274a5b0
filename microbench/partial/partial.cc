// Latency of partial allreduces against how many ranks are in them: one policy after the other, from solo to full,
// under ranks that come late as a model says, beside what the simulator predicts for the same delays and draws.
//
// With a barrier between rounds (Li et al., PPoPP 2020, Fig. 8) each round stands for itself: a contribution that came
// too late is forgotten, so that a result's elements, all ones, count the ranks that were in time. Without one, ranks
// really lag and run ahead: what comes too late joins a later round, and at the end every rank must have got every
// contribution exactly once.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "collectives/registry.h"
#include "collectives/tuning_table.h"
#include "libsched/schedule/draw.h"
#include "libsched/simulate/schedule_world.h"
#include "libsched/simulate/skew.h"
#include "microbench/benchmarks.h"
#include "microbench/partial/partial_arrivals.h"
#include "microbench/partial/partial_plot.h"
#include "microbench/plot.h"

namespace lsched::bench {
namespace {

constexpr double k_ps_per_ms = 1e9;
constexpr std::uint64_t k_warm_up = 2;
constexpr std::uint64_t k_seed = 1;  // of draws and delays

// --- delays ----------------------------------------------------------------------------------------------------------

/// Moments of measured workloads (Li et al., §2): a log-normal distribution around its median on top of a part that all
/// steps have, all in multiples of their mean.
struct workload {
  double least, median, sigma, most;
};
constexpr workload k_ucf101{0, 0.868, 0.532, 2.76}, k_cloud{0.879, 0.0519, 1.302, 4.17};

start_skew of_workload(const workload& what, picoseconds mean) {
  const auto part = [mean](double share) { return rounded(share * static_cast<double>(mean)); };
  return {.kind = skew_kind::lognormal,
          .scale = part(what.median),
          .sigma = what.sigma,
          .shift = part(what.least),
          .most = part(what.most)};
}

/// Delays of that mean over ranks and rounds.
start_skew skew_named(std::string_view name, double mean_ms, int ranks) {
  const picoseconds mean = rounded(mean_ms * k_ps_per_ms);
  const auto steps = static_cast<picoseconds>(std::max(ranks - 1, 1));
  start_skew skew{.scale = mean};
  if (name == "linear") skew = {.kind = skew_kind::linear, .scale = 2 * mean / steps};
  if (name == "rotating") skew = {.kind = skew_kind::rotating, .scale = 2 * mean / steps};
  if (name == "k_of_p") skew = {.kind = skew_kind::stragglers, .scale = mean * ranks};
  if (name == "lognormal") skew = of_workload({0, std::exp(-0.5), 1, 20}, mean);
  if (name == "ucf101") skew = of_workload(k_ucf101, mean);
  if (name == "cloud") skew = of_workload(k_cloud, mean);
  skew.seed = k_seed;
  return skew;
}

/// A machine of ranks that share memory and have a core each, by what `auto` counts with.
machine shared_memory() {
  const wire_costs near = topology{}.near;
  const auto ps = [](double ns) { return rounded(ns * 1e3); };
  machine it;
  it.levels.front().cost = {.L = ps(near.hop - 2 * near.message),
                            .o = ps(near.message),
                            .g = ps(near.message),
                            .G = static_cast<femtoseconds>(2.5e6 * near.byte)};
  it.S = UINT64_MAX;  // nothing is asked for before it is sent
  return it;
}

// --- one rank --------------------------------------------------------------------------------------------------------

/// What one rank has seen of a policy, a number per round.
struct record {
  std::vector<double> latency_ms, contributors;
  std::uint64_t staleness = 0;
  double wrong = 0;
  arrivals mine{};
};

class side {
 public:
  side(lsched_world* runtime, const std::string& policy, const partial_options& options)
      : starts_(*read_activation(policy)),
        ranks_(lsched_size(runtime)),
        send_(options.bytes / sizeof(float), 1.0f),
        result_(send_.size()) {
    const lsched_partial_desc desc{.struct_size = sizeof desc,
                                   .count = send_.size(),
                                   .dtype = LSCHED_F32,
                                   .reduction = LSCHED_SUM,
                                   .activation = policy.c_str(),
                                   .seed = k_seed,
                                   .lag = options.has_barrier ? LSCHED_LATEST : LSCHED_ACCUMULATE,
                                   .history = 0,
                                   .algorithm = nullptr};
    schedule_ = created("lsched_partial_create", lsched_partial_create, runtime, &desc);
  }

  /// Answers how long it took, in ms.
  double call() {
    lsched_ticket ticket{};
    const auto begin = clock::now();
    expect_ok(lsched_offer(schedule_.get(), send_.data(), &ticket), "lsched_offer");
    expect_ok(lsched_collect(ticket, result_.data(), k_patience_ns, &report_, &why_), "lsched_collect", why_);
    return ms_between(begin, clock::now());
  }

  void forget() { expect_ok(lsched_withdraw(schedule_.get(), nullptr), "lsched_withdraw"); }

  /// Of a round that stands for itself.
  bool is_wrong() const {
    const auto [candidates, arrivals] = quota_of(starts_, ranks_);
    const auto least = static_cast<std::uint64_t>(starts_.is_full(report_.to) ? ranks_ : arrivals);
    const auto expected = static_cast<float>(report_.last.contributors);
    return report_.to != report_.from + 1 || report_.has_result == 0 || report_.last.contributors < least ||
           std::ranges::any_of(result_, [&](float x) { return x != expected; });
  }

  /// Adds up what was delivered.
  void take() {
    if (report_.has_result != 0 && !result_.empty()) total_ += result_.front();
  }

  /// What is pending is sent, all of it arrives. Answers the sum of all that was delivered.
  double drain() {
    expect_ok(lsched_leave(schedule_.get()), "lsched_leave");
    const lsched_ticket last{schedule_.get(), UINT64_MAX};
    expect_ok(lsched_collect(last, result_.data(), k_patience_ns, &report_, &why_), "lsched_collect", why_);
    take();
    return total_;
  }

  /// Of all rounds until now.
  arrivals look_back() const {
    lsched_partial_stats stats{.struct_size = sizeof stats};
    expect_ok(lsched_schedule_stats(schedule_.get(), &stats), "lsched_schedule_stats");
    return arrivals_of(stats);
  }

  const lsched_report& report() const { return report_; }
  const lsched_schedule* handle() const { return schedule_.get(); }
  void end() { close(std::move(schedule_)); }

 private:
  const activation starts_;
  const rank ranks_;
  std::vector<float> send_, result_;
  double total_ = 0;
  schedule_handle schedule_;
  lsched_report report_{.struct_size = sizeof(lsched_report)};
  lsched_diagnostic why_ = fresh_diagnostic();
};

// --- one policy ------------------------------------------------------------------------------------------------------

class sweep {
 public:
  sweep(team& ranks, const partial_options& options, reporter& out)
      : ranks_(ranks), options_(options), skew_(skew_named(options.skew, options.skew_ms, ranks.size())), out_(out) {}

  partial_row measure(const std::string& policy) {
    side mine(ranks_.runtime(), policy, options_);
    const std::string algorithm = algorithm_of(mine.handle());
    const record seen = options_.has_barrier ? play_apart(mine, policy) : play_freely(mine, policy);
    mine.end();
    partial_row row = combine(seen);
    row.policy = policy;
    row.algorithm = algorithm;
    if (options_.has_barrier) row.ms_simulated = simulated(policy, algorithm);
    return row;
  }

 private:
  void sleep_as_late_as(round_no round) const {
    const auto delay = start_times(skew_, ranks_.size(), round)(ranks_.rank());
    if (delay > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(delay / 1000));
  }

  void tell(const std::string& policy, std::uint64_t round) {
    out_.progress("%s, round %llu of %llu", policy.c_str(), static_cast<unsigned long long>(round),
                  static_cast<unsigned long long>(options_.rounds));
  }

  /// Rounds 1 … k_warm_up are checked, and not timed.
  record play_apart(side& mine, const std::string& policy) {
    record seen;
    for (round_no round = 1; round <= options_.rounds + k_warm_up; ++round) {
      tell(policy, round);
      ranks_.barrier();
      sleep_as_late_as(round);
      const double ms = mine.call();
      mine.forget();
      ranks_.barrier();
      seen.wrong += mine.is_wrong() || mine.report().to != round ? 1 : 0;
      if (round <= k_warm_up) continue;
      seen.latency_ms.push_back(ms);
      seen.contributors.push_back(static_cast<double>(mine.report().last.contributors));
    }
    seen.mine = mine.look_back();
    ranks_.barrier();  // those who leave make rounds of their own
    return seen;
  }

  record play_freely(side& mine, const std::string& policy) {
    record seen;
    ranks_.barrier();
    for (round_no round = 1; round <= options_.rounds; ++round) {
      tell(policy, round);
      sleep_as_late_as(round);
      seen.latency_ms.push_back(mine.call());
      mine.take();
      note(mine, seen);
    }
    seen.mine = mine.look_back();
    const double total = mine.drain();
    seen.wrong = total == static_cast<double>(options_.rounds) * ranks_.size() ? 0 : 1;
    return seen;
  }

  static void note(const side& mine, record& seen) {
    if (mine.report().to == mine.report().from) return;
    seen.contributors.push_back(static_cast<double>(mine.report().last.contributors));
    seen.staleness = std::max(seen.staleness, mine.report().staleness);
  }

  /// Collective.
  partial_row combine(const record& seen) {
    const auto count = static_cast<double>(seen.latency_ms.size());
    const auto sum = [](const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
    const double least = seen.contributors.empty() ? 0 : *std::ranges::min_element(seen.contributors);
    const double deliveries = ranks_.combine(static_cast<double>(seen.contributors.size()), LSCHED_SUM);
    return {
        .nap_mean = ranks_.combine(sum(seen.contributors), LSCHED_SUM) / std::max(deliveries, 1.0),
        .nap_min = ranks_.combine(least, LSCHED_MIN),
        .ms_mean = ranks_.combine(sum(seen.latency_ms) / count, LSCHED_SUM) / ranks_.size(),
        .ms_simulated = std::nullopt,
        .staleness_max = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(seen.staleness), LSCHED_MAX)),
        .violations = static_cast<std::uint64_t>(ranks_.combine(seen.wrong, LSCHED_SUM)) + disagreements(seen),
        .of_ranks = gather(ranks_, seen.mine)};
  }

  /// Rounds in which ranks are told different things.
  std::uint64_t disagreements(const record& seen) {
    if (!options_.has_barrier) return 0;  // who collects when is each rank's own
    const auto least = ranks_.combine(seen.contributors, LSCHED_MIN);
    const auto most = ranks_.combine(seen.contributors, LSCHED_MAX);
    std::uint64_t differing = 0;
    for (std::size_t i = 0; i < least.size(); ++i) differing += least[i] != most[i] ? 1u : 0u;
    return differing;
  }

  /// The mean over the same rounds, the same delays and draws, on the simulator's machine. On rank 0; 0 elsewhere.
  double simulated(const std::string& policy, const std::string& algorithm) {
    double sum = 0;
    on_root(ranks_, [&] {
      activation starts = *read_activation(policy);
      starts.seed = k_seed;
      const auto size = static_cast<rank>(ranks_.size());
      const lsched::algorithm* how = find("partial_allreduce", algorithm);
      const shape data = typical_shape(*how->of, size, options_.bytes / sizeof(float), dtype::f32, kernel::sum);
      const auto world = generate_world(*how, size, data, starts);
      if (!world) throw failed(world.error().text);
      std::vector<rank> present(static_cast<std::size_t>(size));
      std::iota(present.begin(), present.end(), 0);
      for (round_no round = k_warm_up + 1; round <= options_.rounds + k_warm_up; ++round) {
        const simulation what{
            .where = shared_memory(), .skew = skew_, .instance = round, .initiator = draw(starts.seed, round, present)};
        const auto report = simulate_schedules(*world, what);
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

// --- telling ---------------------------------------------------------------------------------------------------------

void write_json(reporter& out, const partial_row& row, const partial_options& options, int ranks) {
  nlohmann::json line{{"bench", "partial"},
                      {"policy", row.policy},
                      {"skew", options.skew},
                      {"ranks", ranks},
                      {"rounds", options.rounds},
                      {"nap_mean", row.nap_mean},
                      {"nap_min", row.nap_min},
                      {"ms_mean", row.ms_mean},
                      {"ms_simulated", nullptr},
                      {"staleness_max", row.staleness_max},
                      {"violations", row.violations},
                      {"skew_ms", options.skew == "none" ? 0 : options.skew_ms},
                      {"seed", k_seed},
                      {"bytes", options.bytes},
                      {"algorithm", row.algorithm},
                      {"buckets", 1},
                      {"barrier", options.has_barrier},
                      {"transport", options.transport},
                      {"stats", json_of(row.of_ranks)}};
  if (row.ms_simulated) line["ms_simulated"] = *row.ms_simulated;
  out.json(std::move(line));
}

void print_table(const std::vector<partial_row>& rows, const partial_options& options, reporter& out) {
  table lines({"policy", "contributors", "least", "ms", "simulated ms", "staleness", "violations", "algorithm"});
  for (const partial_row& row : rows)
    lines.add({row.policy, text("%.2f", row.nap_mean), text("%.0f", row.nap_min), text("%.4f", row.ms_mean),
               row.ms_simulated ? text("%.4f", *row.ms_simulated) : "-", std::to_string(row.staleness_max),
               std::to_string(row.violations), row.algorithm});
  out.print(lines);
  out.say("Means over ranks and %llu rounds of %s; delays %s, %g ms on average. %s",
          static_cast<unsigned long long>(options.rounds), size_text(options.bytes).c_str(), options.skew.c_str(),
          options.skew == "none" ? 0 : options.skew_ms,
          options.has_barrier ? "A barrier between rounds: contributors are those in time."
                              : "No barrier: what comes late joins a later round; staleness in rounds, at most.");
}

void print_arrivals(const std::vector<partial_row>& rows, const partial_options& options, reporter& out) {
  table lines = arrivals_table();
  for (const partial_row& row : rows) add_rows(lines, row.policy, row.of_ranks);
  out.print(lines);
  out.say(
      "Rounds that a rank had called for when its part of them began, called for later, or not yet; and from that "
      "moment to its call, and to the end of the round.%s",
      options.has_barrier ? " Two rounds more than were timed." : "");
}

/// From the first to arrive to the last.
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
  static constexpr std::string_view k_names[] = {"none",      "linear", "k_of_p", "rotating",
                                                 "lognormal", "ucf101", "cloud"};
  return k_names;
}

int run_partial(lsched_world* runtime, const partial_options& wanted) {
  team ranks(runtime);
  partial_options options = wanted;
  if (options.policies.empty()) options.policies = spectrum_of(ranks.size());
  expect_sense(options, ranks.size());
  reporter out("partial", options.json, ranks);
  if (!options.plot.empty()) on_root(ranks, [&] { expect_writable(options.plot); });
  out.introduce(ranks);

  sweep all(ranks, options, out);
  std::vector<partial_row> rows;
  std::uint64_t violations = 0;
  for (const std::string& policy : options.policies) {
    rows.push_back(all.measure(policy));
    violations += rows.back().violations;
    write_json(out, rows.back(), options, ranks.size());
  }
  print_table(rows, options, out);
  if (options.shows_arrivals) print_arrivals(rows, options, out);
  bool is_drawn = true;
  if (!options.plot.empty() && ranks.is_root()) is_drawn = plot_partial(options.plot, rows, ranks.size(), out);
  ranks.barrier();
  return violations == 0 && is_drawn ? 0 : 1;
}

}  // namespace lsched::bench
