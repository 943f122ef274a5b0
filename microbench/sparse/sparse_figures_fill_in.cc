#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/sparse/steps/lists.h"
#include "microbench/lockstep/gradient_source.h"
#include "microbench/sparse/sparse_figures.h"

namespace lsched::bench {
namespace {

/// Returns the density of the result of TopkDSA in section 5.2 of the paper. It is a mean over the training of VGG-16
/// or of the LSTM. Returns 0 if the paper has no number.
double published_fill_in(rank ranks, double density) {
  if (ranks == 16 && density == 0.01) return 0.132;
  if (ranks == 32 && density == 0.02) return 0.345;
  return 0;
}

/// Numbers about the lists of all ranks of a world in a round.
struct lists_together {
  std::uint64_t in_union = 0;  ///< number of positions that occur in any list
  std::uint64_t longest = 0;   ///< length of the longest list
  std::uint64_t items = 0;     ///< length of all lists together
};

/// Runs the ranks of the largest world for one generator and one density.
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
        is_in_union_(options.n) {
    for (auto& one : residuals_) one.resize(options.n);
    for (const rank ranks : options.ranks) rows_.push_back(row_of(options, density, generator, ranks));
  }

  std::vector<result> count(std::uint64_t rounds, const std::function<void(round_no)>& tell) {
    std::vector<double> sums(rows_.size());
    std::vector<std::uint64_t> violations(rows_.size());
    for (round_no round = 1; round <= rounds; ++round) {
      const std::vector<lists_together> found = unions_of(round);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const double size = static_cast<double>(found[i].in_union) / static_cast<double>(problem_.count);
        violations[i] += found[i].in_union < found[i].longest || found[i].in_union > found[i].items ? 1U : 0U;
        if (round == 1) rows_[i]["first"] = size;
        if (round > rounds / 2) sums[i] += size;
      }
      tell(round);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i]["violations"] = violations[i];
      if (rows_[i]["ranks"] <= residuals_.size())
        rows_[i]["steady"] = sums[i] / static_cast<double>(rounds - rounds / 2);
    }
    return rows_;
  }

 private:
  /// Returns the row of a world. `independent` is the expected density if ranks choose positions independently of each
  /// other.
  result row_of(const sparse_figures_options& options, double density, const std::string& generator, rank ranks) const {
    const double taken = static_cast<double>(most_items(problem_)) / static_cast<double>(options.n);
    result row{{"figure", "fill-in"},
               {"generator", generator},
               {"ranks", ranks},
               {"n", options.n},
               {"k", most_items(problem_)},
               {"density", density},
               {"independent", 1 - std::pow(1 - taken, static_cast<double>(ranks))},
               {"iterations", options.iterations}};
    if (const double published = published_fill_in(ranks, density); published > 0) row["published"] = published;
    return row;
  }

  /// Returns the unions of lists for the worlds that take part in a round, the smallest world first. All worlds take
  /// part in round 1. Only worlds with residuals take part in later rounds.
  std::vector<lists_together> unions_of(round_no round) {
    const std::size_t ranks = round == 1 ? hints_.size() : residuals_.size();
    std::vector<lists_together> found;
    lists_together now;
    is_in_union_.assign(is_in_union_.size(), 0);
    union_size_ = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::uint64_t items = add_list_of(r, round);
      now = {union_size_, std::max(now.longest, items), now.items + items};
      if (found.size() < rows_.size() && rows_[found.size()].at("ranks") == r + 1) found.push_back(now);
    }
    return found;
  }

  /// Selects the list of a rank, and adds the list to the union. Returns the length of the list.
  std::uint64_t add_list_of(std::size_t r, round_no round) {
    source_.draw(static_cast<rank>(r), round, std::span(gradient_));
    const bool has_residual = r < residuals_.size();
    // Without a residual the list is selected from the gradient. Selection may change the gradient, which is not needed
    // afterwards.
    float* const residual = has_residual ? residuals_[r].data() : gradient_.data();
    const item_list list =
        top_k_.select(reinterpret_cast<std::byte*>(residual),
                      has_residual ? reinterpret_cast<const std::byte*>(gradient_.data()) : nullptr, hints_[r]);
    for (std::uint64_t i = 0; i < list.count; ++i) {
      std::uint32_t index = 0;
      std::memcpy(&index, list.items + i * item_size(problem_.type), sizeof index);
      union_size_ += is_in_union_[index] == 0 ? 1U : 0U;
      is_in_union_[index] = 1;
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
  std::vector<char> is_in_union_;  ///< true for each position that is in a list of this round
  std::uint64_t union_size_ = 0;
  std::vector<result> rows_;
};

}  // namespace

std::vector<result> count_fill_in(const sparse_figures_options& options, const tell_progress& tell) {
  std::vector<result> all;
  for (const std::string& generator : options.generators)
    for (const double density : options.densities) {
      const auto some = filling(options, density, generator).count(options.iterations, [&](round_no round) {
        tell(text("%s, density %g, round %zu of %zu", generator.c_str(), density, std::size_t{round},
                  std::size_t{options.iterations}));
      });
      all.insert(all.end(), some.begin(), some.end());
    }
  return all;
}

/// Reports four densities for each number of ranks: in the first round, with residuals, by the formula for independent
/// ranks, and in the paper.
void report_fill_in(const sparse_figures_options& options, const tell_progress& tell, reporter& out) {
  for (result& row : count_fill_in(options, tell)) out.add(std::move(row));
  out.say("density of the sum of all ranks' lists, n = %zu; with residuals: mean of rounds %zu to %zu",
          std::size_t{options.n}, std::size_t{options.iterations / 2 + 1}, std::size_t{options.iterations});
  out.print({column("generator", "generator"), percent("d", "density"), column("ranks", "ranks"),
             percent("first round", "first"), percent("with residuals", "steady"), percent("1-(1-d)^P", "independent"),
             percent("paper", "published"), column("violations", "violations")});
  out.say("paper: of models in training, VGG-16 (16 ranks, 1 %%) and LSTM (32 ranks, 2 %%)");
  plot_diagram one{k_plot_by_ranks + std::string("set logscale y 10\nset ylabel 'density of the sum'\n")};
  const auto add = [&](const std::string& name, const char* style, const result& row, const char* key) {
    if (row.contains(key)) one.named(name, style).points.emplace_back(row.at("ranks"), row.at(key));
  };
  for (const result& row : out.results()) {
    const std::string generator = row.at("generator"), density = text("d = %g", row.at("density").get<double>());
    add(generator + ", " + density + ": first round", "points pointsize 1.5", row, "first");
    add(generator + ", " + density + ": with residuals", "linespoints", row, "steady");
    if (generator != options.generators.front()) continue;
    add("1-(1-d)^P, " + density, "lines dashtype 2 linecolor 'gray40'", row, "independent");
    add("the paper's models", "points pointtype 3 pointsize 3 linecolor 'red'", row, "published");
  }
  out.draw("Fill-in", std::span(&one, 1),
           text("Counted, not measured: n = %zu, residuals of rounds %zu to %zu. The paper's values are of models in "
                "training.",
                std::size_t{options.n}, std::size_t{options.iterations / 2 + 1}, std::size_t{options.iterations}));
}

}  // namespace lsched::bench
