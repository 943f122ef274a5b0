// What is fitted: y = a x + noise, of which a few elements of `a` matter much and most matter little.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

/// Points of the line, drawn by a seed.
class points {
 public:
  explicit points(std::span<const float> line, std::uint32_t seed) : line_(line), bits_(seed), x_(line.size()) {}

  /// The next one, until the call after: x, and by how much a guess's y is too large there.
  std::span<const float> x() const { return x_; }
  float next(std::span<const float> guess) {
    float error = 0.1f * normal_(bits_);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = normal_(bits_);
      error += (guess[i] - line_[i]) * x_[i];
    }
    return error;
  }

  /// The gradient of the mean of error^2 / 2 over so many more points.
  void gradient(int batch, std::span<const float> guess, std::span<float> out) {
    for (float& it : out) it = 0;
    for (int point = 0; point < batch; ++point) {
      const float error = next(guess) / static_cast<float>(batch);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += error * x_[i];
    }
  }

 private:
  std::span<const float> line_;
  std::mt19937 bits_;
  std::normal_distribution<float> normal_{};
  std::vector<float> x_;
};

/// The mean of error^2 over points that nobody learns from.
inline double loss_of(std::span<const float> line, std::span<const float> guess) {
  constexpr int k_points = 200;
  points unseen(line, 1);
  double sum = 0;
  for (int point = 0; point < k_points; ++point) {
    const auto error = static_cast<double>(unseen.next(guess));
    sum += error * error;
  }
  return sum / k_points;
}

inline std::vector<float> draw_line(std::size_t count) {
  std::mt19937 bits(2);
  std::normal_distribution<float> normal;
  std::vector<float> line(count);
  for (std::size_t i = 0; i < count; ++i) line[i] = normal(bits) / std::sqrt(static_cast<float>(1 + i));
  return line;
}
