#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/given_file.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/sizes.h"
#include "bindings/cli/goal/goal.h"
#include "bindings/cli/simulate/simulate.h"
#include "collectives/registry.h"

namespace lsched::cli {
namespace {

constexpr std::uint64_t k_most_simulated_ranks = 1 << 24;
constexpr double k_longest = 1e12;                  ///< maximum value of a time option, in the option's unit
constexpr femtoseconds k_goal_compute = 1'000'000;  ///< time per byte of a copy: 1 ns, which schedules_of() assumes

constexpr std::array k_skews{skew_kind::none, skew_kind::linear, skew_kind::rotating, skew_kind::lognormal,
                             skew_kind::straggler};

// --- adding options ----------------------------------------------------------------------------------------

/// Adds an option for a time of the model. The user gives the time in units of `unit`.
void add_time(const option_group& group, const char* option, std::int64_t& value, double unit, const char* text) {
  std::ostringstream by_default;
  by_default << static_cast<double>(value) / unit;
  const auto set = [&value, unit](double time) { value = rounded(time * unit); };
  group.grouped(group.command.add_option_function<double>(option, set, text))
      ->check(number(0, k_longest))
      ->default_str(by_default.str());
}

/// Parses RANKS:L:o:g:G[:nic]. Throws the parser's error.
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
          .cost = {.L = rounded(values[1] * k_ps_per_ns),
                   .o = rounded(values[2] * k_ps_per_ns),
                   .g = rounded(values[3] * k_ps_per_ns),
                   .G = rounded(values[4] * k_fs_per_ns)},
          .shares_nic = shares_nic};
}

void add_machine_options(CLI::App& command, simulate_options& options) {
  const option_group group{command, "Machine"};
  machine& where = options.model.where;
  loggops& cost = where.levels.front().cost;
  add_time(group, "--L", cost.L, k_ps_per_ns, "Latency of the wire, ns");
  add_time(group, "--o", cost.o, k_ps_per_ns, "CPU time of a message at either end, ns");
  add_time(group, "--g", cost.g, k_ps_per_ns, "Gap between messages at a NIC, ns");
  add_time(group, "--G", cost.G, k_fs_per_ns, "Gap per byte, ns (0.04 is 25 GB/s)");
  add_time(group, "--O", cost.O, k_fs_per_ns, "CPU time per byte, ns");
  add_time(group, "--compute", where.compute, k_fs_per_ns, "Time of a reduction or copy, ns per byte");
  add_size(group, "--S", where.S, "Largest eager message: longer messages use rendezvous", size_in_bytes(0));
  const auto set_levels = [&options](const std::vector<std::string>& words) {
    std::ranges::transform(words, std::back_inserter(options.levels), level_from);
  };
  group.grouped(command.add_option_function<std::vector<std::string>>(
      "--level", set_levels,
      "Costs in groups of RANKS neighbours, as RANKS:L:o:g:G[:nic], innermost first; repeatable. With \"nic\", a group "
      "shares one NIC to ranks outside"));
}

void add_noise_options(CLI::App& command, simulate_options& options) {
  const option_group group{command, "Skew and noise"};
  start_skew& skew = options.model.skew;
  group.add_choice_with_default("--skew", k_skews, skew.kind, "Distribution of the delays with which ranks start");
  add_time(group, "--skew-us", skew.scale, k_ps_per_us,
           "Delay per rank (linear, rotating), median (lognormal), delay (straggler)");
  add_time(group, "--noise-us", options.model.noise.mean, k_ps_per_us,
           "Mean of the exponential draw that is added to each use of a CPU");
  group.add("--round", options.model.instance,
            "Number of the round: selects the random draws, and the delays of rotating skew", whole_number(1));
  group.add("--seed", options.seeds, "Seeds of all random draws", whole_number(0));
}

// --- options that go together ------------------------------------------------------------------------------

/// Throws the parser's error if an option is given without the option or collective that it needs.
void check_heeded(const CLI::App& command, const simulate_options& options) {
  const collective* const known = find_collective(options.collective);
  const bool is_partial = known != nullptr && known->activates;
  const bool is_sparse = options.collective == k_sparse_allreduce;
  const struct {
    const char* option;
    bool is_heeded;
    const char* needed;
  } rules[] = {{"--skew-us", options.fig9 || options.model.skew.kind != skew_kind::none, "--skew"},
               {"--activation", is_partial, "a partial collective"},
               // If the schedules are from a file, runs_of() checks that their policy is majority.
               {"--initiator", !options.file.empty() || (is_partial && options.activation.starts_with("majority")),
                "--activation majority"},
               {"--count", is_sparse, "sparse_allreduce"},
               {"--k", is_sparse, "sparse_allreduce"}};
  for (const auto& [option, is_heeded, needed] : rules)
    if (is_given(command, option) && !is_heeded)
      throw CLI::ValidationError(option, std::string("has no effect without ") + needed);
}

void expect_one_cpu(const goal& program, const std::string& path) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (const goal_op& op : program.ranks[r].ops)
      if (op.cpu != 0 || op.nic != 0)
        throw command_failure(
            LSCHED_ERR_UNSUPPORTED,
            path + ": rank " + std::to_string(r) + " uses a second cpu or nic, which the simulation does not support");
}

/// Reads the file if the user gave one in place of a collective: an algorithm, schedules or a GOAL program.
void take_file(const CLI::App& command, simulate_options& options) {
  if (!is_path(options.collective)) return;
  given_file given = read_given(options.collective);
  const std::string path = std::exchange(options.collective, given.collective);
  if (given.is_algorithm()) {
    refuse_given(command, {"--algorithm"}, k_own_of_algorithm);
    options.algorithm = given.algorithm;
    options.rounds_bytes = !is_given(command, "--bytes");
    if (!is_given(command, "--ranks"))
      options.ranks = {usual_ranks(options.collective, options.algorithm, options.ranks.front())};
    return;
  }
  refuse_given(command, {"--fig9", "--calibrate"}, "cannot be used with a file: leave out the option, or the file");
  refuse_given(command, {"--algorithm", "--ranks", "--bytes", "--ranks-per-node", "--activation"}, k_own_of_schedules);
  if (given.program) {
    refuse_given(command, {"--initiator", "--compute"}, "has no effect on a GOAL program: leave the option out");
    expect_one_cpu(*given.program, path);
    options.model.where.compute = k_goal_compute;
  }
  options.file = path;
  options.given = schedules_of(std::move(given), path);
}

}  // namespace

void check_simulate_options(const CLI::App& command, simulate_options& options) {
  take_file(command, options);
  if (options.calibrate) return expect_only(command, "--calibrate", {"--json"});
  if (options.fig9) {
    expect_only(command, "--fig9",
                {"--ranks", "--bytes", "--skew-us", "--L", "--o", "--g", "--G", "--O", "--S", "--compute", "--level",
                 "--json"});
    if (options.bytes.size() != 1) throw CLI::ValidationError("--bytes", "--fig9 takes a single size");
  }
  if (options.file.empty())
    expect_listed(options.collective, is_given(command, "--algorithm") ? options.algorithm : "auto");
  if (options.collective == k_partial_sparse_allreduce)
    throw CLI::ValidationError("COLLECTIVE", options.collective + " cannot be simulated: simulate " +
                                                 std::string(k_sparse_allreduce) + " instead");
  check_heeded(command, options);
  for (const rank ranks : is_given(command, "--activation") ? options.ranks : std::vector<rank>{})
    expect_in_world(options.collective, options.activation, {}, ranks);
  if (options.collective == "barrier") {  // messages of a barrier are signals
    if (is_given(command, "--bytes"))
      throw CLI::ValidationError(
          "--bytes", "has no effect, because the signals of a barrier always have 8 bytes: leave the option out");
    options.bytes = {k_signal_bytes};
  }
  if (options.collective == k_sparse_allreduce) {
    if (is_given(command, "--bytes"))
      throw CLI::ValidationError("--bytes",
                                 "does not apply to sparse_allreduce: give --count, the number of f32 elements");
    if (!is_given(command, "--algorithm") || options.algorithm == "auto") options.algorithm = "oktopk";
    options.bytes = {options.count * size_of(dtype::f32)};
  } else if (!is_given(command, "--algorithm") && find(options.collective, options.algorithm) == nullptr) {
    options.algorithm = "auto";
  }
  std::vector<machine_level>& levels = options.model.where.levels;
  levels.insert(levels.begin(), options.levels.begin(), options.levels.end());
}

void add_simulate_options(CLI::App& command, simulate_options& options) {
  const option_group group{command};
  const CLI::Validator ranks_up_to_most = whole_number(1, k_most_simulated_ranks);
  const CLI::Validator any_rank = whole_number(0, k_most_simulated_ranks);
  group.add("COLLECTIVE|FILE", options.collective, k_collective_or_file)->check(any_word())->capture_default_str();
  group
      .add("--algorithm", options.algorithm,
           "Algorithm from `lsched list` (default for sparse_allreduce: oktopk; for collectives without "
           "recursive_doubling: auto)")
      ->capture_default_str();
  group.add("-n,--ranks", options.ranks, "Numbers of ranks in the world", ranks_up_to_most);
  add_size(group, "--bytes", options.bytes, "Bytes that a rank contributes", size_in_bytes(0, k_max_count));
  group.add("--count", options.count, "Elements of a sparse allreduce, f32", whole_number(0, std::uint64_t{1} << 32));
  add_items_option(command, options.k);
  group
      .add("--ranks-per-node", options.ranks_per_node,
           "Neighbouring ranks per node, for algorithms that use nodes (default: all). --level sets the costs of nodes")
      ->check(ranks_up_to_most);
  auto* to_goal = group.add_file("--goal", options.to_goal, "Write the simulated round as GOAL text");
  group.add("--activation", options.activation, "Policy of a partial allreduce", activation_words());
  group.add("--initiator", options.model.initiator, "Rank whose call starts the round, for --activation majority",
            any_rank);
  add_machine_options(command, options);
  add_noise_options(command, options);
  group.add_flag("--critical-path", options.critical_path, "Count L, o, g, G and noise on the longest path");
  auto* trace =
      group.add_file("--trace", options.trace, "Write the events of all ranks as a trace, for https://ui.perfetto.dev");
  auto* svg = group.add_file("--svg", options.svg, "Draw the events of all ranks and the critical path as SVG");
  auto* fig9 =
      group.add_flag("--fig9", options.fig9, "Predict Figure 9 of Li et al. 2020, by default at 32 to 10^6 ranks");
  auto* calibrate = group.add_flag("--calibrate", options.calibrate,
                                   "Measure L, o, g and G on this machine, and the errors of predictions");
  for (CLI::Option* other : {trace, svg, to_goal}) fig9->excludes(other), calibrate->excludes(other);
  fig9->excludes(calibrate);
  group.add_json(options.json, "lines, the last of which is the summary");
}

}  // namespace lsched::cli
