#include "microbench/sparse/sparse_figures_training.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "libsched/schedule/draw.h"

namespace lsched::bench {
namespace {

constexpr std::size_t k_edge = 8;
constexpr std::size_t k_inputs = k_edge * k_edge;
constexpr std::size_t k_classes = 10;
constexpr std::size_t k_unit = k_inputs + 1 + k_classes;  ///< parameters of a hidden unit
constexpr std::size_t k_pictures = 1440;
constexpr std::size_t k_batch = 16;
constexpr std::size_t k_spots = 4;

/// A stream of random numbers from a seed.
class stream {
 public:
  explicit stream(std::uint64_t seed) : bits_(mix(seed)) {}

  std::uint64_t next() { return bits_ = mix(bits_); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Returns an approximately normally distributed number: the sum of twelve uniform numbers.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t bits_;
};

struct spot {
  double x, y, width;
};

double light_at(std::span<const spot> spots, double x, double y) {
  double light = 0;
  for (const spot& one : spots) {
    const double dx = x - one.x, dy = y - one.y;
    light += std::exp(-(dx * dx + dy * dy) / (2 * one.width * one.width));
  }
  return light;
}

void add_scaled(float factor, const float* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace

std::uint64_t small_model::nearest_size(std::uint64_t parameters) {
  const std::uint64_t rest = std::max<std::uint64_t>(parameters, k_classes) - k_classes;
  return std::max<std::uint64_t>(1, (rest + k_unit / 2) / k_unit) * k_unit + k_classes;
}

small_model::small_model(std::uint64_t parameters, std::uint64_t seed)
    : hidden_((nearest_size(parameters) - k_classes) / k_unit),
      seed_(seed),
      weights_(nearest_size(parameters)),
      activation_(hidden_),
      back_(hidden_) {
  stream draw(mix(seed) ^ 1);
  const double into_hidden = std::sqrt(2.0 / k_inputs), into_class = std::sqrt(1.0 / static_cast<double>(hidden_));
  for (std::size_t i = 0; i < hidden_ * k_inputs; ++i) weights_[i] = static_cast<float>(into_hidden * draw.normal());
  float* const classes = weights_.data() + hidden_ * (k_inputs + 1);
  for (std::size_t i = 0; i < hidden_ * k_classes; ++i) classes[i] = static_cast<float>(into_class * draw.normal());
  make_pictures();
}

void small_model::make_pictures() {
  stream draw(mix(seed_) ^ 2);
  std::array<std::array<spot, k_spots>, k_classes> classes;
  for (auto& spots : classes)
    for (spot& one : spots) one = {1 + 5 * draw.uniform(), 1 + 5 * draw.uniform(), 0.6 + 0.6 * draw.uniform()};
  pictures_.reserve(k_pictures * k_inputs);
  for (std::size_t i = 0; i < k_pictures; ++i) {
    const std::size_t label = i % k_classes;
    const double dx = draw.normal() * 0.4, dy = draw.normal() * 0.4, bright = 0.7 + 0.6 * draw.uniform();
    for (std::size_t point = 0; point < k_inputs; ++point) {
      const double x = static_cast<double>(point % k_edge) - dx, y = static_cast<double>(point / k_edge) - dy;
      const double light = bright * light_at(classes[label], x, y) + 0.2 * draw.normal() - 0.1;
      pictures_.push_back(static_cast<float>(std::clamp(light, 0.0, 1.0)));
    }
    labels_.push_back(static_cast<std::uint8_t>(label));
  }
}

double small_model::gradient(rank r, round_no round, std::span<float> to) {
  std::ranges::fill(to, 0.0F);
  stream draw(mix(mix(mix(seed_) ^ 3) ^ static_cast<std::uint64_t>(r)) ^ round);
  double loss = 0;
  for (std::size_t i = 0; i < k_batch; ++i) loss += add_gradient_of(draw.next() % k_pictures, to);
  for (float& slope : to) slope /= static_cast<float>(k_batch);
  return loss / static_cast<double>(k_batch);
}

double small_model::add_gradient_of(std::size_t picture, std::span<float> to) {
  const float* const input = pictures_.data() + picture * k_inputs;
  const std::size_t biases = hidden_ * k_inputs, classes = biases + hidden_,
                    class_biases = classes + hidden_ * k_classes;

  std::copy_n(weights_.data() + biases, hidden_, activation_.data());
  for (std::size_t i = 0; i < k_inputs; ++i)
    add_scaled(input[i], weights_.data() + i * hidden_, hidden_, activation_.data());
  for (float& unit : activation_) unit = std::max(unit, 0.0F);

  std::array<double, k_classes> chance{};
  for (std::size_t c = 0; c < k_classes; ++c) {
    double sum = weights_[class_biases + c];
    for (std::size_t h = 0; h < hidden_; ++h) sum += weights_[classes + c * hidden_ + h] * activation_[h];
    chance[c] = sum;
  }
  const double most = *std::ranges::max_element(chance);
  double all = 0;
  for (double& each : chance) all += each = std::exp(each - most);
  for (double& each : chance) each /= all;

  std::ranges::fill(back_, 0.0F);
  for (std::size_t c = 0; c < k_classes; ++c) {
    const auto wrong = static_cast<float>(chance[c] - (c == labels_[picture] ? 1 : 0));
    add_scaled(wrong, activation_.data(), hidden_, to.data() + classes + c * hidden_);
    add_scaled(wrong, weights_.data() + classes + c * hidden_, hidden_, back_.data());
    to[class_biases + c] += wrong;
  }
  for (std::size_t h = 0; h < hidden_; ++h) back_[h] = activation_[h] > 0 ? back_[h] : 0;
  for (std::size_t i = 0; i < k_inputs; ++i) add_scaled(input[i], back_.data(), hidden_, to.data() + i * hidden_);
  add_scaled(1, back_.data(), hidden_, to.data() + biases);
  return -std::log(std::max(chance[labels_[picture]], 1e-300));
}

void small_model::learn(std::span<const float> update) {
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= update[i];
}

}  // namespace lsched::bench
