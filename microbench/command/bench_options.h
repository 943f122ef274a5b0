// Common parts of the benchmarks' command lines: options for worlds and sizes, and functions that run a benchmark.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/session.h"
#include "microbench/benchmarks.h"

namespace lsched::cli {

/// Adds `--ranks`. MPI is faster at lower thread levels. A benchmark that also measures MPI (`is_beside_mpi`) therefore
/// requests the lowest level that allows a progress thread.
std::shared_ptr<session_options> add_ranks_option(CLI::App& command, std::int32_t default_ranks,
                                                  bool is_beside_mpi = false);

/// Adds `--json` ("-" is standard output), and `--pin` if the benchmark can pin its ranks.
void add_output_options(CLI::App& command, bench::output_options& options, bool can_pin = false);

/// Adds an option whose help text shows the default.
template <class Value>
CLI::Option* add_value(CLI::App& command, const char* flags, Value& value, const char* help,
                       const CLI::Validator& check) {
  return command.add_option(flags, value, help)->check(check)->capture_default_str();
}
void add_seconds_option(CLI::App& command, const char* flags, double& seconds, const char* help);

/// Returns a validator that accepts sizes such as "64", "4K" and "1M". Sizes are positive multiples of 4 bytes.
CLI::Validator size_word();
/// Adds `--bytes 64,4K,1M`.
void add_sizes_option(CLI::App& command, std::vector<std::uint64_t>& sizes);

/// Adds `--collective`, a list of names such as "bcast,allgather", or "all".
CLI::Option* add_collectives_option(CLI::App& command, std::vector<std::string>& collectives);

void add_compare(CLI::App& bench, command_context& context);
void add_cuda(CLI::App& bench, command_context& context);

/// Joins the world, or launches its ranks, and runs the benchmark on every rank. Returns the exit status.
int in_world(const command_context& context, const session_options& options,
             const std::function<int(session&)>& benchmark);

/// Runs a benchmark that creates its own world in one process. Under a launcher, rank 0 runs the benchmark and the
/// other ranks wait.
int in_one_process(const std::function<int()>& benchmark);

/// Makes the command run the benchmark in a world and label the results with the transport of that world.
template <class Options>
void run_in_world(CLI::App& command, command_context& context, const std::shared_ptr<session_options>& world,
                  const std::shared_ptr<Options>& options, int (*benchmark)(lsched_world*, const Options&)) {
  command.callback([&context, world, options, benchmark] {
    context.action = [&context, world, options, benchmark] {
      return in_world(context, *world, [&](session& here) {
        options->transport = here.transport();
        return benchmark(here.runtime(), *options);
      });
    };
  });
}

}  // namespace lsched::cli
