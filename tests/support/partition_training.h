// A small model trained partition-parallel, and the same emulated in one place and in double precision: every node one
// replica, whose optimizer sees the mean of its ranks' gradients, and Adasum of the replicas' steps layer by layer.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bindings/cpp/lsched_partition.hpp"

namespace lsched::testing {

inline constexpr std::size_t k_model_size = 57;
/// Of unlike sizes, one of them empty; element 9 and the last one are in none.
inline const std::vector<lsched_tensor> k_model_layers{{0, 9}, {10, 3}, {13, 0}, {13, 31}, {44, 12}};

struct sgd {
  double rate = 0.1, momentum = 0;
};

/// SGD of one layer, with the state of that layer.
template <class T>
class layer_optimizer {
 public:
  void step(const sgd& how, std::span<const T> gradient, std::span<T> weights) {
    velocity_.resize(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      velocity_[i] = static_cast<T>(how.momentum) * velocity_[i] + gradient[i];
      weights[i] -= static_cast<T>(how.rate) * velocity_[i];
    }
  }
  std::size_t state() const { return velocity_.size(); }

 private:
  std::vector<T> velocity_{};
};

/// Of weight i in a rank's n-th batch: of a parabola, so that no weight is in another's gradient.
template <class T>
T batch_gradient(std::size_t rank, int batch, std::size_t i, T weight) {
  std::mt19937 draw(static_cast<unsigned>(1 + i + 100 * rank + 10000 * static_cast<unsigned>(batch)));
  std::normal_distribution<double> normal;
  const T steepness = static_cast<T>(0.5 + std::fabs(normal(draw))), bottom = static_cast<T>(3 + normal(draw));
  return steepness * (weight - bottom);
}

template <class T>
std::vector<T> first_weights(std::int32_t rank) {
  std::vector<T> weights(k_model_size);
  std::iota(weights.begin(), weights.end(), static_cast<T>(-5 - rank));  // all begin with those of rank 0
  return weights;
}

/// This rank's weights after so many steps. `states` (optional): elements of optimizer state it has kept.
template <class T>
std::vector<T> train(lsched::world& world, const sgd& how, int steps, timeout limit, std::size_t* states = nullptr) {
  auto weights = first_weights<T>(world.rank());
  partition_step<T> training(world, weights, k_model_layers, limit);
  std::vector<layer_optimizer<T>> optimizers(k_model_layers.size());
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < k_model_size; ++i)
      training.gradient()[i] = batch_gradient(static_cast<std::size_t>(world.rank()), step, i, weights[i]);
    training.step([&](std::size_t layer, std::span<const T> gradient,
                      std::span<T> mine) { optimizers[layer].step(how, gradient, mine); },
                  limit);
  }
  std::size_t kept = 0;
  for (const auto& it : optimizers) kept += it.state();
  if (states != nullptr) *states = kept;
  if (kept != training.owned_elements()) throw std::logic_error("a rank has updated other layers than its own");
  training.close();
  return weights;
}

using numbers = std::vector<double>;

inline numbers adaptive_sum(const numbers& a, const numbers& b) {
  const auto dot = [](const numbers& x, const numbers& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  const double of_a = dot(a, a) > 0 ? 1 - dot(a, b) / (2 * dot(a, a)) : 1;
  const double of_b = dot(b, b) > 0 ? 1 - dot(a, b) / (2 * dot(b, b)) : 1;
  numbers sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

/// Pairs from the front until a power of two is left, then neighbours.
inline numbers adaptive_sum(std::vector<numbers> all) {
  std::size_t core = 1;
  while (2 * core <= all.size()) core *= 2;
  for (std::size_t i = 0; all.size() > core; ++i) {
    all[i] = adaptive_sum(all[i], all[i + 1]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  for (; all.size() > 1; all.resize(all.size() / 2))
    for (std::size_t i = 0; i < all.size() / 2; ++i) all[i] = adaptive_sum(all[2 * i], all[2 * i + 1]);
  return all.front();
}

/// The same of all ranks, with so many neighbours on a node (the last may have fewer).
inline numbers emulate(std::int32_t ranks, std::int32_t ranks_per_node, const sgd& how, int steps) {
  numbers weights = first_weights<double>(0);
  const std::int32_t nodes = (ranks + ranks_per_node - 1) / ranks_per_node;
  const auto layers = k_model_layers.size();
  std::vector<std::vector<layer_optimizer<double>>> optimizers(static_cast<std::size_t>(nodes));
  for (auto& it : optimizers) it.resize(layers);
  for (int step = 0; step < steps; ++step)
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const lsched_tensor& part = k_model_layers[layer];
      if (part.count == 0) continue;
      const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(part.begin);
      const numbers start(begin, begin + static_cast<std::ptrdiff_t>(part.count));
      std::vector<numbers> deltas;
      for (std::int32_t node = 0; node < nodes; ++node) {
        const std::int32_t first = node * ranks_per_node, end = std::min(ranks, first + ranks_per_node);
        numbers mean(start.size()), moved = start;
        for (std::int32_t r = first; r < end; ++r)
          for (std::size_t i = 0; i < mean.size(); ++i)
            mean[i] += batch_gradient(static_cast<std::size_t>(r), step, part.begin + i, start[i]) / (end - first);
        optimizers[static_cast<std::size_t>(node)][layer].step(how, mean, moved);
        for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= start[i];
        deltas.push_back(moved);
      }
      const numbers delta = adaptive_sum(deltas);
      for (std::size_t i = 0; i < delta.size(); ++i) weights[part.begin + i] = start[i] + delta[i];
    }
  return weights;
}

}  // namespace lsched::testing
