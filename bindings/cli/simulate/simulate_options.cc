#include "bindings/cli/simulate/simulate_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/words.h"
#include "bindings/input_file.h"

namespace lsched::cli {
namespace {

constexpr double k_ps_per_ns = 1e3;
constexpr std::uint64_t k_most_simulated_ranks = 1 << 24;
constexpr double k_longest = 1e12;  ///< any time

// --- words to values ---------------------------------------------------------------------------------------

loggops cost_from(double L, double o, double g, double G, double O) {
  return {.L = rounded(L * k_ps_per_ns),
          .o = rounded(o * k_ps_per_ns),
          .g = rounded(g * k_ps_per_ns),
          .G = rounded(G * k_fs_per_ns),
          .O = rounded(O * k_fs_per_ns)};
}

/// RANKS:L:o:g:G, perhaps with ":nic"
machine_level level_from(const std::string& text) {
  const bool shares_nic = text.ends_with(":nic");
  const std::string word = shares_nic ? text.substr(0, text.size() - 4) : text;
  std::array<double, 5> values{};
  int end = 0;
  const int found = std::sscanf(word.c_str(), "%lf:%lf:%lf:%lf:%lf%n", &values[0], &values[1], &values[2], &values[3],
                                &values[4], &end);
  const bool is_read = found == 5 && static_cast<std::size_t>(end) == word.size();
  if (!is_read || values[0] < 1 || values[0] > k_most_simulated_ranks || values[0] != std::floor(values[0]) ||
      !std::ranges::all_of(values, [](double value) { return value >= 0 && value <= k_longest; }))
    throw CLI::ValidationError("--level", "\"" + text +
                                              "\" is not RANKS:L:o:g:G[:nic], a whole number of ranks and four "
                                              "times in ns from 0 to 1e12");
  return {.ranks = static_cast<rank>(values[0]),
          .cost = cost_from(values[1], values[2], values[3], values[4], 0),
          .shares_nic = shares_nic};
}

constexpr std::array k_skews{skew_kind::none,       skew_kind::linear,    skew_kind::uniform, skew_kind::lognormal,
                             skew_kind::stragglers, skew_kind::empirical, skew_kind::fixed,   skew_kind::rotating};
constexpr std::array k_noises{noise_kind::none, noise_kind::periodic, noise_kind::exponential, noise_kind::pareto,
                              noise_kind::trace};

/// Microseconds, one number a line.
std::vector<picoseconds> read_samples(const std::string& path) {
  std::istringstream file(require(content_of(path)));
  std::vector<picoseconds> samples;
  for (double sample = 0; file >> sample;) samples.push_back(rounded(sample * k_ps_per_us));
  if (!file.eof() || samples.empty()) throw command_failure(path + " does not hold numbers");
  return samples;
}

noise_trace read_noise_trace(const std::string& path) {
  auto trace = parse_noise_trace(require(content_of(path)));
  if (!trace) throw command_failure(LSCHED_ERR_ARGUMENT, path + ": " + trace.error().text);
  return std::move(*trace);
}

// --- options -----------------------------------------------------------------------------------------------

/// Adds options to one group of the help text.
struct option_group {
  CLI::App& command;
  const char* name;

  template <class Value>
  CLI::Option* add(const char* option, Value& value, const char* text) const {
    return command.add_option(option, value, text)->group(name);
  }
  template <class Value>
  CLI::Option* add(const char* option, Value& value, const char* text, const CLI::Validator& check) const {
    return add(option, value, text)->check(check)->capture_default_str();
  }
  void add_time(const char* option, double& value, const char* text) const {
    add(option, value, text, number(0, k_longest));
  }
};

void add_machine_options(CLI::App& command, simulate_options& options) {
  const option_group group{command, "Machine"};
  group.add_time("--L", options.L, "Latency of the wire, ns");
  group.add_time("--o", options.o, "CPU time of a message at either end, ns");
  group.add_time("--g", options.g, "Gap between messages at a NIC, ns");
  group.add_time("--G", options.G, "Gap per byte, ns (0.04 is 25 GB/s)");
  group.add_time("--O", options.O, "CPU time per byte, ns");
  group.add_time("--compute", options.compute, "Reduction or copy, ns per byte");
  group.add("--S", options.S, "Largest eager message, bytes; longer ones rendezvous", whole_number(0));
  group.add("--level", options.levels,
            "RANKS:L:o:g:G[:nic] of groups of neighbours, innermost first; repeatable; with \"nic\" a group "
            "shares the one to ranks outside");
  group.add("--semantics", options.rules, "Whose rules: libsched, or LogGOPSim's main line",
            CLI::IsMember({"libsched", "loggopsim"}));
}

void add_noise_options(CLI::App& command, simulate_options& options) {
  const option_group group{command, "Skew and noise"};
  group.add("--skew,--noise", options.skew, "When ranks begin", CLI::IsMember(names_of(k_skews)));
  group.add_time("--skew-us", options.skew_us,
                 "Per rank (linear, rotating), most (uniform), median (lognormal), delay (stragglers, fixed)");
  group.add("--sigma", options.sigma, "Of lognormal skew", number(0, 10));
  group.add_time("--shift-us", options.shift_us, "Added to uniform, lognormal and rotating skew");
  group.add_time("--most-us", options.most_us, "Larger skews are cut to this; 0: none are");
  group.add("--stragglers", options.stragglers, "How many ranks straggle", whole_number(0, k_most_simulated_ranks));
  group.add("--skew-file", options.skew_file, "Starts in us, one a line, for empirical skew");
  group.add("--skew-ranks", options.skew_ranks, "Who begins late under fixed skew")
      ->check(whole_number(0, k_most_simulated_ranks));
  group.add("--cpu-noise", options.cpu_noise, "What CPUs lose meanwhile", CLI::IsMember(names_of(k_noises)));
  group.add_time("--cpu-noise-us", options.cpu_noise_us, "Length (periodic), mean (exponential), scale (pareto)");
  group.add("--period-us", options.period_us, "Of periodic noise", number(1e-3, 1e12));
  group.add("--alpha", options.alpha, "Of pareto noise", number(1e-2, 1e3));
  group.add("--noise-file", options.noise_file, "Trace noise: lines of start and duration, ns (LogGOPSim's)");
  command.add_flag("--cosched", options.cosched, "Trace noise: all ranks are away together")->group(group.name);
  group.add_time("--jitter-us", options.jitter_us, "Mean of what the wire adds to L");
  group.add("--speed-cv", options.speed_cv, "Spread of the ranks' speeds, normal around 1", number(0, 1));
  group.add("--slow-share", options.slow_share, "Share of the ranks that are slow all the time", number(0, 1));
  group.add("--slow-factor", options.slow_factor, "How many times slower those are", number(1, 1e6));
  group.add("--instance", options.instance, "Which of many rounds: other draws, another turn of rotating skew",
            whole_number(1));
  group.add("--seed", options.seed, "Of all draws", whole_number(0));
  group.add("--seeds", options.seeds, "Simulate so many seeds from --seed on", whole_number(1, 1'000'000));
}

// --- options that go together ----------------------------------------------------------------------------------

bool is_given(const CLI::App& command, const std::string& name) { return command.get_option(name)->count() > 0; }

/// `name` needs `what` to mean anything.
void expect(const CLI::App& command, const std::string& name, bool is_heeded, const std::string& what) {
  if (is_given(command, name) && !is_heeded) throw CLI::ValidationError(name, "changes nothing without " + what);
}

/// A mode that heeds only these.
void expect_only(const CLI::App& command, const std::string& mode, const std::vector<std::string>& heeded) {
  for (const CLI::Option* it : command.get_options()) {
    const std::string name = it->get_name();
    if (it->count() > 0 && name != mode && std::ranges::find(heeded, name) == heeded.end())
      throw CLI::ValidationError(mode, "does not heed " + name);
  }
}

void check_skew(const CLI::App& command, const simulate_options& options) {
  const auto is = [&](std::initializer_list<std::string_view> kinds) {
    return std::ranges::find(kinds, options.skew) != kinds.end();
  };
  expect(command, "--skew-us", is({"linear", "rotating", "uniform", "lognormal", "stragglers", "fixed"}), "--skew");
  expect(command, "--sigma", is({"lognormal"}), "--skew lognormal");
  expect(command, "--shift-us", is({"uniform", "lognormal", "rotating"}), "--skew uniform, lognormal or rotating");
  expect(command, "--most-us", !is({"none"}), "--skew");
  expect(command, "--stragglers", is({"stragglers"}), "--skew stragglers");
  if (is({"empirical"}) == options.skew_file.empty())
    throw CLI::ValidationError("--skew-file", "the starts of empirical skew, and of no other");
  if (is({"fixed"}) == options.skew_ranks.empty())
    throw CLI::ValidationError("--skew-ranks", "the ranks of fixed skew, and of no other");
}

void check_noise(const CLI::App& command, const simulate_options& options) {
  const std::string& kind = options.cpu_noise;
  expect(command, "--cpu-noise-us", kind == "periodic" || kind == "exponential" || kind == "pareto",
         "--cpu-noise periodic, exponential or pareto");
  expect(command, "--period-us", kind == "periodic", "--cpu-noise periodic");
  expect(command, "--alpha", kind == "pareto", "--cpu-noise pareto");
  expect(command, "--cosched", kind == "trace", "--cpu-noise trace");
  expect(command, "--slow-factor", options.slow_share > 0, "--slow-share");
  if ((kind == "trace") == options.noise_file.empty())
    throw CLI::ValidationError("--noise-file", "the trace of trace noise, and of no other");
}

/// What a sparse allreduce is of is counted in elements.
void check_sparse(const CLI::App& command, simulate_options& options) {
  const bool is_sparse = options.collective == k_sparse_allreduce;
  for (const char* name : {"--count", "--k", "--density", "--period", "--bucket"})
    expect(command, name, is_sparse, "--collective sparse_allreduce");
  if (!is_sparse) return;
  if (is_given(command, "--bytes"))
    throw CLI::ValidationError("--bytes", "a sparse allreduce is of --count f32 elements");
  if (!is_given(command, "--algorithm")) options.algorithm = "oktopk";
  options.bytes = {options.count * size_of(dtype::f32)};
}

/// A barrier's messages are signals.
void check_barrier(const CLI::App& command, simulate_options& options) {
  if (options.collective != "barrier") return;
  if (is_given(command, "--bytes")) throw CLI::ValidationError("--bytes", "the signals of a barrier are of 8 bytes");
  options.bytes = {k_signal_bytes};
}

void check_policy(const CLI::App& command, const simulate_options& options) {
  const bool is_partial = options.collective == "partial_allreduce";
  expect(command, "--activation", is_partial, "--collective partial_allreduce");
  // Of a file, the schedules say their policy: run_of looks.
  if (options.file.empty())
    expect(command, "--initiator", is_partial && options.activation == "majority", "--activation majority");
}

}  // namespace

void check_simulate_options(const CLI::App& command, simulate_options& options) {
  if (options.calibrate) return expect_only(command, "--calibrate", {"--json"});
  if (options.fig9) {
    expect_only(command, "--fig9",
                {"--ranks", "--bytes", "--skew-us", "--L", "--o", "--g", "--G", "--O", "--S", "--compute", "--level",
                 "--semantics", "--plot", "--measured", "--json"});
    if (options.bytes.size() != 1) throw CLI::ValidationError("--bytes", "the figure is of one size");
  } else {
    check_skew(command, options);
  }
  check_noise(command, options);
  check_policy(command, options);
  check_barrier(command, options);
  check_sparse(command, options);
  expect(command, "--S", options.rules == "libsched", "--semantics libsched: elsewhere all messages are eager");
}

machine machine_from(const simulate_options& options) {
  machine where{.levels = {}, .S = options.S, .compute = rounded(options.compute * k_fs_per_ns)};
  where.rules = options.rules == "loggopsim" ? semantics::loggopsim : semantics::libsched;
  for (const std::string& word : options.levels) where.levels.push_back(level_from(word));
  where.levels.push_back({.cost = cost_from(options.L, options.o, options.g, options.G, options.O)});
  return where;
}

start_skew skew_from(const simulate_options& options) {
  start_skew skew{.kind = named(k_skews, options.skew),
                  .scale = rounded(options.skew_us * k_ps_per_us),
                  .sigma = options.sigma,
                  .count = options.stragglers,
                  .shift = rounded(options.shift_us * k_ps_per_us),
                  .most = rounded(options.most_us * k_ps_per_us),
                  .seed = options.seed};
  if (skew.kind == skew_kind::empirical) skew.samples = read_samples(options.skew_file);
  skew.ranks.assign(options.skew_ranks.begin(), options.skew_ranks.end());
  std::ranges::sort(skew.ranks);
  return skew;
}

cpu_noise noise_from(const simulate_options& options) {
  cpu_noise noise{.kind = named(k_noises, options.cpu_noise),
                  .scale = rounded(options.cpu_noise_us * k_ps_per_us),
                  .period = rounded(options.period_us * k_ps_per_us),
                  .alpha = options.alpha,
                  .jitter = rounded(options.jitter_us * k_ps_per_us),
                  .is_cosched = options.cosched,
                  .pace = {options.speed_cv, options.slow_share, options.slow_factor},
                  .seed = options.seed};
  if (noise.kind == noise_kind::periodic && noise.scale >= noise.period)
    throw CLI::ValidationError("--cpu-noise-us", "a CPU cannot be away longer than a period");
  if (noise.kind == noise_kind::trace) noise.trace = read_noise_trace(options.noise_file);
  return noise;
}

void add_simulate_options(CLI::App& command, simulate_options& options) {
  auto* collective =
      command
          .add_option("--collective", options.collective, "allreduce, barrier, reduce, gather, partial_allreduce, …")
          ->capture_default_str();
  auto* algorithm =
      command
          .add_option("--algorithm", options.algorithm,
                      "recursive_doubling, or what `lsched list` shows; of sparse_allreduce by default oktopk")
          ->capture_default_str();
  auto* ranks = command.add_option("--ranks", options.ranks, "Sizes of the world")
                    ->check(whole_number(1, k_most_simulated_ranks))
                    ->capture_default_str();
  auto* bytes = command.add_option("--bytes", options.bytes, "Bytes a rank contributes")
                    ->check(whole_number(0, k_max_count))
                    ->capture_default_str();
  command.add_option("--count", options.count, "Elements of a sparse allreduce, f32")
      ->check(whole_number(0, std::uint64_t{1} << 32))
      ->capture_default_str();
  add_sparse_options(command, options.sparse);
  command
      .add_option("--period", options.period, "Rounds between two looks at oktopk's boundaries; --instance 1 is one")
      ->check(whole_number(1, k_longest_period))
      ->capture_default_str();
  command.add_option("--bucket", options.bucket, "Lists that oktopk sends at a time, in its split; 0: all")
      ->check(whole_number(0, k_most_simulated_ranks))
      ->capture_default_str();
  auto* ranks_per_node =
      command
          .add_option(
              "--ranks-per-node", options.ranks_per_node,
              "Neighbours on a node, for algorithms that go by nodes (default: all); --level says what nodes cost")
          ->check(whole_number(1, k_most_simulated_ranks));
  auto* goal = command.add_option("--goal", options.goal, "Simulate a GOAL program instead");
  auto* file = command.add_option("--file", options.file,
                                  "Simulate the schedules of a file instead, of all ranks, as `lsched show --all` "
                                  "prints them");
  auto* to_goal = command.add_option("--to-goal", options.to_goal,
                                     "Write the round that is simulated, as it went there, as GOAL text");
  auto* policy = command.add_option("--activation", options.activation, "Policy of a partial allreduce")
                     ->check(activation_words())
                     ->capture_default_str();
  auto* initiator = command.add_option("--initiator", options.initiator, "Whose call counts with majority")
                        ->check(whole_number(0, k_most_simulated_ranks))
                        ->capture_default_str();
  add_machine_options(command, options);
  for (CLI::Option* other : {collective, algorithm, ranks, bytes, ranks_per_node, policy})
    goal->excludes(other), file->excludes(other);
  for (CLI::Option* other : {file, initiator, command.get_option("--compute")}) goal->excludes(other);
  add_noise_options(command, options);
  command.add_flag("--critical-path", options.critical_path, "Count L, o, g, G and noise on the longest path");
  auto* trace = command.add_option("--trace", options.trace, "Write what every rank does, for https://ui.perfetto.dev");
  command.add_option("--trace-ranks", options.trace_ranks, "How many ranks, from 0 on, the trace shows")
      ->check(whole_number(1, k_most_simulated_ranks))
      ->capture_default_str()
      ->needs(trace);
  auto* fig9 =
      command.add_flag("--fig9", options.fig9, "Predict Figure 9 of Li et al. 2020, by default at 32 to 10^6 ranks")
          ->excludes(trace)
          ->excludes(file)
          ->excludes(goal)
          ->excludes(to_goal);
  command.add_option("--plot", options.plot, "Draw that figure (gnuplot)")->needs(fig9);
  command
      .add_option(
          "--measured", options.measured,
          "Beside it, in columns of their own, what `lsched bench fig9 --json FILE` measured at this size and skew")
      ->needs(fig9);
  command.add_flag("--calibrate", options.calibrate, "Measure L, o, g and G here, and how far predictions are off")
      ->excludes(fig9)
      ->excludes(trace)
      ->excludes(file)
      ->excludes(goal)
      ->excludes(to_goal);
  command.add_flag("--json", options.as_json, "Print JSON lines; the last is the summary");
}

}  // namespace lsched::cli
