// The regression: points around a hyperplane, and the gradient of the mean squared error.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

/// Reproducible random numbers from -1 to 1 (splitmix64; Steele, Lea, Flood 2014).
class draws {
 public:
  explicit draws(std::uint64_t seed) : state_(seed) {}
  float next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<float>(static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1);
  }

 private:
  std::uint64_t state_;
};

/// Returns the rank that is late in a step. All ranks get the same result.
inline int late_rank(unsigned seed, int step, int ranks) {
  draws of(std::uint64_t{seed} << 32 | static_cast<unsigned>(step));
  of.next();
  return static_cast<int>((of.next() + 1) / 2 * static_cast<float>(ranks)) % ranks;
}

/// The hyperplane y = a x + b, and the noise.
struct problem {
  static constexpr float k_noise = 2;  ///< bound of the noise; its variance, 4/3, is the loss that remains
  std::vector<float> coefficients;     ///< a, followed by b
  std::uint64_t seed;

  problem(int dimensions, unsigned from) : coefficients(static_cast<std::size_t>(dimensions) + 1), seed(from) {
    draws of(seed);
    for (float& one : coefficients) one = 10 * of.next();
  }
};

/// The points of one rank. A row has x, followed by a 1 as the factor of b. y is stored separately.
class shard {
 public:
  shard(const problem& plane, int number, int rows)
      : size_(plane.coefficients.size()),
        x_(size_ * static_cast<std::size_t>(rows)),
        y_(static_cast<std::size_t>(rows)) {
    draws of(plane.seed + 1000 * static_cast<std::uint64_t>(number + 1));
    for (std::size_t row = 0; row < y_.size(); ++row) {
      float* const x = x_.data() + row * size_;
      for (std::size_t i = 0; i + 1 < size_; ++i) x[i] = of.next();
      x[size_ - 1] = 1;
      y_[row] = dot(x, plane.coefficients.data()) + problem::k_noise * of.next();
    }
  }

  std::size_t size() const { return size_; }
  int rows() const { return static_cast<int>(y_.size()); }

  /// Computes the gradient of the mean squared error over `count` rows, beginning with row `first`, with wrap-around.
  /// The function uses each row twice in succession, while the row is in the L1 cache.
  void gradient(int first, int count, const std::vector<float>& weights, std::vector<float>& out) const {
    out.assign(size_, 0);
    const float scale = 2.0f / static_cast<float>(count);
    for (int i = 0; i < count; ++i) {
      const std::size_t row = static_cast<std::size_t>((first + i) % rows());
      const float* const x = x_.data() + row * size_;
      const float error = scale * (dot(x, weights.data()) - y_[row]);
      for (std::size_t k = 0; k < size_; ++k) out[k] += error * x[k];
    }
  }

  double loss(const std::vector<float>& weights) const {
    double sum = 0;
    for (std::size_t row = 0; row < y_.size(); ++row) {
      const double error = dot(x_.data() + row * size_, weights.data()) - y_[row];
      sum += error * error;
    }
    return sum / static_cast<double>(y_.size());
  }

 private:
  /// Returns the dot product. Sixteen partial sums let additions run independently of each other.
  float dot(const float* x, const float* w) const {
    constexpr std::size_t k_lanes = 16;
    float sums[k_lanes]{};
    std::size_t i = 0;
    for (; i + k_lanes <= size_; i += k_lanes)
      for (std::size_t k = 0; k < k_lanes; ++k) sums[k] += x[i + k] * w[i + k];
    float rest = 0;
    for (; i < size_; ++i) rest += x[i] * w[i];
    return std::accumulate(sums, sums + k_lanes, rest);
  }

  std::size_t size_;
  std::vector<float> x_, y_;
};
