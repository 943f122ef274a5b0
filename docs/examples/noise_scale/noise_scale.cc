// The noise scale of deltas, found out from what Adasum makes of them.
//
//     lsched run -n 4 build/examples/noise_scale
//
// Each rank's weights move by 1 plus noise of a known variance B; two tensors, the second without noise. What
// telemetry.h tells of the steps is compared with B.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <lsched_delta.hpp>
#include <random>
#include <vector>

#include "telemetry.h"

namespace {

constexpr std::chrono::seconds k_limit{30};
constexpr std::size_t k_count = 20'000;
constexpr double k_noise = 3;

bool is_near(double told, double known) { return std::fabs(told - known) <= 0.1 * (1 + known); }

/// Whether the steps tell what was drawn.
bool watch(lsched::world& world) {
  const std::vector<lsched_tensor> tensors{{0, k_count}, {k_count, k_count}};
  std::vector<double> weights(2 * k_count);
  lsched::delta_step<double> deltas(world, weights, {.tensors = tensors}, k_limit);
  telemetry<double> looks(world, weights, tensors);
  std::mt19937 draw(static_cast<std::uint32_t>(world.rank()));
  std::normal_distribution<double> noise(0, std::sqrt(k_noise));
  bool is_right = true;
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += 1 + (i < k_count ? noise(draw) : 0);
    looks.before_step();
    deltas.step(k_limit);
    const std::vector<tensor_telemetry> told = looks.after_step(k_limit);
    is_right &= is_near(told[0].noise, k_noise) && is_near(told[1].noise, 0) && !told[0].is_non_finite;
    if (world.rank() == 0)
      std::printf("step %d: orthogonality %.3f, noise %.2f (drawn: %g), gain %.2f; of equal deltas %.3f, %.2f, %.2f\n",
                  step, told[0].orthogonality, told[0].noise, k_noise, told[0].gain, told[1].orthogonality,
                  told[1].noise, told[1].gain);
  }
  return is_right;
}

}  // namespace

int main() try {
  lsched::world world;
  const bool is_right = watch(world);
  world.close();
  if (!is_right) std::fprintf(stderr, "noise_scale: that is not what was drawn\n");
  return is_right ? 0 : 1;
} catch (const std::exception& why) {
  std::fprintf(stderr, "noise_scale: %s\n", why.what());
  return 1;
}
