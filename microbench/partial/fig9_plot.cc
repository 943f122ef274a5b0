#include "microbench/partial/fig9_plot.h"

#include "microbench/plot.h"

namespace lsched::bench {

bool plot_fig9(const std::string& png, std::span<const fig9_row> rows, int ranks, reporter& out) {
  std::vector<plot_diagram> both{
      {"set key outside top center horizontal\nset logscale x 2\nset format x '%.0b%B'\nset logscale y 10\n"
       "set ylabel 'latency, mean over ranks [ms]'\n"},
      {text("unset logscale y\nset ylabel 'active processes (NAP)'\nset xlabel 'message size [B]'\nset yrange [0:%d]\n",
            ranks + 1)}};
  const auto add = [&](const char* what, const char* color) {
    const std::string style = text("linespoints linewidth 2 pointtype 7 linecolor rgb '%s'", color);
    for (const fig9_row& row : rows) {
      if (row.what != what) continue;
      both[0].named(what, style).points.emplace_back(row.bytes, row.mean_ms);
      both[1].named(what, style).points.emplace_back(row.bytes, row.nap);
    }
  };
  add("mpi", "#7f7f7f"), add("majority", "#1f77b4"), add("solo", "#ff7f0e");
  return draw_picture(png, text("Allreduce under linear skew, %d ranks", ranks), both, out);
}

}  // namespace lsched::bench
