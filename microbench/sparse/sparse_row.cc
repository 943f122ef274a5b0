#include "microbench/sparse/sparse_row.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "libsched/schedule/geometry.h"

namespace lsched::bench {

nlohmann::json json_of(const sparse_row& row) {
  return {{"bench", "sparse"},
          {"algorithm", row.algorithm},
          {"ranks", row.ranks},
          {"n", row.n},
          {"k", row.k},
          {"policy", row.policy},
          {"words_recv_max", row.words_recv_max},
          {"words_sent_max", row.words_sent_max},
          {"words_meta_max", row.words_meta_max},
          {"words_mean", row.words_mean},
          {"bound_words", row.bound_words},
          {"over_bound", row.over_bound},
          {"us_median", row.us_median},
          {"violations", row.violations},
          {"generator", row.generator},
          {"iterations", row.rounds},
          {"words_recv_phases", row.phase_words_max},
          {"counted", row.is_counted},
          {"buckets", row.buckets},
          {"compute_us", row.compute_us}};
}

double published_words(const std::string& algorithm, const sparse_problem& of) {
  const double ranks = of.place.size, share = (ranks - 1) / ranks;
  const double k = static_cast<double>(most_items(of)) * static_cast<double>(item_size(of.type)) / 8;
  const double dense = static_cast<double>(of.count * size_of(of.type)) / 4;
  if (algorithm == "oktopk") return 6 * k * share;
  if (algorithm == "topkdsa") return (2 * k + dense) * share;
  if (algorithm.starts_with("gtopk")) return 4 * k * ceil_log2(of.place.size);
  if (algorithm == "topka") return 2 * k * (ranks - 1);
  if (algorithm == "gaussiank") return 4 * k * (ranks - 1);  // lists of up to 2 k items
  return 2 * (ranks - 1) * std::ceil(dense / ranks);         // in whole blocks
}

}  // namespace lsched::bench
