// A small model that ranks train. As in real training, the gradients become smaller, and differ from rank to rank.
//
// The model has 64 inputs, a hidden layer and 10 classes, with ReLU, softmax and cross entropy. The data are 1440
// pictures of 8 x 8 points, generated from the seed. Each class has a set of spots. Each picture shows the spots of its
// class slightly shifted, brighter or darker, with noise. Sums of f32 are formed in a fixed order, so the same program
// gives the same numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/base.h"

namespace lsched::bench {

class small_model {
 public:
  /// Creates a model with nearest_size(parameters) parameters.
  small_model(std::uint64_t parameters, std::uint64_t seed);

  /// Returns the nearest possible number of parameters: 75 h + 10 for a model with h hidden units, h at least 1.
  static std::uint64_t nearest_size(std::uint64_t parameters);

  std::uint64_t parameters() const { return weights_.size(); }

  /// Computes the gradient of the mean loss over a rank's 16 pictures of a round. Returns the loss. `to` has one
  /// element for each parameter.
  double gradient(rank r, round_no round, std::span<float> to);
  void learn(std::span<const float> update);

 private:
  void make_pictures();
  double add_gradient_of(std::size_t picture, std::span<float> to);

  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<float> weights_;   ///< hidden weights by input, hidden biases, weights by class, biases of classes
  std::vector<float> pictures_;  ///< 64 points each
  std::vector<std::uint8_t> labels_;
  std::vector<float> activation_, back_;  ///< hidden layer: activations, and gradients from back-propagation
};

}  // namespace lsched::bench
