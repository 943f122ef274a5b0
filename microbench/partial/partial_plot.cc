#include "microbench/partial/partial_plot.h"

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

/// Columns: contributors, measured, simulated (a question mark, which gnuplot leaves out, where it was not), policy.
std::string data_of(std::span<const partial_row> rows) {
  std::string lines = "# contributors  ms  ms_simulated  policy\n";
  for (const partial_row& row : rows)
    lines += text("%.4f %.6f ", row.nap_mean, row.ms_mean) +
             (row.ms_simulated ? text("%.6f", *row.ms_simulated) : std::string("?")) + " \"" + row.policy + "\"\n";
  return lines;
}

std::string script_of(const picture& figure, std::span<const partial_row> rows, int ranks) {
  const std::string data = quoted_for_gnuplot(figure.data());
  const bool is_simulated = !rows.empty() && rows.front().ms_simulated.has_value();
  std::string lines;
  lines += "set terminal pngcairo size 1000,700 noenhanced font 'sans,12'\n";
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\n";
  lines += "set datafile missing '?'\n";
  lines += "set grid\nset key top left\n";
  lines += text("set title 'Partial allreduce, %d ranks: what waiting buys'\n", ranks);
  lines += text("set xlabel 'contributors of a round'\nset xrange [0:%g]\n", ranks + 1.0);
  lines += "set ylabel 'latency, mean over ranks [ms]'\nset yrange [0:*]\n";
  lines += "plot " + data + " using 1:2 with points pt 7 ps 1.4 lc rgb '#1f77b4' title 'measured'";
  if (is_simulated) lines += ", " + data + " using 1:3 with points pt 6 ps 1.8 lc rgb '#ff7f0e' title 'simulated'";
  lines += ", " + data + " using 1:2:4 with labels offset 0,-1 font 'sans,8' notitle\n";
  return lines;
}

}  // namespace

bool plot_partial(const std::string& png, std::span<const partial_row> rows, int ranks, reporter& out) {
  const picture figure(png);
  return draw_picture(figure, data_of(rows), script_of(figure, rows, ranks), out);
}

}  // namespace lsched::bench
