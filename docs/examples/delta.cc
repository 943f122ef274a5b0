// Combines the optimizer steps of all ranks by Adasum (Maleki et al., "Scaling Distributed Training with Adaptive
// Summation", MLSys 2021, figure 3).
//
//     lsched run -n 4 build/examples/delta
//
// Each rank takes a few local steps and computes its delta, the change of the weights since the last round. Every rank
// then applies the Adasum of all deltas, which the library computes tensor by tensor. The weights of all ranks keep the
// same bits.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <lsched.hpp>
#include <vector>

using namespace std::chrono_literals;

int main() try {
  constexpr int k_rounds = 60, k_local_steps = 4;
  lsched::world world;
  const float noise = 0.1f * static_cast<float>(world.rank() - (world.size() - 1) / 2.0);  // noise of the batches
  std::vector<float> weights(6), start = weights, delta(weights.size());
  const std::vector<lsched_tensor> tensors{{0, 4}, {4, 2}};  // two layers, each with its first element and its length
  lsched::schedule reduce = world.adasum<float>(delta, delta, tensors);

  for (int round = 0; round < k_rounds; ++round) {
    for (int step = 0; step < k_local_steps; ++step)  // any optimizer works here
      for (float& weight : weights) weight -= 0.05f * (weight - 3 + noise);
    for (std::size_t i = 0; i < weights.size(); ++i) delta[i] = weights[i] - start[i];
    reduce.run(10s);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = start[i] += delta[i];
  }

  std::printf("rank %d: weights %.2f and %.2f\n", world.rank(), weights.front(), weights.back());
  reduce.close();
  world.close();
  return std::fabs(weights.front() - 3) < 0.2f ? 0 : 1;
} catch (const lsched::error& why) {
  std::fprintf(stderr, "%s\n", why.what());
  return 1;
}
