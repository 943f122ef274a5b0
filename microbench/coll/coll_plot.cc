#include "microbench/coll/coll_plot.h"

#include <algorithm>
#include <map>
#include <vector>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

/// A line of the picture: the best median by size.
using curve = std::map<std::uint64_t, double>;

/// A collective's curves by name, and MPI's best.
struct panel {
  std::string collective;
  std::map<std::string, curve> curves;
  curve best_mpi;
};

void keep_better(curve& line, const coll_row& row) {
  const auto [place, is_new] = line.try_emplace(row.bytes, row.us.median);
  if (!is_new) place->second = std::min(place->second, row.us.median);
}

std::string curve_of(const coll_row& row) {
  return row.impl == "mpi" ? "MPI " + row.form : row.algorithm + ", " + row.buffers;
}

std::vector<panel> panels_of(std::span<const coll_row> rows) {
  std::vector<panel> panels;
  for (const coll_row& row : rows) {
    if (row.wrong > 0 || row.us.samples == 0) continue;
    if (panels.empty() || panels.back().collective != row.collective) panels.push_back({row.collective, {}, {}});
    keep_better(panels.back().curves[curve_of(row)], row);
    if (row.impl == "mpi") keep_better(panels.back().best_mpi, row);
  }
  return panels;
}

/// A block per curve: bytes, µs, µs over MPI's best. A barrier's size, 0, has no place on a log axis; it stands at 1.
std::string data_of(const std::vector<panel>& panels) {
  std::string data;
  for (const panel& each : panels)
    for (const auto& [name, line] : each.curves) {
      data += "# " + each.collective + ": " + name + "\n# bytes  us  of-best-mpi\n";
      for (const auto& [bytes, us] : line) {
        const auto best = each.best_mpi.find(bytes);
        data += text("%llu %.4f ", static_cast<unsigned long long>(std::max<std::uint64_t>(bytes, 1)), us) +
                (best == each.best_mpi.end() ? "?" : text("%.4f", us / best->second)) + "\n";
      }
      data += "\n\n";
    }
  return data;
}

bool is_mpi(const std::string& curve_name) { return curve_name.starts_with("MPI "); }

/// The curves of one panel, of which `first` is the index of its first block in the data.
std::string plot_command(const picture& figure, const panel& each, int first, int column) {
  std::string command;
  int index = first, style = 1;
  for (const auto& [name, line] : each.curves) {
    const std::string look = is_mpi(name) ? text("dashtype 2 linetype %d pointtype 6", style)
                                          : text("linewidth 2 linetype %d pointtype 7", style);
    command += (command.empty() ? "plot " : ", \\\n  ") + quoted_for_gnuplot(figure.data()) +
               text(" index %d using 1:%d with linespoints ", index, column) + look + " title " +
               quoted_for_gnuplot(name);
    ++index, ++style;
  }
  return command + "\n";
}

std::string script_of(const picture& figure, const std::vector<panel>& panels, int ranks, const std::string& mpi) {
  const auto columns = static_cast<int>(panels.size());
  std::string lines;
  lines += text("set terminal pngcairo size %d,1000 font 'sans,11'\n", std::max(900, 640 * columns));
  lines += "set output " + quoted_for_gnuplot(figure.png()) + "\n";
  lines += "set termoption noenhanced\nset datafile missing '?'\nset grid\nset logscale x 2\nset format x '%.0b%B'\n";
  lines += text("set multiplot layout 2,%d title ", columns) +
           quoted_for_gnuplot(text("%d ranks, ", ranks) + (mpi.empty() ? "no MPI" : mpi)) + "\n";
  lines += "set key top left reverse Left\nset logscale y 10\nset ylabel 'median of the slowest rank [µs]'\n";
  int first = 0;
  for (const panel& each : panels) {
    lines += "set title " + quoted_for_gnuplot(each.collective) + "\n" + plot_command(figure, each, first, 2);
    first += static_cast<int>(each.curves.size());
  }
  lines += "unset key\nset ylabel 'of the best MPI'\nset xlabel 'size [B]'\nset yrange [0.05:20]\n";
  first = 0;
  for (const panel& each : panels) {
    if (!each.best_mpi.empty()) lines += "unset title\n" + plot_command(figure, each, first, 3);
    first += static_cast<int>(each.curves.size());
  }
  return lines + "unset multiplot\n";
}

}  // namespace

double best_of_mpi(std::span<const coll_row> rows) {
  double best = 0;
  for (const coll_row& row : rows)
    if (row.impl == "mpi" && row.wrong == 0 && row.us.samples > 0 && (best == 0 || row.us.median < best))
      best = row.us.median;
  return best;
}

bool plot_coll(const std::string& png, std::span<const coll_row> rows, int ranks, const std::string& mpi,
               reporter& out) {
  const picture figure(png);
  const std::vector<panel> panels = panels_of(rows);
  if (panels.empty()) {
    out.say("no plot: nothing was measured");
    return true;
  }
  return draw_picture(figure, data_of(panels), script_of(figure, panels, ranks, mpi), out);
}

}  // namespace lsched::bench
