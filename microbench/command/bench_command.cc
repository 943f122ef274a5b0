// The program `lsched-bench`, which `lsched bench` starts: the command line of the benchmarks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/given_file.h"
#include "bindings/cli/common/session.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/program/program.h"
#include "bindings/cli/program/tools.h"
#include "bindings/selection_environment.h"
#include "collectives/baselines/linear_adasum.h"
#include "collectives/baselines/sparse_baselines.h"
#include "microbench/command/bench_options.h"
#include "microbench/harness.h"

namespace lsched::cli {
namespace {

void add_fig9(CLI::App& bench, command_context& context) {
  CLI::App& command =
      *bench.add_subcommand("fig9", "Latency under a linear skew: MPI, solo, majority (the main benchmark)");
  const auto world = add_ranks_option(command, 32);
  const auto options = std::make_shared<bench::fig9_options>();
  command
      .add_option("--iterations", options->iterations,
                  "Iterations of solo and majority, and the maximum for MPI [64, fewer if they take too long]")
      ->check(whole_number(1));
  add_sizes_option(command, options->sizes);
  command.add_option("--only", options->only, "Variant to measure [all three]")
      ->check(one_of({"mpi", "solo", "majority"}));
  add_value(command, "--buckets", options->buckets, "Parts of the vector for solo and majority, all in one round",
            whole_number(1, 4096));
  command.add_option("--plot", options->plot, "Draw the results with gnuplot, into a .png file")->type_name("FILE");
  add_output_options(command, *options);
  command.footer("Example:  mpiexec.mpich -n 32 lsched bench fig9 --plot fig9.png --json fig9.jsonl");
  run_in_world(command, context, world, options, bench::run_fig9);
}

void add_partial(CLI::App& bench, command_context& context) {
  CLI::App& command =
      *bench.add_subcommand("partial", "Partial allreduces with late ranks, by policy: latency against contributors");
  const auto world = add_ranks_option(command, 8);
  const auto options = std::make_shared<bench::partial_options>();
  command
      .add_option("--activation", options->policies,
                  "Policies that start a round, measured in this order [solo to full]")
      ->check(activation_words());
  const auto skews = bench::partial_skews();
  add_value(command, "--skew", options->skew, "Distribution of the delays of ranks",
            one_of(std::vector<std::string>(skews.begin(), skews.end())));
  command
      .add_option_function<double>(
          "--skew-us", [options](double us) { options->skew_ms = us / 1000; }, "Mean delay over ranks and rounds")
      ->check(number(0, 1e8))
      ->default_str("200");
  add_value(command, "--iterations", options->rounds, "Rounds of each policy", whole_number(1, 100'000'000));
  command
      .add_option_function<std::string>(
          "--bytes", [options](const std::string& word) { options->bytes = bench::parse_size(word); },
          "Size of a contribution, in floats [64K]")
      ->check(size_word());
  command.add_flag("!--barrier-free", options->has_barrier,
                   "No barrier between rounds, so that ranks lag and run ahead");
  command.add_flag("--stats", options->shows_arrivals,
                   "Also print when each rank called, which shows the rank that the others wait for");
  add_output_options(command, *options);
  command.parse_complete_callback([world, options] {
    if (find_origin() != origin::alone) return;
    for (const std::string& each : options->policies)
      expect_in_world("partial_allreduce", each, {}, world->ranks == 0 ? world->default_ranks : world->ranks);
  });
  command.footer("Example:  mpiexec.mpich -n 8 lsched bench partial --skew rotating --skew-us 2000");
  run_in_world(command, context, world, options, bench::run_partial);
}

void add_cost(CLI::App& bench, command_context& context) {
  CLI::App& command = *bench.add_subcommand(
      "cost", "Partial rounds compared with synchronous rounds, offers alone, processor time of rounds and of waiting");
  const auto world = add_ranks_option(command, 2);
  const auto options = std::make_shared<bench::cost_options>();
  add_sizes_option(command, options->sizes);
  command
      .add_option("--only", options->only,
                  "Measure one part: rounds in step, offers alone, processor time while computing, or while waiting")
      ->check(one_of({"balanced", "offer", "cpu", "idle"}));
  add_seconds_option(command, "--cell-seconds", options->cell_seconds,
                     "Time for each variant of a round and each size");
  add_seconds_option(
      command, "--seconds", options->seconds,
      "Time for which ranks compute with rounds, and without, for each size; also the delay of the last rank");
  add_output_options(command, *options, true);
  command.footer("Example:  lsched bench cost -n 2 --pin --bytes 8,64K,4M --json cost.jsonl");
  run_in_world(command, context, world, options, bench::run_cost);
}

/// Returns the names of all algorithms of all collectives. The check that a collective has the named algorithm follows
/// later.
std::vector<std::string> algorithm_words() {
  std::vector<std::string> words{"auto", "all"};
  for (const std::string& collective : collective_names())
    for (const std::string& name : algorithm_names(collective))
      if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
  return words;
}

/// An algorithm from a file runs only after it is verified for this world, because a wrong algorithm may deadlock.
int run_coll(lsched_world* world, const bench::coll_options& options) {
  if (options.compared.empty()) return bench::run_coll(world, options);
  const auto why = doubt_about(options.collectives.front(), options.compared, lsched_size(world));
  if (why && lsched_rank(world) == 0) std::fprintf(stderr, "lsched: %s\n", why->text.c_str());
  return why ? 1 : bench::run_coll(world, options);
}

void add_coll(CLI::App& bench, command_context& context) {
  CLI::App& command = *bench.add_subcommand("coll", "Latency of balanced collectives, compared with MPI");
  const auto world = add_ranks_option(command, 2, true);
  const auto options = std::make_shared<bench::coll_options>();
  add_transport_option(command, *world);
  auto* collectives = add_collectives_option(command, options->collectives);
  const auto file = std::make_shared<std::string>();
  auto* given = command.add_option("FILE", *file, "An algorithm file, compared with all algorithms of its collective");
  auto* algorithm =
      add_value(command, "--algorithm", options->algorithm,
                "An algorithm that `lsched list` shows, auto, or all: every algorithm that supports the request",
                one_of(algorithm_words()));
  given->excludes(algorithm)->excludes(collectives);
  add_sizes_option(command, options->sizes);
  add_value(command, "--iterations", options->iterations, "Maximum rounds of each cell", whole_number(1));
  add_seconds_option(command, "--cell-seconds", options->cell_seconds, "Maximum time for each cell");
  add_seconds_option(command, "--seconds", options->seconds, "Time for each collective, shared by its cells");
  add_output_options(command, *options, true);
  command.footer(
      "Example:  mpiexec.mpich -n 2 lsched bench coll --collective all --pin --json coll.jsonl\n"
      "          lsched bench coll docs/examples/my_ring.alg -n 3");
  command.parse_complete_callback([file, given, options, world] {
    if (given->count() == 0) return;
    if (!is_path(*file))
      throw CLI::ValidationError(
          "FILE", "\"" + *file + "\" is not a path (\".\" or \"/\" is missing): give a path, or use --collective");
    options->collectives.assign(1, *file);
    take_algorithm_file(options->collectives.front(), options->algorithm);
    world->default_ranks = usual_ranks(options->collectives.front(), options->algorithm, world->default_ranks);
    options->compared = std::exchange(options->algorithm, "all");
  });
  run_in_world(command, context, world, options, run_coll);
}

void add_adasum(CLI::App& bench, command_context& context) {
  CLI::App& command =
      *bench.add_subcommand("adasum", "Latency of the adaptive sum, compared with the sum and with MPI");
  const auto world = add_ranks_option(command, 2, true);
  const auto options = std::make_shared<bench::adasum_options>();
  add_sizes_option(command, options->sizes);
  add_value(command, "--tensors", options->tensors, "Number of tensors in the vector", whole_number(1, 1 << 20))
      ->delimiter(',');
  add_value(command, "--algorithm", options->algorithms,
            "Algorithm of the adaptive sum; several are measured side by side", one_of(algorithm_names("adasum")))
      ->delimiter(',');
  add_seconds_option(command, "--cell-seconds", options->cell_seconds, "Time for each row");
  add_output_options(command, *options, true);
  command.footer("Example:  mpiexec.mpich -n 2 lsched bench adasum --pin --json adasum.jsonl");
  run_in_world(command, context, world, options, bench::run_adasum);
}

/// Returns the options of the figure: the defaults, or the values from the command line.
bench::balance_options figure_of(const CLI::App& command, const bench::sparse_options& options) {
  bench::balance_options drawn;
  drawn.json = options.json;
  if (command.count("--count") > 0) drawn.n = options.n;
  if (command.count("--generator") > 0) drawn.generator = options.generator;
  if (options.rounds > 0) drawn.iterations = options.rounds;
  return drawn;
}

/// Adds `sparse`. Without a launcher, the command counts words in one process. With a launcher, it also measures time.
void add_sparse(CLI::App& bench, command_context& context) {
  CLI::App& command = *bench.add_subcommand(
      "sparse", "Words and time of sparse allreduces, compared with dense allreduces; without a launcher: only words");
  const auto world = add_ranks_option(command, 8, true);
  const auto options = std::make_shared<bench::sparse_options>();
  const auto figure = std::make_shared<std::string>();
  add_transport_option(command, *world);
  add_value(command, "--count", options->n, "Elements of the vector", whole_number(1, 1ull << 32));
  add_value(command, "--density", options->density, "k/n: share of the elements that is sent", number(0, 1));
  add_value(command, "--generator", options->generator, "Distribution of the gradients",
            one_of(bench::sparse_generators()));
  command.add_option("--algorithm", options->algorithms, "Algorithms to measure [all]")
      ->delimiter(',')
      ->check(one_of(bench::sparse_algorithm_names()));
  add_value(command, "--boundaries", options->policy,
            "Capacity rule of region owners in oktopk; reused: with the thresholds of the paper; all: all three",
            one_of({"strict", "defer", "both", "reused", "all"}));
  add_value(command, "--period", options->period, "Rounds between two adjustments of regions",
            whole_number(1, 1 << 20));
  add_value(command, "--reuse", options->reuse, "Rounds between two new thresholds, for --boundaries reused",
            whole_number(1, 1 << 20));
  add_value(command, "--lists-at-once", options->bucket, "Lists that oktopk sends at a time; 0: all",
            whole_number(0, 1 << 20));
  add_value(command, "--iterations", options->rounds, "Rounds; 0: twice the period", whole_number(0, 1 << 30));
  add_value(command, "--buckets", options->buckets, "Buckets of denseovlp, each with its own schedule",
            whole_number(1, 4096));
  add_value(command, "--compute-us", options->compute_us,
            "Time of computing in every round, while gradients become ready, the last bucket first; needs a launcher",
            number(0, 1e7));
  command.add_option("--figure", *figure, "Count a figure of the Ok-Topk paper instead")->check(one_of({"balance"}));
  add_output_options(command, *options);
  command.footer(
      "Examples:  lsched bench sparse --ranks 64 --generator layered\n"
      "           lsched bench sparse --figure balance\n"
      "           mpiexec.mpich -n 4 lsched bench sparse --density 0.01 --json sparse.jsonl");
  command.callback([&context, &command, world, options, figure] {
    if (find_origin() == origin::alone && options->compute_us > 0)
      throw CLI::ValidationError(
          "--compute-us",
          "only words are counted without a launcher, and no time is measured: start the command with a "
          "launcher");
    context.action = [&context, &command, world, options, figure] {
      if (!figure->empty()) return in_one_process([&] { return bench::run_balance(figure_of(command, *options)); });
      if (find_origin() == origin::alone) {
        options->ranks = world->ranks == 0 ? options->ranks : world->ranks;
        return bench::count_sparse_world(*options);
      }
      return in_world(context, *world, [&](session& here) {
        options->transport = here.transport();
        options->ranks = lsched_size(here.runtime());
        return bench::run_sparse(here.runtime(), *options);
      });
    };
  });
}

void add_tune(CLI::App& bench, command_context& context) {
  CLI::App& command =
      *bench.add_subcommand("tune", "Measure every algorithm here, and write the tuning table that auto uses");
  const auto world = add_ranks_option(command, 2);
  const auto options = std::make_shared<bench::tune_options>();
  add_transport_option(command, *world);
  add_collectives_option(command, options->measured.collectives);
  add_sizes_option(command, options->measured.sizes);
  command.add_option("--tuning", options->table, "File of the table; its rules for other worlds are kept")
      ->type_name("FILE")
      ->capture_default_str();
  add_seconds_option(command, "--cell-seconds", options->measured.cell_seconds,
                     "Maximum time for each algorithm, form and size");
  command.footer(
      "Example:  for n in 2 4 8; do lsched bench tune -n $n --collective all; done\n"
      "          export LSCHED_TUNING=lsched-tuning.txt");
  command.callback([&context, world, options] {
    context.action = [&context, world, options] {
      return in_world(context, *world, [&](session& here) { return bench::run_tune(here.runtime(), *options); });
    };
  });
}

lsched_config config_with(const std::string& progress) {
  lsched_config config;
  lsched_config_init(&config);
  config.progress = progress == "caller" ? LSCHED_PROGRESS_CALLER : LSCHED_PROGRESS_THREAD;
  return config;
}

/// Reopens the world with progress threads on separate cores. The library assumes that application threads have all
/// other cores for themselves. If application threads share cores, waiting threads are configured to sleep.
lsched_world* reopen_apart(session& here, const bench::cores_apart& cores) {
  lsched_config config = config_with("apart");
  config.progress_core = static_cast<std::int32_t>(cores.progress);
  if (here.size() > cores.applications) config.idle = LSCHED_IDLE_PARK;
  return here.reopen(config), here.runtime();
}

/// Measures each kind of progress. If ranks can open their world only once, measures only the first kind.
int overlap_in(session& here, const std::string& progress, bench::overlap_options& options) {
  if (options.transport.empty()) options.transport = here.transport();
  std::vector<bench::overlap_pass> passes;
  for (const std::string each : {"thread", "caller"}) {
    if (!progress.empty() && each != progress) continue;
    if (passes.empty())
      passes.push_back({each, [&here] { return here.runtime(); }});  // the world already has this kind of progress
    else
      passes.push_back({each, [&here, each] { return here.reopen(config_with(each)), here.runtime(); }});
  }
  const auto cores = bench::find_cores_apart(here.rank());
  if (cores && (progress.empty() || progress == "apart"))
    passes.push_back({"apart", [&here, cores] { return reopen_apart(here, *cores); }, cores->application});
  if (passes.size() > 1 && !here.launched_by_mpi()) {
    passes.resize(1);
    options.note =
        "These ranks can open their world only once: use --progress-by caller to measure without a progress thread.";
  }
  if (passes.empty())
    throw command_failure("--progress-by apart needs a second core for the progress threads: choose thread or caller");
  return bench::run_overlap(options, passes);
}

void add_overlap(CLI::App& bench, command_context& context) {
  CLI::App& command = *bench.add_subcommand(
      "overlap", "Share of an allreduce that is hidden behind computing, by the place of computing and of progress");
  const auto world = add_ranks_option(command, 2);
  const auto options = std::make_shared<bench::overlap_options>();
  const auto devices = bench::overlap_devices();
  const auto progress = std::make_shared<std::string>();
  add_sizes_option(command, options->sizes);
  command.add_option("--compute-by", options->devices, "Place of computing; a sleep stands for a device")
      ->delimiter(',')
      ->check(one_of(std::vector<std::string>(devices.begin(), devices.end())))
      ->capture_default_str();
  command.add_option("--compute-us", options->compute_us, "Time of computing [that of the allreduce alone]")
      ->check(number(0.1, 1e9));
  command
      .add_option("--progress-by", *progress,
                  "Kind of progress [all, under an MPI launcher]; apart: progress threads on separate cores")
      ->check(one_of({"thread", "caller", "apart"}));
  add_transport_option(command, *world);
  command.add_option("--label", options->transport, "Name of the transport in the results");
  add_seconds_option(command, "--cell-seconds", options->cell_seconds, "Time for each cell");
  add_output_options(command, *options, true);
  command.footer("Example:  mpiexec.mpich -n 2 lsched bench overlap --bytes 64K,1M --json overlap.jsonl");
  command.callback([&context, world, options, progress] {
    context.action = [&context, world, options, progress] {
      const lsched_config config = config_with(progress->empty() ? "thread" : *progress);
      world->config = &config;
      return in_world(context, *world, [&](session& here) { return overlap_in(here, *progress, *options); });
    };
  });
}

void add_engine(CLI::App& bench, command_context& context) {
  CLI::App& command = *bench.add_subcommand(
      "engine", "Costs within one process: ops, creation of schedules, large reductions; and the limits of memory");
  const auto options = std::make_shared<bench::engine_options>();
  command.add_option("--only", options->only, "Measure one part")->check(one_of(bench::engine_parts()));
  add_output_options(command, *options);
  command.footer("Example:  lsched bench engine --only graphs --json engine.jsonl");
  command.callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_engine(*options); }); };
  });
}

/// Turns `lsched bench FILE` into `lsched bench coll FILE`.
std::vector<std::string> complete(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  if (words.size() > 1 && !words[1].starts_with('-') && is_path(words[1])) words.insert(words.begin() + 1, "coll");
  return words;
}

void add_commands(CLI::App& app, command_context& context) {
  add_sparse_baselines();
  add_linear_adasum();
  context.flaws_of_files = load_algorithm_files();  // before commands list the names of algorithms
  for (auto* add : {add_fig9, add_partial, add_cost, add_coll, add_adasum, add_sparse, add_tune, add_compare,
                    add_overlap, add_engine, add_cuda})
    add(app, context);
}

}  // namespace
}  // namespace lsched::cli

int main(int argc, char** argv) {
  using namespace lsched::cli;
  return run_program(
      {.name = "lsched bench",
       .summary = k_bench.summary,
       .footer = "`lsched bench FILE` is `lsched bench coll FILE`: it compares the file with other algorithms.\n"
                 "FILE comes before the options.\n"
                 "Example:  lsched bench docs/examples/my_ring.alg -n 3\n"
                 "          lsched bench coll --collective all --json coll.jsonl",
       .add_commands = add_commands},
      complete(argc, argv));
}
