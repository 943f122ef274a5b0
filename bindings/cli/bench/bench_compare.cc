#include "bindings/cli/bench/bench_compare.h"

#include <CLI/CLI.hpp>
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

std::string us_text(double us) { return us == 0 ? "" : bench::text(us < 100 ? "%.2f" : "%.0f", us); }
std::string ratio_text(const bench::our_best& ours) { return ours.us == 0 ? "" : bench::text("%.2f", ours.ratio); }

std::string spin_text(const bench::compared_cell& cell) {
  return cell.least_spin_ns == cell.most_spin_ns ? bench::text("%.0f", cell.most_spin_ns)
                                                 : bench::text("%.0f-%.0f", cell.least_spin_ns, cell.most_spin_ns);
}

bench::table table_of(const std::vector<bench::compared_cell>& cells) {
  bench::table lines({"collective", "P", "size", "best MPI", "its form", "us", "ours, malloc", "us", "ratio",
                      "ours, lsched_alloc", "us", "ratio", "launches", "spin ns"});
  for (const bench::compared_cell& cell : cells)
    lines.add({cell.collective + (cell.is_through_mpi ? " through MPI" : ""),
               std::to_string(cell.ranks) + (cell.is_pinned ? " pinned" : ""), bench::size_text(cell.bytes), cell.mpi,
               cell.mpi_how, us_text(cell.mpi_us), cell.malloced.how, us_text(cell.malloced.us),
               ratio_text(cell.malloced), cell.shared.how, us_text(cell.shared.us), ratio_text(cell.shared),
               bench::text("%zu of %zu", cell.launches, cell.launches + cell.other_launches), spin_text(cell)});
  return lines;
}

int compare(const compare_words& words) {
  bench::coll_comparison all;
  for (const std::string& path : words.files) all.add_launch(path, require(content_of(path)));
  std::size_t incomplete = 0;
  const std::vector<bench::compared_cell> cells = all.cells(&incomplete);
  if (cells.empty()) throw command_failure("no cell was measured for both MPI and libsched");
  const bench::table lines = table_of(cells);
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
