#include "microbench/adasum/adasum_plot.h"

#include <algorithm>
#include <map>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

using curve = std::map<std::uint64_t, double>;  ///< the best median by size

std::string curve_of(const adasum_row& row) {
  if (row.what == "mpi") return "MPI_Allreduce, sum";
  if (row.what == "sum") return "sum";
  return text("adasum, %u tensor%s", row.tensors, row.tensors == 1 ? "" : "s");
}

std::map<std::string, curve> curves_of(std::span<const adasum_row> rows) {
  std::map<std::string, curve> all;
  for (const adasum_row& row : rows) {
    if (row.wrong > 0 || row.us.samples == 0) continue;
    const auto [place, is_new] = all[curve_of(row)].try_emplace(row.bytes, row.us.median);
    if (!is_new) place->second = std::min(place->second, row.us.median);
  }
  return all;
}

/// A block per curve: bytes, µs, of the sum's.
std::string data_of(const std::map<std::string, curve>& all) {
  const auto sums = all.find("sum");
  std::string data;
  for (const auto& [name, line] : all) {
    data += "# " + name + "\n# bytes  us  of-sum\n";
    for (const auto& [bytes, us] : line) {
      const bool has_sum = sums != all.end() && sums->second.contains(bytes);
      data += text("%llu %.4f ", static_cast<unsigned long long>(bytes), us) +
              (has_sum ? text("%.4f", us / sums->second.at(bytes)) : "?") + "\n";
    }
    data += "\n\n";
  }
  return data;
}

std::string plot_command(const picture& figure, const std::map<std::string, curve>& all, int column) {
  std::string command;
  int index = 0;
  for (const auto& [name, line] : all) {
    command += (command.empty() ? "plot " : ", \\\n  ") + quoted_for_gnuplot(figure.data()) +
               text(" index %d using 1:%d with linespoints linewidth 2 linetype %d title ", index, column, index + 1) +
               quoted_for_gnuplot(name);
    ++index;
  }
  return command;
}

std::string script_of(const picture& figure, const std::map<std::string, curve>& all, int ranks) {
  std::string lines = "set terminal pngcairo size 900,1000 font 'sans,11'\n";
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\n";
  lines += "set termoption noenhanced\nset datafile missing '?'\nset grid\nset logscale x 2\nset format x '%.0b%B'\n";
  lines += "set multiplot layout 2,1 title " + quoted_for_gnuplot(text("%d ranks, float", ranks)) + "\n";
  lines += "set key top left reverse Left\nset logscale y 10\nset ylabel 'median of the slowest rank [µs]'\n";
  lines += plot_command(figure, all, 2) + "\n";
  lines += "unset logscale y\nset yrange [0:*]\nset ylabel 'of our sum'\nset xlabel 'size [B]'\nunset key\n";
  lines += plot_command(figure, all, 3) + ", 1.45 dashtype 2 linecolor 'gray' title ''\n";
  return lines + "unset multiplot\n";
}

}  // namespace

bool plot_adasum(const std::string& png, std::span<const adasum_row> rows, int ranks, reporter& out) {
  const picture figure(png);
  const auto all = curves_of(rows);
  return draw_picture(figure, data_of(all), script_of(figure, all, ranks), out);
}

}  // namespace lsched::bench
