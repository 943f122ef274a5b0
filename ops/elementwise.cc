// Finding the right kernel: which SIMD targets this build has, which of them this CPU runs, and their tables.
//
// The arithmetic is in ops/elementwise-inl.h, which Highway includes here once for each target.
#include "ops/elementwise.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

// SSE4 is nearly as old as SSSE3 and serves the same machines: one target less to compile and test.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
#define HWY_TARGET_INCLUDE "ops/elementwise-inl.h"
#include "hwy/foreach_target.h"
#include "ops/elementwise-inl.h"

namespace lsched {
namespace {

constexpr std::array<std::string_view, 13> k_kernel_names{"none", "copy", "sum",  "prod", "min",  "max", "land",
                                                          "lor",  "lxor", "band", "bor",  "bxor", "user"};
static_assert(k_kernel_names.size() == static_cast<std::size_t>(kernel::user) + 1);

struct target {
  std::int64_t bit;
  const target_table* table;
};

/// Highway numbers its targets from best to worst.
constexpr int k_target_bits = 63;

template <std::size_t... Bits>
consteval auto all_targets(std::index_sequence<Bits...>) {
  return std::array{target{std::int64_t{1} << Bits, k_table_of_target<std::int64_t{1} << Bits>}...};
}

constexpr auto k_targets = all_targets(std::make_index_sequence<k_target_bits>());

/// The static target is what the compiler may use anywhere: if it cannot run, neither can this line.
bool can_run(const target& candidate) {
  if (candidate.table == nullptr) return false;
  return candidate.bit == HWY_STATIC_TARGET || (hwy::SupportedTargets() & candidate.bit) != 0;
}

const target& best_target() { return *std::find_if(k_targets.begin(), k_targets.end(), can_run); }

/// Null lifts the restriction. The targets are constants, so nothing needs to be ordered by this pointer.
std::atomic<const target*> g_forced{nullptr};

const target& current_target() {
  static const target& best = best_target();
  const target* forced = g_forced.load(std::memory_order_relaxed);
  return forced != nullptr ? *forced : best;
}

/// The largest T need not be a double, but one more than it is a power of two, and always is.
template <class T>
T nearest(double value) {
  using limits = std::numeric_limits<T>;
  constexpr double lowest = static_cast<double>(limits::min());
  constexpr double beyond = 2.0 * static_cast<double>(T{1} << (limits::digits - 1));
  const double rounded = std::nearbyint(value);
  if (rounded >= beyond) return limits::max();
  if (rounded <= lowest) return limits::min();
  return std::isnan(rounded) ? T{0} : static_cast<T>(rounded);
}

template <class T>
void scale_integers(void* x, std::size_t count, double factor) {
  T* element = static_cast<T*>(x);
  for (std::size_t i = 0; i < count; ++i) element[i] = nearest<T>(static_cast<double>(element[i]) * factor);
}

constexpr std::array<scale_fn, 5> k_scale_integers{&scale_integers<std::int8_t>, &scale_integers<std::uint8_t>,
                                                   &scale_integers<std::int32_t>, &scale_integers<std::int64_t>,
                                                   &scale_integers<std::uint64_t>};
static_assert(k_scale_integers.size() == column_of(dtype::f16));

}  // namespace

std::string_view name_of(kernel what) {
  const auto index = static_cast<std::size_t>(what);
  return index < k_kernel_names.size() ? k_kernel_names[index] : "unknown";
}

reduce_fn find_reduce(kernel what, dtype type) {
  if (!is_reduction(what) || what > kernel::bxor || type > dtype::f64) return nullptr;
  return current_target().table->reduce[row_of(what)][column_of(type)];
}

void scale(dtype type, void* x, std::size_t count, double factor) {
  // Integers beyond 2^53 are no doubles: a mean over one rank must not change them.
  if (factor == 1.0) return;
  const std::size_t column = column_of(type);
  const scale_fn run = is_floating(type) ? current_target().table->scale[column] : k_scale_integers[column];
  run(x, count, factor);
}

std::string_view simd_target() { return hwy::TargetName(current_target().bit); }

std::string_view simd_target_at(std::size_t place) {
  for (const target& candidate : k_targets)
    if (can_run(candidate) && place-- == 0) return hwy::TargetName(candidate.bit);
  return {};
}

bool force_simd_target(std::string_view name) {
  if (name.empty()) {
    g_forced.store(nullptr, std::memory_order_relaxed);
    return true;
  }
  for (const target& candidate : k_targets) {
    if (!can_run(candidate) || name != hwy::TargetName(candidate.bit)) continue;
    g_forced.store(&candidate, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace lsched
