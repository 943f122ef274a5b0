// The command `lsched bench compare`: compares libsched with MPI over several launches.
#include "microbench/command/bench_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"
#include "microbench/coll/coll.h"
#include "microbench/coll/coll_comparison.h"
#include "microbench/harness.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

struct compare_words {
  std::vector<std::string> files;
  bool as_markdown = false;
};

void print(const bench::table& lines, const compare_words& words) {
  words.as_markdown ? lines.print_markdown(stdout) : lines.print(stdout);
}

bool is_of_overlap(const std::string& lines) {
  return lines.substr(0, lines.find('\n')).find("\"bench\":\"overlap\"") != std::string::npos;
}

int compare(const compare_words& words) {
  std::vector<std::string> contents;
  for (const std::string& path : words.files) contents.push_back(require(content_of(path)));
  if (std::ranges::all_of(contents, is_of_overlap)) return print(bench::overlap_table(contents), words), 0;
  bench::coll_comparison all;
  for (std::size_t i = 0; i < contents.size(); ++i) all.add_launch(words.files[i], contents[i]);
  std::size_t incomplete = 0;
  std::vector<bench::result> cells = all.cells(&incomplete);
  if (cells.empty())
    throw command_failure("no cell was measured for both MPI and libsched: run `lsched bench coll` with mpiexec");
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
  print(bench::table_of(cells, columns), words);
  if (incomplete > 0)
    std::fprintf(stderr, "lsched: left out: %s without a correct measurement of MPI or of libsched\n",
                 counted(incomplete, "cell").c_str());
  return 0;
}

}  // namespace

void add_compare(CLI::App& bench, command_context& context) {
  CLI::App* command = bench.add_subcommand(
      "compare", "Combine launches; for coll: libsched compared with the better MPI, a ratio per cell");
  const auto words = std::make_shared<compare_words>();
  command
      ->add_option("FILE", words->files, "Files written by --json of `lsched bench coll` or `overlap`, one per launch")
      ->required();
  command->add_flag("--markdown", words->as_markdown, "Print the table as Markdown");
  command->footer("Example:  lsched bench compare mpich-*.json openmpi-*.json");
  command->callback([&context, words] { context.action = [words] { return compare(*words); }; });
}

}  // namespace lsched::cli
