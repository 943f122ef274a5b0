#include "ops/target.h"

#include <atomic>
#include <string_view>

#include "ops/kernel.h"

#include "hwy/highway.h"

namespace lsched {
namespace {

constexpr std::int64_t bit_at(std::size_t place) { return std::int64_t{1} << place; }

/// The static target is what the compiler may use anywhere: if it cannot run, neither can this line. (Asking the CPU
/// takes long where it is a virtual one.)
bool can_run(std::size_t place) {
  static const std::int64_t runnable = (HWY_TARGETS & hwy::SupportedTargets()) | HWY_STATIC_TARGET;
  return (runnable & bit_at(place)) != 0;
}

std::size_t best_target() {
  std::size_t place = 0;
  while (!can_run(place)) ++place;
  return place;
}

constexpr std::size_t k_not_forced = k_target_bits;

/// Tables of kernels are constants, so nothing needs to be ordered by this number.
std::atomic<std::size_t> g_forced{k_not_forced};

}  // namespace

std::size_t current_target() {
  static const std::size_t best = best_target();
  const std::size_t forced = g_forced.load(std::memory_order_relaxed);
  return forced != k_not_forced ? forced : best;
}

std::string_view simd_target() { return hwy::TargetName(bit_at(current_target())); }

std::string_view simd_target_at(std::size_t place) {
  for (std::size_t candidate = 0; candidate < k_target_bits; ++candidate)
    if (can_run(candidate) && place-- == 0) return hwy::TargetName(bit_at(candidate));
  return {};
}

bool force_simd_target(std::string_view name) {
  if (name.empty()) {
    g_forced.store(k_not_forced, std::memory_order_relaxed);
    return true;
  }
  for (std::size_t candidate = 0; candidate < k_target_bits; ++candidate) {
    if (!can_run(candidate) || name != hwy::TargetName(bit_at(candidate))) continue;
    g_forced.store(candidate, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace lsched
