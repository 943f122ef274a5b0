#include "microbench/partial/partial_plot.h"

#include "microbench/plot.h"

namespace lsched::bench {

bool plot_partial(const std::string& png, std::span<const partial_row> rows, int ranks, reporter& out) {
  plot_diagram figure{text("set key top left\nset xlabel 'contributors of a round'\nset xrange [0:%g]\n", ranks + 1.0) +
                      "set ylabel 'latency, mean over ranks [ms]'\nset yrange [0:*]\n"};
  for (const partial_row& row : rows) {
    figure.named("measured", "points pointtype 7 pointsize 1.4").points.emplace_back(row.nap_mean, row.ms_mean);
    if (row.ms_simulated)
      figure.named("simulated", "points pointtype 6 pointsize 1.8")
          .points.emplace_back(row.nap_mean, *row.ms_simulated);
    figure.settings += text("set label '%s' at %.4f,%.6f center offset 0,-1 font 'sans,8'\n", row.policy.c_str(),
                            row.nap_mean, row.ms_mean);
  }
  return draw_picture(png, text("Partial allreduce, %d ranks: what waiting buys", ranks), std::span(&figure, 1), out);
}

}  // namespace lsched::bench
