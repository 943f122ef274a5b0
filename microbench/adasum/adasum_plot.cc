#include "microbench/adasum/adasum_plot.h"

#include <algorithm>
#include <map>

#include "microbench/plot.h"

namespace lsched::bench {
namespace {

using best_by_size = std::map<std::uint64_t, double>;

std::string curve_of(const adasum_row& row) {
  if (row.what == "mpi") return "MPI_Allreduce, sum";
  if (row.what == "sum") return "sum";
  return text("adasum, %u tensor%s", row.tensors, row.tensors == 1 ? "" : "s");
}

std::map<std::string, best_by_size> curves_of(std::span<const adasum_row> rows) {
  std::map<std::string, best_by_size> all;
  for (const adasum_row& row : rows) {
    if (row.wrong > 0 || row.us.samples == 0) continue;
    const auto [place, is_new] = all[curve_of(row)].try_emplace(row.bytes, row.us.median);
    if (!is_new) place->second = std::min(place->second, row.us.median);
  }
  return all;
}

}  // namespace

bool plot_adasum(const std::string& png, std::span<const adasum_row> rows, int ranks, reporter& out) {
  const std::string style = "linespoints linewidth 2";
  std::vector<plot_diagram> both{
      {"set logscale x 2\nset format x '%.0b%B'\nset key top left reverse Left\nset logscale y 10\n"
       "set ylabel 'median of the slowest rank [µs]'\n"},
      {"unset logscale y\nset yrange [0:*]\nset ylabel 'of our sum'\nset xlabel 'size [B]'\nunset key\n"}};
  auto all = curves_of(rows);
  const best_by_size sums = all["sum"];
  for (const auto& [name, line] : all)
    for (const auto& [bytes, us] : line) {
      both[0].named(name, style).points.emplace_back(bytes, us);
      if (sums.contains(bytes)) both[1].named(name, style).points.emplace_back(bytes, us / sums.at(bytes));
    }
  return draw_picture(png, text("%d ranks, float", ranks), both, out);
}

}  // namespace lsched::bench
