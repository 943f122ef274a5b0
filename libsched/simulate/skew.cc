#include "libsched/simulate/skew.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

// A salt for each kind of draw, so that draws of different kinds are independent.
constexpr std::uint64_t k_start_salt = 0x7374617274, k_cpu_salt = 0x637075;

constexpr std::uint64_t bits_of(std::uint64_t stream, std::uint64_t i) { return mix(mix(stream) ^ i); }

/// Returns a number in (0, 1]. It is not 0, so that its logarithm exists.
double uniform(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

double exponential(std::uint64_t bits) { return -std::log(uniform(bits)); }

/// Returns a standard normal number (Box and Muller, 1958).
double normal(std::uint64_t bits) {
  return std::sqrt(2 * exponential(bits)) * std::cos(2 * std::numbers::pi * uniform(mix(bits)));
}

}  // namespace

start_times::start_times(start_skew skew, rank size, round_no instance)
    : skew_(skew),
      size_(size),
      turns_(static_cast<std::int64_t>((instance - 1) % static_cast<round_no>(std::max(size, 1)))),
      stream_(bits_of(skew_.seed ^ k_start_salt, instance)) {}

picoseconds start_times::operator()(rank r) const {
  const picoseconds time = drawn(r);
  return skew_.most > 0 ? std::min(time, skew_.most) : time;
}

picoseconds start_times::drawn(rank r) const {
  switch (skew_.kind) {
    case skew_kind::none: return 0;
    case skew_kind::linear: return product(r, skew_.scale);
    case skew_kind::rotating: return sum(skew_.shift, product((r + turns_) % size_, skew_.scale));
    case skew_kind::lognormal: {
      const double factor = std::exp(skew_.sigma * normal(bits_of(stream_, static_cast<std::uint64_t>(r))));
      return sum(skew_.shift, rounded(static_cast<double>(skew_.scale) * factor));
    }
    case skew_kind::straggler: {
      const auto size = static_cast<std::uint64_t>(size_);
      return static_cast<std::uint64_t>(r) == bits_of(stream_, size - 1) % size ? skew_.scale : 0;
    }
  }
  return 0;
}

picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op) {
  const std::uint64_t rank_bits = bits_of(bits_of(noise.seed ^ k_cpu_salt, instance), static_cast<std::uint64_t>(r));
  return rounded(static_cast<double>(noise.mean) * exponential(bits_of(rank_bits, op)));
}

std::string_view name_of(skew_kind kind) {
  constexpr std::array<std::string_view, 5> names{"none", "linear", "rotating", "lognormal", "straggler"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace lsched
