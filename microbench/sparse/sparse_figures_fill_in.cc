#include "microbench/sparse/sparse_figures_fill_in.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "collectives/sparse/steps/lists.h"
#include "microbench/baselines/gradient_source.h"
#include "microbench/harness.h"

namespace lsched::bench {
namespace {

/// Section 5.2 of the paper: the output of TopkDSA, on average over the training of VGG-16 and of the LSTM.
std::optional<double> published_fill_in(std::uint64_t ranks, double density) {
  if (ranks == 16 && density == 0.01) return 0.132;
  if (ranks == 32 && density == 0.02) return 0.345;
  return std::nullopt;
}

/// Positions that any list so far had.
class position_union {
 public:
  explicit position_union(std::uint64_t count) : is_in_(count) {}

  void add(std::uint32_t position) {
    size_ += is_in_[position] != 0 ? 0U : 1U;
    is_in_[position] = 1;
  }
  void clear() {
    std::ranges::fill(is_in_, 0);
    size_ = 0;
  }
  std::uint64_t size() const { return size_; }

 private:
  std::vector<unsigned char> is_in_;
  std::uint64_t size_ = 0;
};

/// What the lists of a world's ranks are in a round.
struct lists_together {
  std::uint64_t in_union = 0;  ///< positions that any has
  std::uint64_t longest = 0;   ///< of one list
  std::uint64_t items = 0;     ///< of all
};

/// The ranks of one generator and density, as many as the largest world has.
class filling {
 public:
  filling(const sparse_figures_options& options, double density, const std::string& generator)
      : problem_(figure_problem(options, density, options.ranks.back())),
        source_({.kind = *gradient_kind_named(generator),
                 .seed = options.seed,
                 .count = options.n,
                 .ranks = options.ranks.back()}),
        top_k_(problem_),
        hints_(static_cast<std::size_t>(options.ranks.back())),
        residuals_(std::min<std::uint64_t>(hints_.size(), k_most_figure_residuals)),
        gradient_(options.n),
        union_(options.n) {
    for (auto& one : residuals_) one.resize(options.n);
    for (const rank ranks : options.ranks) rows_.push_back(row_of(options, density, generator, ranks));
  }

  std::vector<fill_in_row> count(std::uint64_t rounds, const std::function<void(round_no)>& tell) {
    std::vector<double> sums(rows_.size());
    for (round_no round = 1; round <= rounds; ++round) {
      const std::vector<lists_together> found = unions_of(round);
      for (std::size_t i = 0; i < found.size(); ++i) {
        fill_in_row& row = rows_[i];
        const double size = static_cast<double>(found[i].in_union) / static_cast<double>(row.n);
        row.violations += found[i].in_union < found[i].longest || found[i].in_union > found[i].items ? 1U : 0U;
        if (round == 1) row.first = size;
        if (round > rounds / 2) sums[i] += size;
      }
      tell(round);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].ranks <= residuals_.size()) rows_[i].steady = sums[i] / static_cast<double>(rounds - rounds / 2);
    return rows_;
  }

 private:
  fill_in_row row_of(const sparse_figures_options& options, double density, const std::string& generator,
                     rank ranks) const {
    const auto size = static_cast<std::uint64_t>(ranks);
    const double taken = static_cast<double>(most_items(problem_)) / static_cast<double>(options.n);
    return {.generator = generator,
            .ranks = size,
            .n = options.n,
            .k = most_items(problem_),
            .density = density,
            .independent = 1 - std::pow(1 - taken, static_cast<double>(ranks)),
            .published = published_fill_in(size, density),
            .rounds = options.iterations};
  }

  /// Of the worlds that take part in the round, the smallest first: in the first one all of them.
  std::vector<lists_together> unions_of(round_no round) {
    const std::size_t ranks = round == 1 ? hints_.size() : residuals_.size();
    std::vector<lists_together> found;
    lists_together now;
    union_.clear();
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::uint64_t items = add_list_of(r, round);
      now = {union_.size(), std::max(now.longest, items), now.items + items};
      if (found.size() < rows_.size() && rows_[found.size()].ranks == r + 1) found.push_back(now);
    }
    return found;
  }

  /// Answers its length.
  std::uint64_t add_list_of(std::size_t r, round_no round) {
    source_.draw(static_cast<rank>(r), round, std::span(gradient_));
    const bool has_residual = r < residuals_.size();
    // Without a residual, the gradient is all there is, and nobody needs it afterwards.
    float* const residual = has_residual ? residuals_[r].data() : gradient_.data();
    const item_list list =
        top_k_.select(reinterpret_cast<std::byte*>(residual),
                      has_residual ? reinterpret_cast<const std::byte*>(gradient_.data()) : nullptr, hints_[r]);
    for (std::uint64_t i = 0; i < list.count; ++i) {
      std::uint32_t index = 0;
      std::memcpy(&index, list.items + i * item_size(problem_.type), sizeof index);
      union_.add(index);
      residual[index] = 0;
    }
    return list.count;
  }

  sparse_problem problem_;
  gradient_source source_;
  own_top_k top_k_;
  std::vector<top_k_hint> hints_;
  std::vector<std::vector<float>> residuals_;
  std::vector<float> gradient_;
  position_union union_;
  std::vector<fill_in_row> rows_;
};

}  // namespace

std::vector<fill_in_row> count_fill_in(const sparse_figures_options& options, const tell_progress& tell) {
  std::vector<fill_in_row> all;
  for (const std::string& generator : options.generators)
    for (const double density : options.densities) {
      const auto some = filling(options, density, generator).count(options.iterations, [&](round_no round) {
        tell(text("%s, density %g, round %llu of %llu", generator.c_str(), density,
                  static_cast<unsigned long long>(round), static_cast<unsigned long long>(options.iterations)));
      });
      all.insert(all.end(), some.begin(), some.end());
    }
  return all;
}

nlohmann::json json_of(const fill_in_row& row) {
  nlohmann::json line{{"bench", "sparse-figures"},
                      {"figure", "fill-in"},
                      {"generator", row.generator},
                      {"ranks", row.ranks},
                      {"n", row.n},
                      {"k", row.k},
                      {"density", row.density},
                      {"first", row.first},
                      {"independent", row.independent},
                      {"iterations", row.rounds},
                      {"violations", row.violations}};
  if (row.steady) line["steady"] = *row.steady;
  if (row.published) line["published"] = *row.published;
  return line;
}

}  // namespace lsched::bench
