#include "libsched/skew.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "libsched/draw.h"

namespace lsched {
namespace {

// Different questions get unrelated answers.
constexpr std::uint64_t k_start_salt = 0x7374617274, k_cpu_salt = 0x637075, k_wire_salt = 0x77697265;

constexpr std::uint64_t bits_of(std::uint64_t stream, std::uint64_t i) { return mix(mix(stream) ^ i); }

/// In (0, 1]: a logarithm of it exists.
double uniform(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

double exponential(std::uint64_t bits) { return -std::log(uniform(bits)); }

/// Box and Muller (1958).
double normal(std::uint64_t bits) {
  return std::sqrt(2 * exponential(bits)) * std::cos(2 * std::numbers::pi * uniform(mix(bits)));
}

picoseconds whole(double time) { return static_cast<picoseconds>(std::llround(time)); }

std::uint64_t charge_bits(const cpu_noise& noise, std::uint64_t salt, rank r, round_no instance, std::uint64_t op) {
  return bits_of(bits_of(bits_of(noise.seed ^ salt, instance), static_cast<std::uint64_t>(r)), op);
}

/// How long the CPU is away while it works off `cost` from `begin` on: it leaves at phase + k * period.
picoseconds away(const cpu_noise& noise, std::uint64_t phase_bits, picoseconds begin, picoseconds cost) {
  const picoseconds period = noise.period, works = period - noise.scale;
  const auto phase = static_cast<picoseconds>(phase_bits % static_cast<std::uint64_t>(period));
  const picoseconds into = (begin + phase) % period;  // [0, works): there; [works, period): away
  const picoseconds wait = into >= works ? period - into : 0;
  const picoseconds left = wait > 0 ? works : works - into;
  if (cost <= left) return wait;
  return wait + noise.scale * ((cost - left + works - 1) / works);
}

}  // namespace

start_times::start_times(start_skew skew, rank size, round_no instance)
    : skew_(std::move(skew)), size_(size), stream_(bits_of(skew_.seed ^ k_start_salt, instance)) {
  if (skew_.kind == skew_kind::stragglers) draw_stragglers();
}

// Floyd's sampling without repetition.
void start_times::draw_stragglers() {
  for (rank last = std::max(size_ - skew_.count, 0); last < size_; ++last) {
    const std::uint64_t bits = bits_of(stream_, static_cast<std::uint64_t>(last));
    const auto drawn = static_cast<rank>(bits % (static_cast<std::uint64_t>(last) + 1));
    const auto place = std::lower_bound(stragglers_.begin(), stragglers_.end(), drawn);
    if (place == stragglers_.end() || *place != drawn)
      stragglers_.insert(place, drawn);
    else
      stragglers_.push_back(last);  // larger than all before
  }
}

picoseconds start_times::operator()(rank r) const {
  const picoseconds time = drawn(r);
  return skew_.most > 0 ? std::min(time, skew_.most) : time;
}

picoseconds start_times::drawn(rank r) const {
  const std::uint64_t bits = bits_of(stream_, static_cast<std::uint64_t>(r));
  const auto scale = static_cast<double>(skew_.scale);
  switch (skew_.kind) {
    case skew_kind::none: return 0;
    case skew_kind::linear: return r * skew_.scale;
    case skew_kind::uniform: return skew_.shift + whole(scale * uniform(bits));
    case skew_kind::lognormal: return skew_.shift + whole(scale * std::exp(skew_.sigma * normal(bits)));
    case skew_kind::stragglers:
      return std::binary_search(stragglers_.begin(), stragglers_.end(), r) ? skew_.scale : 0;
    case skew_kind::empirical:
      return skew_.samples.empty() ? 0 : skew_.samples[bits % skew_.samples.size()];
  }
  return 0;
}

picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost) {
  const auto scale = static_cast<double>(noise.scale);
  const std::uint64_t bits = charge_bits(noise, k_cpu_salt, r, instance, op);
  switch (noise.kind) {
    case noise_kind::none: return 0;
    case noise_kind::periodic:
      return away(noise, bits_of(noise.seed ^ k_cpu_salt, static_cast<std::uint64_t>(r)), begin, cost);
    case noise_kind::exponential: return whole(scale * exponential(bits));
    case noise_kind::pareto: return whole(scale * (std::pow(uniform(bits), -1 / noise.alpha) - 1));
  }
  return 0;
}

picoseconds jitter_of(const cpu_noise& noise, rank from, round_no instance, std::uint64_t op) {
  if (noise.jitter == 0) return 0;
  return whole(static_cast<double>(noise.jitter) * exponential(charge_bits(noise, k_wire_salt, from, instance, op)));
}

std::string_view name_of(skew_kind kind) {
  constexpr std::array<std::string_view, 6> names{"none", "linear", "uniform", "lognormal", "stragglers", "empirical"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(noise_kind kind) {
  constexpr std::array<std::string_view, 4> names{"none", "periodic", "exponential", "pareto"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace lsched
