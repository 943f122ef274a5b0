// The problem: fit a polynomial to points. Computes the gradient of the squared error with respect to the coefficients.
//
// The arithmetic is in float. Its operations have the order of the published example. If the points are those of
// a square function, the fit ends with a gradient of exactly zero. So rounding influences the number of steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

/// Random numbers from 0 to 1 with 53 bits, equal to those of numpy's RandomState(seed).rand().
class draws {
 public:
  explicit draws(std::uint32_t seed) : bits_(seed) {}
  double next() {
    const std::uint64_t high = bits_() >> 5, low = bits_() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }

 private:
  std::mt19937 bits_;
};

struct polynomial {
  bool is_cubic = false;

  std::vector<float> first_guess() const { return is_cubic ? std::vector<float>{1, -1, 1} : std::vector<float>{1, -1}; }

  /// Computes the gradient of (model - truth)^2 at x. This program fits the cubic with a model of the third degree. The
  /// published example selected the model of the square by mistake (a missing negation), so the cubic could not be
  /// fitted.
  void gradient(float x, std::span<const float> guess, std::span<float> out) const {
    if (is_cubic) {
      const float truth = 10.0f * x * x * x + 5.0f * x * x + -20.0f * x + -5.0f;
      const float model = 10.0f * x * x * x + guess[0] * x * x + (guess[1] * x + guess[2]);
      const float slope = 2 * (model - truth);
      out[0] = slope * x * x;
      out[1] = slope * x;
      out[2] = slope;
    } else {
      const float truth = x * x + -20.0f * x + 50.0f;
      const float model = x * x + guess[0] * x + guess[1];
      const float slope = 2 * (model - truth);
      out[0] = slope * x;
      out[1] = slope;
    }
  }

  /// Returns true if a fit may end. The gradient of the square becomes exactly zero. The gradient of the cubic keeps
  /// changing in the last bits.
  bool is_over(std::span<const float> gradient) const {
    return std::ranges::all_of(gradient, [&](float it) { return is_cubic ? std::fabs(it) < 1e-4f : it == 0; });
  }

  /// Returns the maximum number of steps of a fit. As in the published plots, a fit that does not end is plotted at
  /// twice this number.
  int most_steps() const { return is_cubic ? 200 : 50; }
};
