// What the benchmarks' command lines have in common: options of worlds and sizes, and where a benchmark runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/session.h"

namespace lsched::cli {

/// What a benchmark that runs in a world asks of it.
struct world_words {
  std::int32_t ranks = 0;
  std::int32_t default_ranks = 2;
  std::string transport = "auto";
  /// Thread level that MPI is initialised with. MPI is faster with fewer promises: where it is measured, it gets the
  /// cheapest that allows a progress thread, "funneled".
  std::string mpi_threads = "multiple";
};

std::shared_ptr<world_words> add_ranks_option(CLI::App& command, std::int32_t default_ranks);
void add_transport_option(CLI::App& command, world_words& words);
void add_pin_option(CLI::App& command, bool& pin);
void add_plot_option(CLI::App& command, std::string& plot);

/// `--json` alone, or with "-": standard output.
void add_json_option(CLI::App& command, std::string& json);

void add_seconds_option(CLI::App& command, const char* name, double& seconds, const char* help);

/// "64", "4K", "1M"
CLI::Validator size_word();

/// `--sizes 64,4K,1M`
void add_sizes_option(CLI::App& command, std::vector<std::uint64_t>& sizes);

/// `--coll bcast,allgather`, or all.
void add_collectives_option(CLI::App& command, std::vector<std::string>& collectives);

/// Joins the world, or becomes its launcher, and runs the benchmark on every rank.
int in_world(const command_context& context, const world_words& words, const std::function<int(session&)>& benchmark,
             const lsched_config* config = nullptr);

/// For a benchmark that makes its own world in one process: under a launcher rank 0 runs it, and the others wait.
int in_one_process(const std::function<int()>& benchmark);

/// The command runs the benchmark in a world, and labels its results with what that world talks through.
template <class Options>
void run_in_world(CLI::App& command, command_context& context, const std::shared_ptr<world_words>& words,
                  const std::shared_ptr<Options>& options, int (*benchmark)(lsched_world*, const Options&)) {
  command.callback([&context, words, options, benchmark] {
    context.action = [&context, words, options, benchmark] {
      return in_world(context, *words, [&](session& here) {
        options->transport = here.transport();
        return benchmark(here.runtime(), *options);
      });
    };
  });
}

}  // namespace lsched::cli
