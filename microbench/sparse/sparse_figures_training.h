// A small model to train: gradients that fade, as those of real ones do, and differ from rank to rank.
//
// 64 inputs, a hidden layer, 10 classes; ReLU, softmax, cross entropy. The data are 1440 pictures of 8 x 8 points, made
// of the seed: each class has its spots, each picture has them somewhat shifted, brighter or darker, with noise. Sums
// are of f32 in a fixed order: the same program makes the same numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/base.h"

namespace lsched::bench {

class small_model {
 public:
  /// Of as many parameters as nearest_size() says.
  small_model(std::uint64_t parameters, std::uint64_t seed);

  /// 75 for each hidden unit, of which there is one at least, and 10.
  static std::uint64_t nearest_size(std::uint64_t parameters);

  std::uint64_t parameters() const { return weights_.size(); }

  /// Of the mean loss of a rank's 16 pictures of a round; answers that loss. to: one for each parameter.
  double gradient(rank r, round_no round, std::span<float> to);
  /// weights -= update
  void learn(std::span<const float> update);

 private:
  void make_pictures();
  double add_gradient_of(std::size_t picture, std::span<float> to);

  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<float> weights_;   ///< of the hidden units, input by input; their biases; of each class; their biases
  std::vector<float> pictures_;  ///< 64 each
  std::vector<std::uint8_t> labels_;
  std::vector<float> activation_, back_;  ///< of the hidden layer
};

}  // namespace lsched::bench
