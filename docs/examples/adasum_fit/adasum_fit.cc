// Fits the coefficients of a polynomial by plain SGD, with the mean and with the Adasum of all ranks' gradients. This
// is the case study "Square and Cubic optimization" of Horovod's documentation of Adasum, for any number of ranks.
//
//     for n in 2 4 8 16; do lsched run -n $n build/examples/adasum_fit; done
//
// In each step, every rank has one point, whose x is between -x_max and x_max. All ranks begin with the same guess and
// make the same steps. There is no noise, so a fit ends when the combined gradient is zero in two successive steps. The
// program reports the learning rates at which the fit ends, and the number of steps.
#include <chrono>
#include <cstdio>
#include <exception>
#include <lsched.hpp>
#include <vector>

#include "options.h"
#include "polynomial.h"
#include "report.h"

namespace {

constexpr std::chrono::seconds k_limit{60};
constexpr int k_quiet_steps = 2;

/// A vector that combines the gradients of all ranks.
class combined_gradient {
 public:
  combined_gradient(lsched::world& world, std::size_t count, way by)
      : by_(by), ranks_(static_cast<float>(world.size())), values_(count) {
    if (by == way::mean) exchange_ = world.allreduce<float>(std::span(values_));
    if (by == way::adasum) exchange_ = world.adasum<float>(values_, values_);
  }

  /// Returns the gradient of this rank before combine(), and the combined gradient after it.
  std::span<float> values() { return values_; }

  void combine() {
    if (by_ == way::alone) return;
    exchange_.run(k_limit);
    if (by_ == way::mean)
      for (float& it : values_) it /= ranks_;
  }

 private:
  way by_;
  float ranks_;
  std::vector<float> values_;
  lsched::schedule exchange_;
};

/// Returns the number of steps until the fit ends. Returns 0 if it does not end.
int fit(const polynomial& curve, combined_gradient& gradient, int seed, double x_max, float rate) {
  std::vector<float> guess = curve.first_guess();
  draws random(static_cast<std::uint32_t>(seed));
  int quiet = 0;
  for (int step = 1; step <= curve.most_steps(); ++step) {
    const auto x = static_cast<float>(random.next() * 2 * x_max - x_max);
    curve.gradient(x, guess, gradient.values());
    gradient.combine();
    quiet = curve.is_over(gradient.values()) ? quiet + 1 : 0;
    if (quiet == k_quiet_steps) return step;
    for (std::size_t i = 0; i < guess.size(); ++i) guess[i] -= rate * gradient.values()[i];
  }
  return 0;
}

sweep fit_at_all_rates(lsched::world& world, const options& how, way by, int x_max) {
  const polynomial curve{how.is_cubic};
  combined_gradient gradient(world, curve.first_guess().size(), by);
  const int seed = by == way::alone ? 1 : 1 + world.rank();
  sweep all{.by = by, .ranks = by == way::alone ? 1 : world.size(), .x_max = x_max};
  for (int i = 0; i < how.rates; ++i) all.steps.push_back(fit(curve, gradient, seed, x_max, how.rate(i)));
  return all;
}

/// Returns true if all ranks have the same numbers of steps. This holds if the combined gradients have the same bits on
/// all ranks.
bool is_agreed(lsched::world& world, const std::vector<sweep>& sweeps) {
  std::vector<std::int32_t> least, most;
  for (const sweep& it : sweeps) least.insert(least.end(), it.steps.begin(), it.steps.end());
  most = least;
  world.allreduce(std::span(least), LSCHED_MIN).run(k_limit);
  world.allreduce(std::span(most), LSCHED_MAX).run(k_limit);
  return least == most;
}

int run(const options& how) {
  lsched::world world;
  std::vector<sweep> sweeps;
  for (const int x_max : {1, 2})
    for (const way it : {way::alone, way::mean, way::adasum}) sweeps.push_back(fit_at_all_rates(world, how, it, x_max));
  const bool agreed = is_agreed(world, sweeps);
  if (world.rank() == 0) {
    if (!agreed) std::fprintf(stderr, "adasum_fit: the ranks have different results\n");
    if (how.as_json)
      print_json(how, sweeps);
    else
      print_table(how, sweeps);
    if (!how.plot.empty()) draw(how, sweeps);
  }
  world.close();
  return agreed ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  const auto how = read_options(count, words);
  if (!how) return 2;
  if (!how->wants_help) return run(*how);
  print_usage(stdout);
  return 0;
} catch (const std::exception& why) {
  std::fprintf(stderr, "adasum_fit: %s\n", why.what());
  return 1;
}
