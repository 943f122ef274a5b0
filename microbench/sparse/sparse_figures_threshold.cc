// Simulates Ok-Topk on all ranks, without the library's code. A rank sends the elements that its threshold selects. The
// result has the sums that the global threshold selects. The same rule computes both thresholds. Each rule has a run of
// its own, because the selected elements influence the residuals and the training of the model.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

#include "collectives/baselines/gaussiank.h"
#include "microbench/lockstep/gradient_source.h"
#include "microbench/sparse/sparse_figures.h"
#include "microbench/sparse/sparse_figures_training.h"

namespace lsched::bench {
namespace {

struct named_rule {
  const char* name;
  reuse_rule rule;
};
constexpr std::array<named_rule, 4> k_rules{{{"exact", reuse_rule::exact},
                                             {"reused", reuse_rule::reused},
                                             {"corrected", reuse_rule::corrected},
                                             {"scaled", reuse_rule::scaled}}};

float kth_of(std::span<const float> magnitudes, std::uint64_t k) {
  std::vector<float> all(magnitudes.begin(), magnitudes.end());
  const auto kth = all.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(k, all.size()) - 1);
  std::nth_element(all.begin(), kth, all.end(), std::greater<>());
  return *kth;
}

std::uint64_t count_from(std::span<const float> magnitudes, float threshold) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(magnitudes, [=](float magnitude) { return magnitude >= threshold; }));
}

void take_magnitudes(std::span<const float> values, std::span<float> to) {
  std::ranges::transform(values, to.begin(), [](float value) { return std::fabs(value); });
}

/// The source of gradients: a model that learns, or random numbers.
class gradient_feed {
 public:
  gradient_feed(const sparse_figures_options& options, const std::string& generator) {
    if (generator == "training")
      model_.emplace(options.n, options.seed);
    else
      drawn_.emplace(gradient_options{.kind = *gradient_kind_named(generator),
                                      .seed = options.seed,
                                      .count = options.n,
                                      .ranks = options.ranks.front()});
  }

  std::uint64_t count() const { return model_ ? model_->parameters() : drawn_->options().count; }
  float rate() const { return model_ ? 0.1F : 1.0F; }
  /// Writes a gradient. Returns the loss of the model, or 0 without a model.
  double take(rank r, round_no round, std::span<float> to) {
    if (model_) return model_->gradient(r, round, to);
    drawn_->draw(r, round, to);
    return 0;
  }
  void learn(std::span<const float> update) {
    if (model_) model_->learn(update);
  }

 private:
  std::optional<small_model> model_;
  std::optional<gradient_source> drawn_;
};

// ---- one rule's run -----------------------------------------------------------------------------------------

/// The ratios of the number of selected elements to k. Each round has the mean ratio over ranks, and the mean distance
/// of the ratios from 1.
struct selections {
  std::vector<double> ratios, deviations;

  void begin_round() { ratios.push_back(0), deviations.push_back(0); }
  void add(std::uint64_t count, std::uint64_t k, std::size_t ranks) {
    const double ratio = static_cast<double>(count) / static_cast<double>(k);
    ratios.back() += ratio / static_cast<double>(ranks);
    deviations.back() += std::fabs(ratio - 1) / static_cast<double>(ranks);
  }
};

class feedback_run {
 public:
  /// A callback that receives the sum of residual and gradient of a rank, and the threshold that selects from this sum.
  using witness = std::function<void(rank r, round_no, std::span<const float>, float)>;

  feedback_run(const sparse_figures_options& options, reuse_rule rule)
      : feed_(options, options.generators.front()),
        k_(figure_problem(options, options.densities.front(), options.ranks.front()).k),
        size_(static_cast<std::size_t>(options.ranks.front())),
        residuals_(size_, std::vector<float>(feed_.count())),
        locals_(size_, reused_threshold(rule, k_, false)),
        global_(rule == reuse_rule::scaled ? reuse_rule::exact : rule, k_, true),
        sent_(size_),
        gradient_(feed_.count()),
        magnitudes_(feed_.count()),
        sums_(feed_.count()),
        update_(feed_.count()) {}

  void run(round_no round, const witness& look) {
    std::ranges::fill(sums_, 0.0F);
    local.begin_round(), global.begin_round();
    double loss = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      loss += feed_.take(static_cast<rank>(r), round, gradient_);
      select(r, round, look);
    }
    losses.push_back(loss / static_cast<double>(size_));
    settle(round);
  }

  std::uint64_t k() const { return k_; }
  selections local, global;
  std::vector<double> losses;  ///< by round

 private:
  /// Adds the elements that rank `r` selects to the sums, and stores their positions.
  void select(std::size_t r, round_no round, const witness& look) {
    std::vector<float>& residual = residuals_[r];
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += feed_.rate() * gradient_[i];
    take_magnitudes(residual, magnitudes_);
    locals_[r].select(magnitudes_, round, sent_[r]);
    look(static_cast<rank>(r), round, residual, locals_[r].used());
    for (const std::uint32_t i : sent_[r]) sums_[i] += residual[i];
    local.add(sent_[r].size(), k_, size_);
  }

  /// Selects the result from the sums. Removes the elements of the result from the residuals, and updates the model
  /// with the result.
  void settle(round_no round) {
    take_magnitudes(sums_, magnitudes_);
    global_.select(magnitudes_, round, kept_);
    global.add(kept_.size(), k_, 1);
    std::ranges::fill(update_, 0.0F);
    for (const std::uint32_t i : kept_) update_[i] = sums_[i] / static_cast<float>(size_);
    for (std::size_t r = 0; r < size_; ++r)
      for (const std::uint32_t i : sent_[r])
        if (std::ranges::binary_search(kept_, i)) residuals_[r][i] = 0;
    feed_.learn(update_);
  }

  gradient_feed feed_;
  std::uint64_t k_;
  std::size_t size_;
  std::vector<std::vector<float>> residuals_;
  std::vector<reused_threshold> locals_;
  reused_threshold global_;
  std::vector<std::vector<std::uint32_t>> sent_;  ///< positions that each rank has sent
  std::vector<std::uint32_t> kept_;
  std::vector<float> gradient_, magnitudes_, sums_, update_;
};

// ---- histograms --------------------------------------------------------------------------------------

/// Selects from a vector as the library's Gaussiank does. The vector is not changed.
class gaussian_guess {
 public:
  gaussian_guess(std::uint64_t count, std::uint64_t k)
      : one_({.count = count, .k = k, .place = {0, 1}}),
        copy_(count),
        items_(one_.list_room() * item_size(dtype::f32)) {}

  gaussian_list guess(std::span<const float> values) {
    std::ranges::copy(values, copy_.begin());
    return one_.select(reinterpret_cast<std::byte*>(copy_.data()), nullptr, items_.data());
  }

 private:
  gaussiank one_;
  std::vector<float> copy_;
  std::vector<std::byte> items_;
};

/// Returns a histogram of magnitudes. Magnitudes beyond the last bin are counted in the last bin.
result picture_of(std::span<const float> values, float reused, std::uint64_t k, gaussian_guess& gaussian,
                  round_no round) {
  constexpr std::size_t k_bins = 64;
  std::vector<float> magnitudes(values.size());
  take_magnitudes(values, magnitudes);
  const gaussian_list guess = gaussian.guess(values);
  const double exact = kth_of(magnitudes, k), predicted = guess.first_threshold;
  const double width = 1.25 * std::max({exact, static_cast<double>(reused), predicted}) / k_bins;
  std::vector<std::uint64_t> bins(k_bins);
  for (const float magnitude : magnitudes)
    ++bins[std::min<std::size_t>(k_bins - 1, static_cast<std::size_t>(magnitude / width))];
  return {{"figure", "threshold"},
          {"iteration", round},
          {"age", (round - 1) % k_threshold_period},
          {"k", k},
          {"exact", exact},
          {"reused", reused},
          {"gaussian", predicted},
          {"reused_count", count_from(magnitudes, reused)},
          {"gaussian_count", guess.predicted},
          {"bin_width", width},
          {"bins", bins}};
}

/// Returns a round whose threshold is 25 rounds old, as in Fig. 4: the last such round up to about the fraction `part`
/// of the run.
round_no round_for_picture(double part, std::uint64_t rounds) {
  constexpr std::uint64_t k_age = 25;
  const auto before = static_cast<std::uint64_t>(part * static_cast<double>(rounds));
  return before / k_threshold_period * k_threshold_period + 1 + k_age;
}

double mean(std::span<const double> values) { return mean_of({values.begin(), values.end()}); }

result row_of(const sparse_figures_options& options, std::uint64_t k, const std::string& rule, const char* side,
              const selections& found) {
  const std::size_t early = found.ratios.size() / 4;
  const std::span ratios(found.ratios), deviations(found.deviations);
  const auto deviating = std::ranges::count_if(deviations, [](double deviation) { return deviation != 0; });
  return {{"figure", "threshold"},
          {"rule", rule},
          {"side", side},
          {"generator", options.generators.front()},
          {"ranks", options.ranks.front()},
          {"n", options.n},
          {"k", k},
          {"density", options.densities.front()},
          {"deviation_early", mean(deviations.first(early))},
          {"deviation_rest", mean(deviations.subspan(early))},
          {"ratio_early", mean(ratios.first(early))},
          {"ratio_rest", mean(ratios.subspan(early))},
          {"ratios", found.ratios},
          {"iterations", options.iterations},
          {"violations", rule == "exact" ? deviating : 0}};
}

}  // namespace

float reused_threshold::find(std::span<const float> magnitudes, bool looks) {
  const double norm = std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0);
  if (looks) {
    norm_ = norm;
    return threshold_ = kth_of(magnitudes, k_);
  }
  if (rule_ == reuse_rule::scaled && norm_ > 0) return static_cast<float>(threshold_ * (norm / norm_));
  if (rule_ == reuse_rule::corrected && !is_of_sums_)
    for (int i = 0; i < 5 && 3 * count_from(magnitudes, threshold_) > 4 * k_; ++i) threshold_ *= 1.03F;
  return threshold_;
}

void reused_threshold::select(std::span<const float> magnitudes, round_no round,
                              std::vector<std::uint32_t>& positions) {
  const bool looks = rule_ == reuse_rule::exact || (round - 1) % k_threshold_period == 0;
  used_ = find(magnitudes, looks);
  const float above = std::nextafter(used_, std::numeric_limits<float>::infinity());
  std::uint64_t ties = looks ? k_ - std::min(k_, count_from(magnitudes, above)) : magnitudes.size();
  positions.clear();
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    if (magnitudes[i] < used_ || magnitudes[i] == 0) continue;
    if (magnitudes[i] == used_ && ties == 0) continue;
    if (magnitudes[i] == used_) --ties;
    positions.push_back(static_cast<std::uint32_t>(i));
  }
  if (rule_ == reuse_rule::corrected) correct(positions.size());
}

/// Adjusts the threshold for the next round.
void reused_threshold::correct(std::uint64_t selected) {
  const float step = is_of_sums_ ? 1.008F : 1.012F;
  const bool is_many = is_of_sums_ ? 3 * selected > 4 * k_ : 4 * selected > 5 * k_;
  if (3 * selected < 2 * k_) threshold_ /= step;
  if (is_many) threshold_ *= step;
}

threshold_figure count_thresholds(const sparse_figures_options& options, const tell_progress& tell) {
  threshold_figure made;
  const auto size = static_cast<std::size_t>(options.ranks.front());
  for (const auto& [name, rule] : k_rules) {
    feedback_run one(options, rule);
    const std::uint64_t k = one.k();
    gaussian_guess gaussian(options.n, k);
    selections predicted, adjusted;
    const std::array pictured{round_for_picture(0.125, options.iterations),
                              round_for_picture(0.875, options.iterations)};
    const auto look = [&, its = rule](rank r, round_no round, std::span<const float> values, float threshold) {
      if (its == reuse_rule::exact) {
        const gaussian_list guess = gaussian.guess(values);
        if (r == 0) predicted.begin_round(), adjusted.begin_round();
        predicted.add(guess.predicted, k, size);
        adjusted.add(guess.count, k, size);
      }
      if (its == reuse_rule::reused && r == 0 && std::ranges::count(pictured, round) > 0)
        made.pictures.push_back(picture_of(values, threshold, k, gaussian, round));
    };
    for (round_no round = 1; round <= options.iterations; ++round) {
      one.run(round, look);
      tell(text("%s, round %zu of %zu", name, std::size_t{round}, std::size_t{options.iterations}));
    }
    made.rows.push_back(row_of(options, k, name, "local", one.local));
    if (rule != reuse_rule::scaled) made.rows.push_back(row_of(options, k, name, "global", one.global));
    if (rule != reuse_rule::exact) continue;
    made.rows.push_back(row_of(options, k, "gaussian", "local", predicted));
    made.rows.push_back(row_of(options, k, "gaussian_adjusted", "local", adjusted));
    made.loss_first = mean(std::span(one.losses).first(16));
    made.loss_last = mean(std::span(one.losses).last(16));
  }
  return made;
}

namespace {

/// Returns a diagram with a curve for each rule: the number of selected elements divided by k, by iteration.
plot_diagram courses_of(const threshold_figure& figure, const std::string& side) {
  plot_diagram made{"set logscale y 10\nset xlabel 'iteration'\nset ylabel 'selected / k, " + side + "'\n"};
  for (const result& row : figure.rows) {
    if (row.at("side") != side) continue;
    plot_curve& line = made.named(row.at("rule"), "lines linewidth 1.5");
    for (const double ratio : row.at("ratios"))
      line.points.emplace_back(static_cast<double>(line.points.size() + 1), std::max(1e-3, ratio));
  }
  return made;
}

/// Returns a diagram with the histogram as steps, and with each threshold as a vertical line.
plot_diagram histogram_of(const result& picture) {
  plot_diagram made{
      text("unset logscale x\nset logscale y 10\nset format y '%%.0e'\n"
           "set ylabel 'elements'\nset xlabel '|residual + gradient| in iteration %s, threshold of %s "
           "iterations ago'\n",
           picture.at("iteration").dump().c_str(), picture.at("age").dump().c_str())};
  plot_curve& bins = made.named("rank 0", "steps linecolor 'gray40'");
  double most = 0;
  for (const double count : picture.at("bins")) {
    const double middle = static_cast<double>(bins.points.size()) + 0.5;
    bins.points.emplace_back(middle * picture.at("bin_width").get<double>(), std::max(0.5, count));
    most = std::max(most, count);
  }
  for (const auto& [name, key, color] : {std::tuple("exact", "exact", "black"), std::tuple("reused", "reused", "blue"),
                                         std::tuple("Gaussian", "gaussian", "red")})
    made.named(name, text("lines linewidth 2 linecolor '%s'", color)).points = {{picture.at(key), 0.5},
                                                                                {picture.at(key), most}};
  return made;
}

}  // namespace

/// Reports Fig. 6 and Fig. 4. Fig. 6 shows the number of selected elements divided by k, by iteration, for residuals
/// and for sums. Fig. 4 shows two histograms with thresholds.
void report_thresholds(const sparse_figures_options& options, const tell_progress& tell, reporter& out) {
  const threshold_figure figure = count_thresholds(options, tell);
  const auto k = figure.rows.front().at("k").get<std::size_t>();
  for (const result& row : figure.rows) out.add(row);
  out.say("%s, %d ranks, n = %zu, k = %zu, %zu iterations, an exact threshold every %u; early: the first quarter",
          options.generators.front().c_str(), options.ranks.front(), std::size_t{options.n}, k,
          std::size_t{options.iterations}, k_threshold_period);
  if (figure.loss_first > 0)
    out.say("loss of the model, exact thresholds: %.3f in the first 16 iterations, %.3f in the last", figure.loss_first,
            figure.loss_last);
  out.print({column("threshold", "rule"), column("of", "side"), percent("dev. early", "deviation_early"),
             percent("dev. rest", "deviation_rest"), column("selected/k early", "ratio_early", 3),
             column("selected/k rest", "ratio_rest", 3), column("violations", "violations")});
  out.say("paper (Fig. 6): below 11 %% on average; Gaussian selects too many early, then a tenth of k");
  for (const result& picture : figure.pictures) out.add(picture);
  out.print({column("iteration", "iteration"), column("age", "age"), column("exact", "exact", 5),
             column("reused", "reused", 5), column("Gaussian", "gaussian", 5),
             column("reused/exact", "reused", 3, 1, "exact"), column("Gaussian/exact", "gaussian", 3, 1, "exact")});
  out.say("paper (Fig. 4): after 25 iterations the reused threshold is close to the exact one, Gaussian's far above");
  std::vector<plot_diagram> all{courses_of(figure, "local"), courses_of(figure, "global")};
  for (const result& picture : figure.pictures) all.push_back(histogram_of(picture));
  out.draw(
      text("%s, %d ranks, n = %zu, k = %zu", options.generators.front().c_str(), options.ranks.front(),
           std::size_t{options.n}, k),
      all,
      "Counted, not measured. Fewer than a thousandth of k are drawn as a thousandth, empty bins as half an element.");
}

}  // namespace lsched::bench
