// The fit: points of a polynomial, and the gradient of the squared error in its unknown coefficients.
//
// All in float, in the order in which the published example computes it: a fit of the square ends with a gradient of
// exactly zero, so that the last bit decides which step that is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

/// From 0 to 1, 53 bits of it: what numpy's RandomState(seed).rand() draws.
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

  /// Of (model - truth)^2 at x. The cubic's model is one of the third degree: in the published example it was the
  /// square's, for want of the right negation, and could not be fitted.
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

  /// The square's is exactly zero in the end. The cubic's goes on moving in the last bits.
  bool is_over(std::span<const float> gradient) const {
    return std::ranges::all_of(gradient, [&](float it) { return is_cubic ? std::fabs(it) < 1e-4f : it == 0; });
  }

  /// Steps a fit may take. What has not ended then is drawn at twice that, as it was published.
  int most_steps() const { return is_cubic ? 200 : 50; }
};
