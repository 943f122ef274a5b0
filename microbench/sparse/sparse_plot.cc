#include "microbench/sparse/sparse_plot.h"

#include <algorithm>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

std::string name_of(const sparse_row& row) {
  return row.policy == "-" ? row.algorithm : row.algorithm + " " + row.policy;
}

/// Name, words received, sent and bound in multiples of k, and the time.
std::string data_of(std::span<const sparse_row> rows) {
  std::string data = "# algorithm  recv/k  sent/k  bound/k  us\n";
  for (const sparse_row& row : rows) {
    const double k = static_cast<double>(std::max<std::uint64_t>(1, row.k));
    data += text("\"%s\" %.4f %.4f %.4f %.2f\n", name_of(row).c_str(), row.words_recv_max / k, row.words_sent_max / k,
                 row.bound_words / k, row.us_median);
  }
  return data;
}

std::string script_of(const picture& figure, std::span<const sparse_row> rows) {
  const bool is_counted = rows.front().is_counted;
  const std::string file = quoted_for_gnuplot(figure.data());
  std::string lines = "set terminal pngcairo size 1000,900 font 'sans,11'\n";
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\nset termoption noenhanced\nset grid ytics\n";
  lines += "set style data histogram\nset style histogram clustered gap 1\nset style fill solid 0.8\n";
  lines += text("set multiplot layout %d,1 title '%llu ranks, n = %llu, k = %llu, %s'\n", is_counted ? 1 : 2,
                static_cast<unsigned long long>(rows.front().ranks), static_cast<unsigned long long>(rows.front().n),
                static_cast<unsigned long long>(rows.front().k), rows.front().generator.c_str());
  lines += "set logscale y 10\nset ylabel 'words of a rank and round, at most / k'\nset xtics rotate by -25\n";
  lines += "plot " + file + " using 2:xtic(1) title 'received', '' using 3 title 'sent', '' using 4 title 'bound'\n";
  if (!is_counted)
    lines += "set ylabel 'median of the slowest rank [µs]'\nplot " + file + " using 5:xtic(1) title 'a round'\n";
  return lines + "unset multiplot\n";
}

}  // namespace

bool plot_sparse(const std::string& png, std::span<const sparse_row> rows, reporter& out) {
  if (rows.empty()) return true;
  const picture figure(png);
  return draw_picture(figure, data_of(rows), script_of(figure, rows), out);
}

}  // namespace lsched::bench
