// `lsched bench compare`.
#include "bindings/cli/bench/bench_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>

#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"
#include "microbench/coll/coll_comparison.h"
#include "microbench/harness.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

struct compare_words {
  std::vector<std::string> files;
  bool as_markdown = false;
};

int compare(const compare_words& words) {
  bench::coll_comparison all;
  for (const std::string& path : words.files) all.add_launch(path, require(content_of(path)));
  std::size_t incomplete = 0;
  std::vector<bench::result> cells = all.cells(&incomplete);
  if (cells.empty()) throw command_failure("no cell was measured for both MPI and libsched");
  for (bench::result& cell : cells) {
    const auto launches = cell["launches"].get<std::size_t>();
    cell["of_launches"] = bench::text("%zu of %zu", launches, launches + cell["other_launches"].get<std::size_t>());
  }
  using bench::column;
  const std::array columns{column("collective", "coll"),
                           column("P", "ranks"),
                           column("pinned", "pinned"),
                           column("through MPI", "through_mpi"),
                           column("size", "bytes"),
                           column("best MPI", "mpi"),
                           column("its form", "mpi_how"),
                           column("us", "mpi_us", 2),
                           column("ours, malloc", "malloc_how"),
                           column("us", "malloc_us", 2),
                           column("ratio", "malloc_ratio", 2),
                           column("ours, lsched_alloc", "shared_how"),
                           column("us", "shared_us", 2),
                           column("ratio", "shared_ratio", 2),
                           column("launches", "of_launches"),
                           column("spin ns, least", "least_spin_ns", 0),
                           column("most", "most_spin_ns", 0)};
  const bench::table lines = bench::table_of(cells, columns);
  words.as_markdown ? lines.print_markdown(stdout) : lines.print(stdout);
  if (incomplete > 0)
    std::fprintf(stderr, "left out: %s for which nothing right was measured for MPI, or for libsched\n",
                 counted(incomplete, "cell").c_str());
  return 0;
}

}  // namespace

void add_compare(CLI::App& bench, command_context& context) {
  CLI::App* command =
      bench.add_subcommand("compare", "Launches of coll together: ours against the better MPI, a ratio per cell");
  const auto words = std::make_shared<compare_words>();
  command->add_option("FILE", words->files, "What `lsched bench coll --json FILE` wrote, a launch each")->required();
  command->add_flag("--markdown", words->as_markdown, "Print the table as Markdown");
  command->footer("Example:  lsched bench compare mpich-*.json openmpi-*.json");
  command->callback([&context, words] { context.action = [words] { return compare(*words); }; });
}

}  // namespace lsched::cli
