#include "microbench/partial/fig9_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

constexpr std::array<const char*, 3> k_series{"mpi", "solo", "majority"};

const fig9_row* find(std::span<const fig9_row> rows, std::string_view what, std::uint64_t bytes) {
  const auto it = std::find_if(rows.begin(), rows.end(),
                               [&](const fig9_row& row) { return row.what == what && row.bytes == bytes; });
  return it == rows.end() ? nullptr : &*it;
}

std::vector<std::uint64_t> sizes_of(std::span<const fig9_row> rows) {
  std::vector<std::uint64_t> sizes;
  for (const fig9_row& row : rows)
    if (std::find(sizes.begin(), sizes.end(), row.bytes) == sizes.end()) sizes.push_back(row.bytes);
  return sizes;
}

// Columns: size, three latencies, three NAPs. A bar that was not measured is a question mark, which gnuplot
// leaves out.
std::string data_of(std::span<const fig9_row> rows) {
  std::string lines = "# size  mpi_ms solo_ms majority_ms  mpi_nap solo_nap majority_nap\n";
  for (const std::uint64_t bytes : sizes_of(rows)) {
    lines += "\"" + size_text(bytes) + "\"";
    for (const char* what : k_series) {
      const fig9_row* row = find(rows, what, bytes);
      lines += row ? text(" %.6f", row->mean_ms) : " ?";
    }
    for (const char* what : k_series) {
      const fig9_row* row = find(rows, what, bytes);
      lines += row ? text(" %.3f", row->nap) : " ?";
    }
    lines += "\n";
  }
  return lines;
}

// A plot command over columns first_column + k, one for each series k that was measured.
std::string plot_command(const std::filesystem::path& data, int first_column, std::initializer_list<std::size_t> order,
                         std::span<const fig9_row> rows) {
  static constexpr std::array<const char*, 3> k_looks{
      "title 'MPI\\_Allreduce' lc rgb '#7f7f7f'", "title 'solo' lc rgb '#ff7f0e'", "title 'majority' lc rgb '#1f77b4'"};
  std::string command;
  for (const std::size_t k : order) {
    const auto is_of_k = [k](const fig9_row& row) { return row.what == k_series[k]; };
    if (!std::any_of(rows.begin(), rows.end(), is_of_k)) continue;
    command += command.empty() ? "plot " : ", ";
    command += quoted_for_gnuplot(data) + " using " + std::to_string(first_column + static_cast<int>(k)) + ":xtic(1) " +
               k_looks[k];
  }
  return command + "\n";
}

std::string script_of(const picture& figure, std::span<const fig9_row> rows, int ranks) {
  double least = 1;
  for (const fig9_row& row : rows)
    if (row.mean_ms > 0) least = std::min(least, row.mean_ms);
  std::string lines;
  lines += "set terminal pngcairo size 1000,900 font 'sans,12'\n";
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\n";
  lines += "set datafile missing '?'\n";
  lines += "set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.85 border -1\n";
  lines += "set grid ytics\nset lmargin 10\nset key outside top center horizontal\n";
  lines += text("set multiplot layout 2,1 title 'Allreduce under linear skew, %d ranks'\n", ranks);
  lines += "set logscale y 10\nset format y '10^{%L}'\nset ylabel 'latency, mean over ranks [ms]'\n";
  lines += text("set yrange [%g:*]\n", std::pow(10.0, std::floor(std::log10(least)) - 0.5));
  lines += plot_command(figure.data(), 2, {0, 2, 1}, rows);
  lines +=
      "unset logscale y\nset format y '%g'\nset xlabel 'message size [B]'\nset ylabel 'active processes "
      "(NAP)'\n";
  lines += text("set yrange [0:%d]\n", ranks + std::max(1, ranks / 16));
  lines += plot_command(figure.data(), 5, {0, 2, 1}, rows);
  lines += "unset multiplot\n";
  return lines;
}

}  // namespace

bool plot_fig9(const std::string& png, std::span<const fig9_row> rows, int ranks, reporter& out) {
  const picture figure(png);
  return draw_picture(figure, data_of(rows), script_of(figure, rows, ranks), out);
}

}  // namespace lsched::bench
