// What a reduction of deltas says about them: how orthogonal the ranks were, and by a model of their noise how much
// longer a step may be than the mean's. It looks at lsched::delta_step from outside:
//
//     telemetry<float> looks(world, weights, tensors);       // the weights are the same on all ranks
//     for (...) {
//       optimizer.step(weights, gradient_of(my_batch, weights));
//       looks.before_step();                                 // what this rank's weights moved by
//       deltas.step();
//       const auto told = looks.after_step();                // what all of them moved by together
//     }
//
// A model: the deltas of n ranks are mu + noise_r, independent and alike, and B = |noise_r|^2 / |mu|^2 is their noise
// scale. A balanced tree of Adasum then makes of them, in expectation,
//
//     S(n) * their mean                      gain            S(n) = (1 + 2 B) / (1 + 2 B / n)     from 1 to n
//     |result|^2 / sum |delta_r|^2           orthogonality   S(n)^2 (1 + B / n) / (n (1 + B))     from 1/n to 1
//
// Both grow with B. The tree is balanced if n is a power of two; for other n this is an approximation. Adasum by nodes
// is none of n deltas: there the model says nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <lsched_delta.hpp>
#include <span>
#include <utility>
#include <vector>

namespace model {

/// The model by t = B / (1 + B), which is finite also where B is not.
constexpr double gain_at(double t, double n) { return n * (1 + t) / (n - (n - 2) * t); }
constexpr double orthogonality_at(double t, double n) {
  return gain_at(t, n) * gain_at(t, n) * (n - (n - 1) * t) / (n * n);
}
constexpr double noise_at(double t) { return t < 1 ? t / (1 - t) : std::numeric_limits<double>::infinity(); }
constexpr double at_noise(double noise) {
  return noise == std::numeric_limits<double>::infinity() ? 1 : noise / (1 + noise);
}

/// Of |mean|^2 / sum |delta_r|^2, which is (1 + B / n) / (n (1 + B)).
constexpr double noise_of_mean(double ratio, double n) {
  const double t = (n - ratio * n * n) / (n - 1);
  return n < 2 || t != t ? std::numeric_limits<double>::quiet_NaN() : noise_at(t < 0 ? 0 : t);
}

}  // namespace model

/// How much longer than the mean of the deltas their adaptive sum is. `noise` is from 0 to infinity.
constexpr double adasum_gain(double noise, std::int32_t ranks) { return model::gain_at(model::at_noise(noise), ranks); }

constexpr double adasum_orthogonality(double noise, std::int32_t ranks) {
  return model::orthogonality_at(model::at_noise(noise), ranks);
}

/// The noise scale of which adasum_orthogonality answers that: 0 below 1/ranks, infinity from 1 on, NaN of NaN and of
/// a single rank, whose delta tells nothing.
constexpr double adasum_noise(double orthogonality, std::int32_t ranks) {
  if (ranks < 2 || orthogonality != orthogonality) return std::numeric_limits<double>::quiet_NaN();
  if (orthogonality >= 1) return std::numeric_limits<double>::infinity();
  double low = 0, high = 1;
  for (int halvings = 0; halvings < 53; ++halvings) {
    const double t = (low + high) / 2;
    (model::orthogonality_at(t, ranks) < orthogonality ? low : high) = t;
  }
  return model::noise_at(low);
}

/// What a step says about a tensor. The same bits on all ranks.
struct tensor_telemetry {
  double delta_norm2 = 0;    ///< sum over ranks of |delta|^2
  double reduced_norm2 = 0;  ///< |what the weights moved by|^2
  /// The second by the first; NaN if no rank moved. Of Adasum it is from 0 to 1: 1 of orthogonal deltas, 1/ranks of
  /// equal ones, less of parallel ones that differ in length, 0 of those that cancel each other. Of the sum it is at
  /// most ranks, of the mean 1/ranks. Of Adasum by nodes ("two_level"), N nodes of m ranks each, it is N/(m ranks) of
  /// orthogonal deltas and 1/ranks of equal ones: the means inside nodes shrink what is orthogonal.
  double orthogonality = 0;
  double noise = 0;  ///< B of the model above that explains it; NaN, not known, of Adasum by nodes
  /// By that model, of this reduction over the mean: S(ranks), not known of Adasum by nodes; of the sum it is ranks, of
  /// the mean 1.
  double gain = 0;
  bool is_non_finite = false;  ///< an element of what the weights moved by is not finite
};

/// The weights outlive it, and so does the runtime. One pass over them before a step, one after it, and an allreduce of
/// a double for each tensor.
template <std::floating_point T>
class telemetry {
 public:
  /// Collective. `how` as in the options of the delta_step; `is_by_nodes` of "two_level".
  telemetry(lsched::world& world, std::span<const T> weights, std::vector<lsched_tensor> tensors = {},
            lsched::combine how = lsched::combine::adasum, bool is_by_nodes = false)
      : weights_(weights),
        tensors_(std::move(tensors)),
        how_(how),
        is_by_nodes_(is_by_nodes),
        ranks_(world.size()),
        start_(weights.begin(), weights.end()) {
    if (tensors_.empty()) tensors_ = {{0, weights_.size()}};
    norms_.resize(tensors_.size());
    sums_ = world.allreduce<double>(std::span(norms_));
  }

  void before_step() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) norms_[i] = moved(tensors_[i]).norm2;
  }

  /// Collective. One for each tensor.
  std::vector<tensor_telemetry> after_step(lsched::timeout limit = lsched::timeout::forever()) {
    sums_.run(limit);
    std::vector<tensor_telemetry> all;
    for (std::size_t i = 0; i < tensors_.size(); ++i) all.push_back(told(norms_[i], moved(tensors_[i])));
    std::copy(weights_.begin(), weights_.end(), start_.begin());
    return all;
  }

 private:
  struct change {
    double norm2 = 0;
    bool is_finite = true;
  };

  change moved(const lsched_tensor& of) const {
    change all;
    for (std::uint64_t i = of.begin; i < of.begin + of.count; ++i) {
      const double delta = static_cast<double>(weights_[i]) - static_cast<double>(start_[i]);
      all.norm2 += delta * delta;
      all.is_finite &= std::isfinite(delta);
    }
    return all;
  }

  tensor_telemetry told(double delta_norm2, const change& reduced) const {
    tensor_telemetry it{delta_norm2, reduced.norm2, reduced.norm2 / delta_norm2};
    it.is_non_finite = !reduced.is_finite;
    if (is_by_nodes_) {
      it.noise = it.gain = std::numeric_limits<double>::quiet_NaN();
    } else if (how_ == lsched::combine::adasum) {
      it.noise = adasum_noise(it.orthogonality, ranks_);
      it.gain = ranks_ == 1 ? 1 : adasum_gain(it.noise, ranks_);
    } else {
      it.gain = how_ == lsched::combine::sum ? ranks_ : 1;
      it.noise = model::noise_of_mean(it.orthogonality / (it.gain * it.gain), ranks_);
    }
    return it;
  }

  std::span<const T> weights_;
  std::vector<lsched_tensor> tensors_;
  lsched::combine how_;
  bool is_by_nodes_;
  std::int32_t ranks_;
  std::vector<T> start_;
  std::vector<double> norms_;  ///< of the deltas, squared; after the allreduce their sums over ranks
  lsched::schedule sums_;
};
