// `lsched bench`: the benchmarks of microbench/, from the command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "bindings/cli/bench/bench_compare.h"
#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/session.h"
#include "bindings/cli/common/words.h"
#include "microbench/benchmarks.h"
#include "microbench/engine/lane.h"
#include "microbench/exercise.h"
#include "microbench/harness.h"

namespace lsched::cli {
namespace {

/// What a benchmark that runs in a world asks of it.
struct world_words {
  std::int32_t ranks = 0;
  std::string transport = "auto";
  std::string mpi_threads = "multiple";
};

std::shared_ptr<world_words> add_world_options(CLI::App& command, std::int32_t default_ranks) {
  const auto words = std::make_shared<world_words>();
  command
      .add_option("-n,--ranks", words->ranks,
                  "Number of ranks; started by hand, the command starts them itself (then " +
                      std::to_string(default_ranks) + " by default)")
      ->check(whole_number(1, k_most_ranks));
  command.add_option("--transport", words->transport, "What the ranks talk through; mpi: everything through MPI")
      ->check(CLI::IsMember({"auto", "shm", "mpi"}))
      ->capture_default_str();
  return words;
}

void add_pin_option(CLI::App& command, bool& pin) {
  command.add_flag("--pin", pin, "Bind the application thread of rank r to the r-th core, round robin");
}

/// MPI is faster with fewer promises, so a rival gets the cheapest that allows a progress thread, which calls MPI only
/// where ranks do not share memory.
void add_mpi_threads_option(CLI::App& command, std::string& level) {
  level = "funneled";
  command.add_option("--mpi-threads", level, "Thread level that MPI is initialised with")
      ->check(CLI::IsMember(mpi_thread_levels()))
      ->capture_default_str();
}

/// `--json` alone, or with "-": standard output.
void add_json_option(CLI::App& command, std::string& json) {
  command
      .add_option_function<std::vector<std::string>>(
          "--json",
          [&json](const std::vector<std::string>& words) { json = words.empty() || words[0].empty() ? "-" : words[0]; },
          "Write one JSON line per result to FILE; without FILE to standard output, and the tables to "
          "standard error")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

/// "64", "4K", "1M"
CLI::Validator size_word() {
  const auto check = [](const std::string& word) {
    try {
      const std::uint64_t bytes = bench::parse_size(word);
      return bytes > 0 && bytes % sizeof(float) == 0
                 ? std::string()
                 : "size " + word + " is not a positive multiple of 4 bytes (floats)";
    } catch (const bench::failed& why) {
      return std::string(why.what());
    }
  };
  return {[check](std::string& word) { return check(word); }, "BYTES", ""};
}

/// `--sizes 64,4K,1M`
void add_sizes_option(CLI::App& command, std::vector<std::uint64_t>& sizes) {
  std::string defaults;
  for (const std::uint64_t bytes : sizes) defaults += (defaults.empty() ? "" : ",") + bench::size_text(bytes);
  command
      .add_option_function<std::vector<std::string>>(
          "--sizes",
          [&sizes](const std::vector<std::string>& words) {
            sizes.clear();
            for (const std::string& word : words) sizes.push_back(bench::parse_size(word));
          },
          "Message sizes in bytes, with K, M or G for binary multiples [" + defaults + "]")
      ->delimiter(',')
      ->check(size_word());
}

/// Joins the world, or becomes its launcher, and runs the benchmark on every rank.
int in_world(const command_context& context, const world_words& words, std::int32_t default_ranks,
             const std::function<int(session&)>& benchmark, const lsched_config* config = nullptr) {
  const session_options options{.ranks = words.ranks,
                                .default_ranks = default_ranks,
                                .transport = words.transport,
                                .mpi_threads = words.mpi_threads,
                                .config = config};
  if (const auto status = session::relaunch(context, options)) return *status;
  session here = session::open(options);
  int status = 1;
  try {
    status = benchmark(here);
  } catch (const bench::agreed& why) {
    if (here.rank() == 0)
      std::fprintf(stderr, "lsched: %s\n", why.what());
    else
      status = 0;  // one rank's word, and status, is enough
  }
  here.close();
  return status;
}

/// For a benchmark that makes its own world in one process: under a launcher rank 0 runs it, and the others
/// wait.
int in_one_process(const std::function<int()>& benchmark) {
  if (find_origin() == origin::alone) return benchmark();
  session here = session::open({});
  int status = 0;
  {
    bench::team ranks(here.runtime());
    try {
      bench::on_root(ranks, [&] { status = benchmark(); });
    } catch (const bench::agreed& why) {
      if (ranks.is_root()) std::fprintf(stderr, "lsched: %s\n", why.what());
      status = 1;
    }
  }
  here.close();
  return status;
}

void add_fig9(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("fig9", "Latency under a linear skew: MPI, solo, majority (the main benchmark)");
  constexpr std::int32_t k_ranks = 32;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::fig9_options>();
  command
      ->add_option("--iters", options->iterations,
                   "Iterations of solo and majority, exactly, and at most of MPI "
                   "[64, fewer where they take too long]")
      ->check(whole_number(1));
  command->add_option("--seed", options->seed, "Seed of majority's draws")
      ->check(whole_number(0))
      ->capture_default_str();
  add_sizes_option(*command, options->sizes);
  command->add_option("--only", options->only, "Measure one of the three")
      ->check(CLI::IsMember({"mpi", "solo", "majority"}));
  command->add_option("--algorithm", options->algorithm, "Of solo and majority")
      ->check(CLI::IsMember(algorithm_names("partial_allreduce")))
      ->capture_default_str();
  command->add_option("--buckets", options->buckets, "Of solo and majority: parts of the vector, all in one round")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--skew-ms", options->skew_ms, "Rank r calls this many ms x r later than rank 0")
      ->check(number(0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--mpi-seconds", options->mpi_seconds, "Time for all MPI rows together (but >= 5 iterations a size)")
      ->check(number(0, 1e6))
      ->capture_default_str();
  command->add_option("--plot", options->plot, "Draw the figure with gnuplot")->type_name("FILE.png");
  add_json_option(*command, options->json);
  command->footer("Example:  mpiexec.mpich -n 32 lsched bench fig9 --plot fig9.png --json fig9.jsonl");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks, [&](session& here) {
        options->transport = here.transport();
        return bench::run_fig9(here.runtime(), *options);
      });
    };
  });
}

void add_partial(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("partial", "Partial allreduces under late ranks, by policy: latency against contributors");
  constexpr std::int32_t k_ranks = 8;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::partial_options>();
  command->add_option("--policy", options->policies, "What starts a round; several one after the other [solo … full]")
      ->check(activation_words());
  const auto skews = bench::partial_skews();
  command->add_option("--skew", options->skew, "How late ranks are")
      ->check(CLI::IsMember(std::vector<std::string>(skews.begin(), skews.end())))
      ->capture_default_str();
  command->add_option("--skew-ms", options->skew_ms, "Their mean delay, over ranks and rounds")
      ->check(number(0, 1e5))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Rounds of each policy")
      ->check(whole_number(1, 100'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of draws and delays")->check(whole_number(0))->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--bytes", [options](const std::string& word) { options->bytes = bench::parse_size(word); },
          "Size of a contribution, in floats [64K]")
      ->check(size_word());
  command->add_option("--algorithm", options->algorithm, "Behind the policies")
      ->check(CLI::IsMember(algorithm_names("partial_allreduce")))
      ->capture_default_str();
  command->add_option("--buckets", options->buckets, "Parts of the vector, all in one round")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_flag("!--barrier-free", options->has_barrier, "Ranks really lag and run ahead");
  command->add_flag("--stats", options->shows_arrivals, "Also when each rank called: who everybody is waiting for");
  command->add_option("--plot", options->plot, "Draw latency against contributors with gnuplot")->type_name("FILE.png");
  add_json_option(*command, options->json);
  command->footer("Example:  mpiexec.mpich -n 8 lsched bench partial --skew rotating --skew-ms 2 --plot partial.png");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks, [&](session& here) {
        options->transport = here.transport();
        return bench::run_partial(here.runtime(), *options);
      });
    };
  });
}

void add_cost(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand(
      "cost", "Partial rounds where nobody is late: beside synchronous ones, offers alone, processor time");
  constexpr std::int32_t k_ranks = 2;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::cost_options>();
  add_sizes_option(*command, options->sizes);
  command->add_option("--algorithm", options->algorithm, "Behind the policies, and of the synchronous allreduce")
      ->check(CLI::IsMember(algorithm_names("partial_allreduce")))
      ->capture_default_str();
  command->add_option("--only", options->only, "One part: rounds in step, offers alone, or processor time")
      ->check(CLI::IsMember({"balanced", "offer", "cpu"}));
  command->add_option("--cell-seconds", options->cell_seconds, "Time for each way to spend a round, of each size")
      ->check(number(0.001, 3600))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long ranks compute with rounds, and without, for each size")
      ->check(number(0.01, 3600))
      ->capture_default_str();
  add_pin_option(*command, options->pin);
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench cost -n 2 --pin --sizes 8,64K,4M --json cost.jsonl");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks, [&](session& here) {
        options->transport = here.transport();
        return bench::run_cost(here.runtime(), *options);
      });
    };
  });
}

void add_idle(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand("idle", "Processor time of ranks that wait for a late one");
  constexpr std::int32_t k_ranks = 8;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::idle_options>();
  command->add_option("--seconds", options->seconds, "How late the last rank is")
      ->check(number(0.01, 3600))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench idle --ranks 8 --seconds 10");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks,
                      [&](session& here) { return bench::run_idle(here.runtime(), *options); });
    };
  });
}

void add_engine(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand("engine", "Time per op without communication, beside oneTBB's flow graph");
  const auto options = std::make_shared<bench::engine_options>();
  command->add_option("--rounds", options->rounds, "Rounds of each side and graph")
      ->check(whole_number(1))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench engine --json engine.jsonl");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_engine(*options); }); };
  });
}

void add_commit(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("commit", "Time to write and compile schedules, and to bind them to other buffers");
  const auto options = std::make_shared<bench::commit_options>();
  command->add_option("-n,--ranks", options->ranks, "Size of the world whose schedules are made")
      ->check(whole_number(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--count", options->count, "Floats of the vector")
      ->check(whole_number(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Times that each is made")
      ->check(whole_number(1))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench commit --ranks 64");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_commit(*options); }); };
  });
}

void add_limits(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("limits", "What two cores can do with memory between them: floors to measure against");
  const auto options = std::make_shared<bench::limits_options>();
  add_sizes_option(*command, options->sizes);
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench limits --sizes 64K,1M");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_limits(*options); }); };
  });
}

void add_kernels(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand(
      "kernels", "Kernels that pass over vectors, from each level of memory, beside what the machine allows");
  const auto options = std::make_shared<bench::kernels_options>();
  command->add_option("--cell-seconds", options->cell_seconds, "Time for each kernel, type and level")
      ->check(number(0.001, 3600))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench kernels --json kernels.jsonl");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_kernels(*options); }); };
  });
}

#if LSCHED_HAVE_TBB
void add_lane(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand("lane", "One large reduction, inline and on oneTBB workers");
  const auto options = std::make_shared<bench::lane_options>();
  add_sizes_option(*command, options->sizes);
  command->add_option("--workers", options->workers, "Numbers of workers")
      ->delimiter(',')
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench lane --sizes 1M,16M --workers 1,2");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_lane(*options); }); };
  });
}
#endif

/// `--coll bcast,allgather`, or all.
void add_collectives_option(CLI::App& command, std::vector<std::string>& collectives) {
  std::vector<std::string> names{"all"};
  for (const bench::exercise_kind& kind : bench::exercises()) names.emplace_back(kind.name);
  command
      .add_option_function<std::vector<std::string>>(
          "--coll",
          [&collectives](const std::vector<std::string>& words) {
            collectives.clear();
            for (const bench::exercise_kind& kind : bench::exercises())
              if (std::find(words.begin(), words.end(), "all") != words.end() ||
                  std::find(words.begin(), words.end(), kind.name) != words.end())
                collectives.emplace_back(kind.name);
          },
          "Collectives, or all [allreduce]")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
}

/// `--algorithm` is judged by each collective: a name that one of them has.
std::vector<std::string> algorithm_words() {
  std::vector<std::string> words{"auto", "all"};
  for (const std::string& collective : collective_names())
    for (const std::string& name : algorithm_names(collective))
      if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
  return words;
}

void add_coll(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand("coll", "Latency of balanced collectives, beside MPI's forms");
  constexpr std::int32_t k_ranks = 2;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::coll_options>();
  add_collectives_option(*command, options->collectives);
  command->add_option("--algorithm", options->algorithm, "A name `lsched list` shows, auto, or all: each that can")
      ->check(CLI::IsMember(algorithm_words()))
      ->capture_default_str();
  add_sizes_option(*command, options->sizes);
  command->add_option("--in-place", options->in_place, "Input and output in one buffer, on both sides")
      ->check(CLI::IsMember({"both", "no", "only"}))
      ->capture_default_str();
  command->add_option("--only", options->only, "Measure one of the two")->check(CLI::IsMember({"libsched", "mpi"}));
  command->add_option("--iters", options->iterations, "Rounds of each cell, at most")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--cell-seconds", options->cell_seconds, "Time for each cell, at most")
      ->check(number(0.001, 3600))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Time for each collective, shared by its cells")
      ->check(number(0.1, 36000))
      ->capture_default_str();
  add_pin_option(*command, options->pin);
  add_mpi_threads_option(*command, words->mpi_threads);
  command->add_option("--plot", options->plot, "Draw the results with gnuplot")->type_name("FILE.png");
  add_json_option(*command, options->json);
  command->footer("Example:  mpiexec.mpich -n 2 lsched bench coll --coll all --pin --json coll.jsonl --plot coll.png");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks, [&](session& here) {
        options->transport = here.transport();
        return bench::run_coll(here.runtime(), *options);
      });
    };
  });
}

void add_adasum(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand("adasum", "Latency of the adaptive sum, beside the sum and MPI's");
  constexpr std::int32_t k_ranks = 2;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::adasum_options>();
  add_sizes_option(*command, options->sizes);
  command->add_option("--tensors", options->tensors, "Into how many tensors the vector is cut")
      ->delimiter(',')
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithms, "Of the adaptive sum; several are measured side by side")
      ->delimiter(',')
      ->check(CLI::IsMember(algorithm_names("adasum")))
      ->capture_default_str();
  command->add_option("--in-place", options->in_place, "Input and output in one buffer, on all sides")
      ->check(CLI::IsMember({"both", "no", "only"}))
      ->capture_default_str();
  command->add_option("--cell-seconds", options->cell_seconds, "Time for each row")
      ->check(number(0.001, 3600))
      ->capture_default_str();
  add_pin_option(*command, options->pin);
  add_mpi_threads_option(*command, words->mpi_threads);
  command->add_option("--plot", options->plot, "Draw the results with gnuplot")->type_name("FILE.png");
  add_json_option(*command, options->json);
  command->footer("Example:  mpiexec.mpich -n 2 lsched bench adasum --pin --json adasum.jsonl --plot adasum.png");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks, [&](session& here) {
        options->transport = here.transport();
        return bench::run_adasum(here.runtime(), *options);
      });
    };
  });
}

/// Started by hand it counts, and talks to nobody; ranks are for launchers.
void add_sparse(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("sparse", "Words and time of sparse allreduces, beside dense ones; started by hand: words");
  const auto words = add_world_options(*command, 8);
  const auto options = std::make_shared<bench::sparse_options>();
  command->add_option("--n", options->n, "Elements of the vector")
      ->check(whole_number(1, 1ull << 32))
      ->capture_default_str();
  command->add_option("--density", options->density, "k of n: which part of the elements is sent")
      ->check(number(0, 1))
      ->capture_default_str();
  command->add_option("--generator", options->generator, "How gradients are drawn")
      ->check(CLI::IsMember(bench::sparse_generators()))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithms, "Several are measured after each other [all]")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::sparse_algorithm_names()));
  command
      ->add_option(
          "--policy", options->policy,
          "What owners of regions have room for, of oktopk; reused: with the paper's thresholds; all: all three")
      ->check(CLI::IsMember({"strict", "defer", "both", "reused", "all"}))
      ->capture_default_str();
  command->add_option("--boundaries", options->boundaries, "How regions are found, of oktopk")
      ->check(CLI::IsMember({"pooled", "averaged"}))
      ->capture_default_str();
  command->add_option("--balance", options->balance, "When results are shared out equally, of oktopk")
      ->check(CLI::IsMember({"cost", "published", "always", "never"}))
      ->capture_default_str();
  command->add_option("--period", options->period, "Rounds between two looks at regions")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--reuse", options->reuse, "Rounds between two looks for thresholds, of --policy reused")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--bucket", options->bucket, "Lists that oktopk sends at a time; 0: all")
      ->check(whole_number(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--iterations", options->rounds, "Rounds; 0: twice the period")
      ->check(whole_number(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--buckets", options->buckets, "Of denseovlp, each with a schedule of its own")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--compute-us", options->compute_us,
                   "Computing in every round, by which gradients become ready, the last bucket first; not if counted")
      ->check(number(0, 1e7))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the gradients")->check(whole_number(0))->capture_default_str();
  add_pin_option(*command, options->pin);
  add_mpi_threads_option(*command, words->mpi_threads);
  command->add_option("--plot", options->plot, "Draw the results with gnuplot")->type_name("FILE.png");
  add_json_option(*command, options->json);
  command->footer(
      "Examples:  lsched bench sparse --ranks 64 --generator layered\n"
      "           mpiexec.mpich -n 4 lsched bench sparse --density 0.01 --json sparse.jsonl --plot sparse.png");
  command->callback([&context, words, options] {
    if (find_origin() == origin::alone && options->compute_us > 0)
      throw CLI::ValidationError("--compute-us", "what is counted takes no time: start it by a launcher");
    context.action = [&context, words, options] {
      if (find_origin() == origin::alone) {
        options->ranks = words->ranks == 0 ? options->ranks : words->ranks;
        return bench::count_sparse_world(*options);
      }
      return in_world(context, *words, 1, [&](session& here) {
        options->transport = here.transport();
        options->ranks = lsched_size(here.runtime());
        return bench::run_sparse(here.runtime(), *options);
      });
    };
  });
}

void add_sparse_figures(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand(
      "sparse-figures", "Figures of the paper on Ok-Topk that are counts: fill-in, balance, threshold");
  const auto options = std::make_shared<bench::sparse_figures_options>();
  command->add_option("--figure", options->figure, "Which one")
      ->required()
      ->check(CLI::IsMember(bench::sparse_figure_names()));
  command->add_option("--ranks", options->ranks, "Sizes of worlds [as the figure has it; likewise what follows]")
      ->delimiter(',')
      ->check(whole_number(1, 4096));
  command->add_option("--n", options->n, "Elements of the vector")->check(whole_number(1, 1ull << 32));
  command->add_option("--density", options->densities, "k of n: which part of the elements is sent")
      ->delimiter(',')
      ->check(number(0, 1));
  command->add_option("--generator", options->generators, "How gradients are drawn; training: of a model, by threshold")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::sparse_figure_generators()));
  command->add_option("--iterations", options->iterations, "Rounds")->check(whole_number(1, 1 << 30));
  command->add_option("--seed", options->seed, "Of the gradients")->check(whole_number(0))->capture_default_str();
  command->add_option("--plot", options->plot, "Draw the figure with gnuplot")->type_name("FILE.png");
  add_json_option(*command, options->json);
  command->footer(
      "Examples:  lsched bench sparse-figures --figure fill-in --density 0.01,0.02 --plot fill_in.png\n"
      "           lsched bench sparse-figures --figure balance --ranks 4,16,64 --json balance.jsonl\n"
      "           lsched bench sparse-figures --figure threshold --n 9610 --iterations 800 --plot threshold.png");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_sparse_figures(*options); }); };
  });
}

void add_tune(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("tune", "Measure every algorithm here, and write the tuning table that auto goes by");
  constexpr std::int32_t k_ranks = 2;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::tune_options>();
  add_collectives_option(*command, options->measured.collectives);
  add_sizes_option(*command, options->measured.sizes);
  command->add_option("--table", options->table, "The table; rules that it holds for other worlds stay")
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("--cell-seconds", options->measured.cell_seconds, "Time for each algorithm, form and size, at most")
      ->check(number(0.001, 3600))
      ->capture_default_str();
  command->add_option("--seconds", options->measured.seconds, "Time for each collective")
      ->check(number(0.1, 36000))
      ->capture_default_str();
  add_pin_option(*command, options->measured.pin);
  add_json_option(*command, options->json);
  command->footer(
      "Example:  for n in 2 4 8; do lsched bench tune -n $n --coll all; done; export LSCHED_TUNING=lsched-tuning.txt");
  command->callback([&context, words, options] {
    context.action = [&context, words, options] {
      return in_world(context, *words, k_ranks, [&](session& here) {
        options->measured.transport = here.transport();
        options->is_near = here.description().find("MPI with") == std::string::npos;
        return bench::run_tune(here.runtime(), *options);
      });
    };
  });
}

lsched_config config_with(const std::string& progress) {
  lsched_config config;
  lsched_config_init(&config);
  config.progress = progress == "thread" ? LSCHED_PROGRESS_THREAD : LSCHED_PROGRESS_CALLER;
  return config;
}

/// Both ways to progress one after the other where the world can be joined twice.
int overlap_in(session& here, const std::string& progress, bench::overlap_options& options) {
  options.transport = here.transport();
  std::vector<bench::overlap_pass> passes;
  for (const std::string each : {"thread", "caller"}) {
    if (!progress.empty() && each != progress) continue;
    if (passes.empty())
      passes.push_back({each, [&here] { return here.runtime(); }});  // opened so
    else
      passes.push_back({each, [&here, each] { return here.reopen(config_with(each)), here.runtime(); }});
  }
  if (passes.size() > 1 && !here.launched_by_mpi()) {
    passes.pop_back();
    options.remark = "These ranks join their world once; the other way to progress: --progress caller.";
  }
  return bench::run_overlap(options, passes);
}

void add_overlap(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand(
      "overlap", "Computing while a collective is under way, with and without a progress thread, beside MPI's");
  constexpr std::int32_t k_ranks = 2;
  const auto words = add_world_options(*command, k_ranks);
  const auto options = std::make_shared<bench::overlap_options>();
  const auto progress = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const bench::exercise_kind& kind : bench::exercises()) names.emplace_back(kind.name);
  command->add_option("--coll", options->collective, "The collective")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithm, "A name `lsched list` shows, or auto")
      ->check(CLI::IsMember(algorithm_words()))
      ->capture_default_str();
  add_sizes_option(*command, options->sizes);
  command->add_option("--compute-us", options->compute_us, "How long to compute [as long as the collective takes]")
      ->check(number(0.1, 1e8));
  command->add_option("--progress", *progress, "One of the two ways [both, under an MPI launcher]")
      ->check(CLI::IsMember({"thread", "caller"}));
  command->add_option("--cell-seconds", options->cell_seconds, "Time for each cell")
      ->check(number(0.001, 3600))
      ->capture_default_str();
  add_pin_option(*command, options->pin);
  add_json_option(*command, options->json);
  command->footer("Example:  mpiexec.mpich -n 2 lsched bench overlap --pin --sizes 64K,1M --json overlap.jsonl");
  command->callback([&context, words, options, progress] {
    context.action = [&context, words, options, progress] {
      const lsched_config config = config_with(progress->empty() ? "thread" : *progress);
      return in_world(
          context, *words, k_ranks, [&](session& here) { return overlap_in(here, *progress, *options); }, &config);
    };
  });
}

void add_async(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("async", "Solo rounds while the other rank computes, with and without progress threads");
  const auto options = std::make_shared<bench::async_options>();
  command->add_option("--seconds", options->seconds, "How long rank 1 computes")
      ->check(number(0.01, 60))
      ->capture_default_str();
  command->add_option("--count", options->count, "Floats in a contribution")
      ->check(whole_number(1, 1 << 28))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->footer("Example:  lsched bench async --seconds 2");
  command->callback([&context, options] {
    context.action = [options] { return in_one_process([&] { return bench::run_async(*options); }); };
  });
}

}  // namespace

void add_bench_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand(
      "bench",
      "Measure: fig9, partial, coll, adasum, sparse, sparse-figures, tune, compare, overlap, cost, idle, "
      "engine, commit, limits, kernels, lane, "
      "async");
  command->require_subcommand(1);
  add_fig9(*command, context);
  add_partial(*command, context);
  add_coll(*command, context);
  add_adasum(*command, context);
  add_sparse(*command, context);
  add_sparse_figures(*command, context);
  add_tune(*command, context);
  add_compare(*command, context);
  add_overlap(*command, context);
  add_cost(*command, context);
  add_idle(*command, context);
  add_commit(*command, context);
  add_limits(*command, context);
  add_kernels(*command, context);
  add_engine(*command, context);
#if LSCHED_HAVE_TBB
  add_lane(*command, context);
#endif
  add_async(*command, context);
}

}  // namespace lsched::cli
